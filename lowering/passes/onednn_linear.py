"""Float32 matmuls of rows by a matrix to oneDNN's inner product, which PyTorch ships as ``mkldnn``, with the activation
behind them where it knows it.

ATen gives float32 matmuls to its BLAS. For the shapes of linear layers and of their input gradients the inner product
takes less time, with either order of the weight in memory, unless the BLAS is MKL on a processor that it is made for
(docs/performance.md has the measurements); a bias and an activation cost it next to nothing, while a kernel would read
and write the whole result once more. Products of transposed rows, as in weight gradients, stay: the inner product would
copy them first.
"""

from __future__ import annotations

import functools
import math
import os
import pathlib
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import optimization_hint

from .. import graph
from ..index import ONE, Index

aten = torch.ops.aten
_PRODUCTS = (aten.mm.default, aten.addmm.default)
LINEAR = torch.ops.mkldnn._linear_pointwise.default
GATED = torch.ops.mkldnn._linear_pointwise.binary

WORTHWHILE = 2**24
"""Multiplications from which it is faster, where it is."""
WORTHWHILE_FUSED = 2**20
"""The same where it saves a kernel."""

_ACTIVATIONS = {
    aten.gelu.default: "gelu",
    aten.silu.default: "swish",
    aten.sigmoid.default: "sigmoid",
    aten.tanh.default: "tanh",
}
"""oneDNN's names of those that treat infinities and NaN as ATen does; its relu makes zero of NaN."""


class Epilogue(NamedTuple):
    """An op that a product's result goes to and nowhere else, over ``views`` in that order."""

    views: tuple[Node, ...]
    user: Node


def is_usable() -> bool:
    """Whether oneDNN is there, and the user lets it, and OpenMP gives it the threads that ATen has: with fewer, its
    inner product leaves part of the result unwritten."""
    limited = "OMP_THREAD_LIMIT" in os.environ or os.environ.get("OMP_DYNAMIC", "").strip().lower() in ("true", "1")
    return not limited and torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)


@functools.cache
def blas_is_faster() -> bool:
    """Whether ATen's BLAS is MKL on a processor of Intel's."""
    try:
        processor = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return "GenuineIntel" in processor and bool(torch.backends.mkl.is_available())


def run(gm: GraphModule) -> int:
    """Replace what is worth it; returns how many."""
    if not is_usable():
        return 0
    products = [n for n in gm.graph.nodes if n.target in _PRODUCTS and _fits(n)]
    count = sum(_replace(gm, n) for n in products)
    return count + sum(_gate(gm, n) for n in gm.graph.find_nodes(op="call_function", target=aten.mul.Tensor))


def _replace(gm: GraphModule, node: Node) -> bool:
    """The product ``node``, and its activation, by one call, if that is worth it."""
    epilogue = _epilogue(node)
    activation = None if epilogue is None else _ACTIVATIONS.get(epilogue.user.target)
    if activation is None and blas_is_faster():
        return False
    if _work(node) < (WORTHWHILE if activation is None else WORTHWHILE_FUSED):
        return False
    algorithm = epilogue.user.kwargs.get("approximate", "none") if epilogue is not None and activation == "gelu" else ""
    with gm.graph.inserting_before(node):
        linear = gm.graph.call_function(LINEAR, (*_operands(gm, node), activation or "none", [], algorithm))
    _take_over(gm, linear, node)
    if activation is not None:
        assert epilogue is not None
        _absorb(gm, linear, epilogue)
    return True


def _gate(gm: GraphModule, node: Node) -> bool:
    """The product of an activated linear layer and a plain one of the same shape becomes part of the second."""
    for gate, plain in (node.args, node.args[::-1]):
        first, second = _origin(gate), _origin(plain)
        if first is None or second is None or not _is_activated(first) or not _is_plain(second):
            continue
        epilogue = _epilogue(second)
        if epilogue is None or epilogue.user is not node:
            continue
        if not (_lie_alike(gate, plain) and _lie_alike(first, second)):  # else equal views show different places
            continue
        with gm.graph.inserting_before(node):
            rows, weight, bias = _operands(gm, second)
            gated = gm.graph.call_function(GATED, (rows, first, weight, bias, "mul"))
        for view in epilogue.views:
            node.prepend(view)
        _take_over(gm, gated, second)
        _absorb(gm, gated, epilogue)
        return True
    return False


def _is_activated(node: Node) -> bool:
    return node.target is LINEAR and node.args[3] in ("swish", "gelu")


def _is_plain(node: Node) -> bool:
    return (node.target is LINEAR and node.args[3] == "none") or (node.target in _PRODUCTS and _fits(node))


def _operands(gm: GraphModule, node: Node) -> tuple[Node, Node, Node | None]:
    """Rows, weight and bias of a product, as the inner product takes them."""
    if node.target is LINEAR:
        rows, weight, bias, *_ = node.args
        return rows, weight, bias
    *biases, rows, matrix = node.args
    return rows, _transposed(gm, matrix), biases[0] if biases else None


def _take_over(gm: GraphModule, new: Node, old: Node) -> None:
    """Put ``new`` in the place of ``old``, with its name and value."""
    new.meta.update(old.meta)
    old.replace_all_uses_with(new)
    gm.graph.erase_node(old)
    new.name = old.name


def _absorb(gm: GraphModule, node: Node, epilogue: Epilogue) -> None:
    """Have ``node`` stand for its epilogue too."""
    node.meta[graph.ABSORBED] = (*graph.covered(node)[1:], *graph.covered(epilogue.user))
    epilogue.user.replace_all_uses_with(epilogue.views[-1] if epilogue.views else node)
    gm.graph.erase_node(epilogue.user)


def _epilogue(node: Node) -> Epilogue | None:
    """The only reader of ``node`` and of views of it, if its result lies in memory as what it reads does."""
    views: list[Node] = []
    last = node
    while len(last.users) == 1:
        user = next(iter(last.users))
        if graph.view_source(user) is last:
            views.append(user)
            last = user
            continue
        if user.op != "call_function" or not graph.is_tensor(user) or _place(user) != _place(last):
            return None
        return Epilogue(tuple(views), user) if graph.offset(last) == graph.offset(node) else None
    return None


def _origin(node: Any) -> Node | None:
    """What ``node`` is a view of, over views that nothing else reads."""
    while isinstance(node, Node) and len(node.users) == 1:
        source = graph.view_source(node)
        if source is None:
            return node
        node = source
    return None


def _place(node: Node) -> tuple[Any, ...]:
    return graph.shape(node), graph.strides(node), graph.bits(node), graph.dtype(node)


def _lie_alike(one: Node, other: Node) -> bool:
    return _place(one) == _place(other) and graph.offset(one) == graph.offset(other)


def _work(node: Node) -> int:
    """Multiplications, at the sizes of the trace."""
    rows, matrix = node.args[-2:]
    sizes = (*graph.value_of(rows).shape, graph.value_of(matrix).shape[1])
    return math.prod(optimization_hint(size, fallback=0) for size in sizes)


def _fits(node: Node) -> bool:
    """Whether ``node`` is a float32 product whose operands the inner product reads as they lie in memory."""
    *bias, rows, matrix = node.args
    value = graph.value_of(rows)
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
