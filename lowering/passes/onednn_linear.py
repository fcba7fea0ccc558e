"""Large float32 matmuls of rows by a matrix to oneDNN's inner product, which PyTorch ships as ``mkldnn``.

ATen gives float32 matmuls to its BLAS. For the shapes of linear layers and of their input gradients the inner product
takes less time, with either order of the weight in memory (docs/performance.md has the measurements); a bias costs it
nothing. Products of transposed rows, as in weight gradients, stay: the inner product would copy them first.
"""

from __future__ import annotations

import math

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import optimization_hint

from .. import graph
from ..index import ONE, Index

aten = torch.ops.aten

WORTHWHILE = 2**26
"""Multiplications from which it is faster."""


def run(gm: GraphModule) -> int:
    """Replace what is worth it; returns how many."""
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled):
        return 0
    chosen = [n for n in gm.graph.nodes if n.target in (aten.mm.default, aten.addmm.default) and _fits(n)]
    for node in chosen:
        *bias, rows, matrix = node.args
        with gm.graph.inserting_before(node):
            weight = _transposed(gm, matrix)
            # no operation follows the product: "none", without scalars or an algorithm
            linear = gm.graph.call_function(
                torch.ops.mkldnn._linear_pointwise.default, (rows, weight, bias[0] if bias else None, "none", [], "")
            )
        linear.meta.update(node.meta)
        node.replace_all_uses_with(linear)
        gm.graph.erase_node(node)
    return len(chosen)


def _fits(node: Node) -> bool:
    """Whether ``node`` is a large float32 product whose operands the inner product reads as they lie in memory."""
    *bias, rows, matrix = node.args
    value, sizes = graph.value_of(rows), (*graph.value_of(rows).shape, graph.value_of(matrix).shape[1])
    return (
        not node.kwargs
        and value.dtype is torch.float32
        and value.device.type == "cpu"
        and _is_dense(graph.shape(rows), graph.strides(rows))
        and (
            _is_dense(graph.shape(matrix), graph.strides(matrix))
            or _is_dense(graph.shape(matrix)[::-1], graph.strides(matrix)[::-1])
        )
        and all(graph.shape(b) == graph.shape(matrix)[1:] and graph.strides(b) == (ONE,) for b in bias)
        and math.prod(optimization_hint(size, fallback=0) for size in sizes) >= WORTHWHILE
    )


def _is_dense(shape: tuple[Index, ...], strides: tuple[Index, ...]) -> bool:
    """Whether the rows of a matrix lie one after the other."""
    return strides == (shape[1], ONE)


def _transposed(gm: GraphModule, matrix: Node) -> Node:
    """``matrix`` with its dimensions swapped: the weight of a linear layer, where it is that."""
    if matrix.target is aten.t.default or (matrix.target is aten.permute.default and _swaps(matrix.args[1])):
        return matrix.args[0]
    result = gm.graph.call_function(aten.permute.default, (matrix, [1, 0]))
    result.meta.update(matrix.meta, val=aten.permute.default(graph.value_of(matrix), [1, 0]))
    return result


def _swaps(dims: list[int]) -> bool:
    """Whether a permutation of a matrix exchanges its dimensions: it may leave them."""
    return [d % 2 for d in dims] == [1, 0]
