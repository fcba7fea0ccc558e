"""Decompositions of our own, where torch's hides from fusion what belongs together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._prims_common import get_computation_dtype, suggest_memory_format

aten = torch.ops.aten


def native_group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    extent: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise over each group of channels, as (batch, groups) rows of (channels / groups, extent) columns.

    Torch's own multiplies weight and deviation first, channel by channel, which takes a kernel between the two.
    """
    computation = get_computation_dtype(x.dtype)
    rows = x.to(computation).reshape(batch, groups, channels // groups, extent)
    variance, mean = torch.var_mean(rows, dim=[2, 3], correction=0, keepdim=True)
    deviation = torch.rsqrt(variance + eps)
    out = (rows - mean) * deviation
    if weight is not None:
        out = out * weight.reshape(1, groups, channels // groups, 1)
    if bias is not None:
        out = out + bias.reshape(1, groups, channels // groups, 1)
    out = out.reshape(x.shape).to(x.dtype).contiguous(memory_format=suggest_memory_format(x))
    statistics = x.dtype if weight is None else weight.dtype
    return out, mean.reshape(batch, groups).to(statistics), deviation.reshape(batch, groups).to(statistics)


def nll_loss_backward(
    grad: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    """-weight[target] * grad at each target class and zero elsewhere, by comparing positions instead of scattering.

    ``x`` has shape (batch, classes) or (classes,), ``target`` (batch,) or (); ``reduction`` is torch's enumeration
    (0 none, 1 mean, 2 sum). Torch's own scatters into a tensor of zeros first.
    """
    classes = torch.arange(x.shape[-1], device=x.device)
    chosen = (target.unsqueeze(-1) == classes) & (target != ignore_index).unsqueeze(-1)
    scale = grad / total_weight if reduction == 1 else grad
    scale = scale.unsqueeze(-1) if reduction == 0 else scale
    scale = -scale if weight is None else -scale * weight
    return torch.where(chosen, scale.to(x.dtype), 0)


def repeat(x: Tensor, repeats: list[int]) -> Tensor:
    """Torch's, contiguous as eager's is."""
    return decomposition_table[aten.repeat.default](x, repeats).contiguous()


def log_sigmoid_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    """Torch's, with eager's strides: contiguous whatever the argument's are."""
    out, buffer = decomposition_table[aten.log_sigmoid_forward.default](x)
    return out.contiguous(), buffer.contiguous()


def in_suggested_format(op: torch._ops.OpOverload) -> Callable[..., Any]:
    """Torch's decomposition of ``op``, its first result contiguous in the memory format of the argument, as ATen makes
    it."""
    decomposition = decomposition_table[op]

    def laid_out(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        results = decomposition(x, *args, **kwargs)
        first, *rest = (results,) if isinstance(results, Tensor) else results
        first = first.contiguous(memory_format=suggest_memory_format(x))
        return first if isinstance(results, Tensor) else (first, *rest)

    return laid_out


_LAID_OUT = (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
    aten._batch_norm_with_update_functional.default,
    aten._adaptive_avg_pool2d.default,
)


def roll(x: Tensor, shifts: list[int], dims: list[int] | None = None) -> Tensor:
    """Torch's, laid out as eager's: along dimensions in the memory format of the argument."""
    out = decomposition_table[aten.roll.default](x, shifts, dims or [])
    return out.contiguous(memory_format=suggest_memory_format(x) if dims else torch.contiguous_format)


def native_dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The strides are those of pointwise ops, as ATen's are on CPUs. Torch's own makes them those on GPUs."""
    return grad * (mask.to(grad.dtype) * scale)


def view_copy(x: Tensor, size: list[int]) -> Tensor:
    """Contiguous, and of any strides, as eager's is. Torch's own raises where there is no view of that size."""
    return x.reshape(size).clone(memory_format=torch.contiguous_format)


def scatter_reduce_mean(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A mean as a sum over a count, as eager's; other ways to reduce stay whole."""
    if reduce != "mean":
        return NotImplemented
    total = x.scatter_reduce(dim, index, src, "sum", include_self=include_self)
    counted = (torch.ones_like if include_self else torch.zeros_like)(x)
    return _mean(total, counted.scatter_add(dim, index, torch.ones_like(src)))


def index_reduce_mean(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The same by slices."""
    if reduce != "mean":
        return NotImplemented
    total = (x if include_self else x.index_fill(dim, index, 0)).index_add(dim, index, source)
    counted = (torch.ones_like if include_self else torch.zeros_like)(x)
    return _mean(total, counted.index_add(dim, index, torch.ones_like(source)))


def _mean(total: Tensor, count: Tensor) -> Tensor:
    count = torch.where(count == 0, 1, count)
    return total / count if total.is_floating_point() else torch.div(total, count, rounding_mode="floor")


OWN: dict[torch._ops.OperatorBase, Callable[..., Any]] = {
    **{op: in_suggested_format(op) for op in _LAID_OUT},
    aten.index_reduce.default: index_reduce_mean,
    aten.scatter_reduce.two: scatter_reduce_mean,
    aten.log_sigmoid_forward.default: log_sigmoid_forward,
    aten.repeat.default: repeat,
    aten.roll.default: roll,
    aten.native_dropout_backward.default: native_dropout_backward,
    aten.native_group_norm.default: native_group_norm,
    aten.nll_loss_backward.default: nll_loss_backward,
    aten.view_copy.default: view_copy,
}
