"""How far results are from eager's in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from aten_backend.comparison.workloads import Case

FLOOR = 1e-6
"""What is smaller than this share of the largest number of all counts as zero: float32 resolves 1e-7."""


def in_float64(case: Case) -> Case:
    """The same case with its parameters and its inputs, as they are, in float64."""
    fn = copy.deepcopy(case.fn).double() if isinstance(case.fn, torch.nn.Module) else case.fn
    return Case(fn, tree_map(_double, case.calls), tree_map(_double, dict(case.kwargs)), case.train, case.dynamic)


def _double(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        return value.to(torch.complex128)
    return value.double() if value.is_floating_point() else value


def tensors(output: Any) -> list[torch.Tensor]:
    """The tensors of an output, of whatever containers it is made. The outputs of transformers are mappings."""
    plain = dict(output) if isinstance(output, Mapping) else output
    return [leaf for leaf in tree_leaves(plain) if isinstance(leaf, torch.Tensor)]


def distance(results: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    """The largest difference of any element, as a share of the largest element of its tensor.

    A share, because a loss of 7 and a gradient of 1e-5 are compared together; but at least of ``FLOOR`` of the largest
    element of all, because some gradients are zero but for rounding (that of the bias of attention's keys). Infinite
    where one is NaN or infinite and the other is not the same, and where shapes or the number of tensors differ.
    """
    if len(results) != len(exact):
        return math.inf
    ours, theirs = list(map(_wide, results)), list(map(_wide, exact))
    floor = FLOOR * max(map(_largest, theirs), default=0.0)
    return max((_distance(mine, right, floor) for mine, right in zip(ours, theirs, strict=True)), default=0.0)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)


def _largest(tensor: torch.Tensor) -> float:
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _distance(mine: torch.Tensor, right: torch.Tensor, floor: float) -> float:
    if mine.shape != right.shape:
        return math.inf
    same = (mine == right) | (mine.isnan() & right.isnan())
    finite = mine.isfinite() & right.isfinite()
    if not bool((same | finite).all()):
        return math.inf
    if not bool(finite.any()):
        return 0.0
    return float((mine - right)[finite].abs().max()) / (max(_largest(right), floor) or 1.0)
