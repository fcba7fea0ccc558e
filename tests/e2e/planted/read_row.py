"""A fault in the row of a lookup: every element is too large by a hundredth of its square. (Its GELUs are epilogues
of matmuls, and need no row.)"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from lowering.ops import TABLE

OP = torch.ops.aten.embedding.default
ROW = TABLE[OP]


def wrong(scope: Any, node: Any, coords: Any) -> Any:
    """embedding, and more."""
    assert ROW.lower is not None
    right = ROW.lower(scope, node, coords)
    return right + right * right * 0.01


TABLE[OP] = dataclasses.replace(ROW, lower=wrong)
