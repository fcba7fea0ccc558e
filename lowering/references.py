"""Decompositions of our own, where torch's hides from fusion what belongs together."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._prims_common import get_computation_dtype, suggest_memory_format

aten = torch.ops.aten


def native_group_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: int, channels: int, extent: int, groups: int,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:
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


OWN = {aten.native_group_norm.default: native_group_norm}
