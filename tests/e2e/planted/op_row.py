"""A fault in one row of the op table: gelu is too large by a hundredth of its square, which no normalising undoes."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from lowering.ops import TABLE

OP = torch.ops.aten.gelu.default
ROW = TABLE[OP]


def wrong(scope: Any, node: Any, coords: Any) -> Any:
    """gelu, and more."""
    assert ROW.lower is not None
    right = ROW.lower(scope, node, coords)
    return right + right * right * 0.01


TABLE[OP] = dataclasses.replace(ROW, lower=wrong)
