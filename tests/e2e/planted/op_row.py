"""A fault in rows of the op table: gelu is too large by a hundredth of its square, which no normalising undoes; and so
is a lookup, for programs whose GELUs are epilogues of matmuls and need no row."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from lowering.ops import TABLE

OPS = (torch.ops.aten.gelu.default, torch.ops.aten.embedding.default)


def too_large(lower: Any) -> Any:
    """What ``lower`` gives, and more."""

    def wrong(scope: Any, node: Any, coords: Any) -> Any:
        right = lower(scope, node, coords)
        return right + right * right * 0.01

    return wrong


for op in OPS:
    TABLE[op] = dataclasses.replace(TABLE[op], lower=too_large(TABLE[op].lower))
