"""Which decompositions AOTAutograd applies before the lowering sees a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table, get_decompositions

from .foreach import foreach_decompositions
from .ops import TABLE, Kind
from .references import OWN

aten = torch.ops.aten

Table = Mapping[torch._ops.OperatorBase, Callable[..., Any]]

_COMPOSITES = (
    aten._softmax, aten._log_softmax, aten.native_layer_norm, aten.native_group_norm,
    aten._native_batch_norm_legit_no_training, aten.var, aten.std, aten.native_batch_norm,
    aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional, aten.addcmul, aten.addcdiv,
    aten.repeat, aten._softmax_backward_data, aten._log_softmax_backward_data, aten.native_layer_norm_backward,
    aten.native_group_norm_backward, aten.native_batch_norm_backward, aten.embedding_dense_backward,
    aten.nll_loss_forward, aten.nll_loss_backward, aten.gelu_backward, aten.hardtanh, aten.leaky_relu, aten.elu,
    aten.arange, aten.split_with_sizes, aten.empty_like, aten.std_mean, aten.dropout, aten.logsumexp,
    aten.linalg_vector_norm, aten.dist, aten._adaptive_avg_pool2d, aten._adaptive_avg_pool3d, aten.grid_sampler_2d,
    aten.ldexp, aten.logit, aten.renorm, aten._batch_norm_with_update_functional, aten.special_log_ndtr,
    aten.view_copy, aten.permute_copy, aten.narrow_copy, aten.unbind_copy, aten.as_strided_copy,
    aten.tril_indices, aten.triu_indices, aten.adaptive_max_pool2d,
)  # fmt: skip
"""Ops that core ATen keeps whole, but that fuse better with their neighbours when taken apart."""

KEPT = frozenset({
    aten.embedding_dense_backward.default,  # its decomposition masks by a copy of the gradient what a kernel skips
    aten.convolution_backward.default,
    aten.max_pool2d_with_indices.default,  # its reference gathers every window
    aten.addmm.default,  # passes/split_bias takes it apart where that pays
    aten.baddbmm.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,  # one tuned call, with its own tiling
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
})  # fmt: skip
"""Ops that stay whole whatever the level."""


@functools.cache
def decompositions(level: str) -> Table:
    """The table for ``ir="aten"`` (core ATen, normalisations and activations taken apart) or ``ir="prims"`` (as far as
    torch has references)."""
    if level == "prims":
        table = dict(decomposition_table)
        reads = [op for op, row in TABLE.items() if row.kind in (Kind.READ, Kind.SCAN)]
        # the references of some reads write into fresh memory piece by piece; those of _SAME refuse tensor literals,
        # those of _RESHAPES make an as_strided of a tensor without elements, which AOTAutograd takes for a write
        for op in (*_random_ops(), *reads, *_SAME, *_RESHAPES):
            table.pop(op, None)
        table[aten.stack.default] = core_aten_decompositions()[aten.stack.default]
    else:
        table = dict(core_aten_decompositions())
        table.update(get_decompositions(_COMPOSITES))
        for op in TABLE:
            if op.namespace == "aten" and op not in _COMPOSITE_ROWS:
                table.pop(op, None)
    for op in KEPT:
        table.pop(op, None)
    table.update(OWN)
    table.update(foreach_decompositions())
    return table


_SAME = (aten.alias.default, aten.detach.default, aten.lift.default, aten.lift_fresh.default)
_RESHAPES = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.stack.default)
_COMPOSITE_ROWS = frozenset({aten.lift_fresh_copy.default})


def _random_ops() -> list[torch._ops.OperatorBase]:
    """Ops whose random numbers must be eager's, bit for bit."""
    return [
        op
        for op in decomposition_table
        if isinstance(op, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in op.tags
    ]
