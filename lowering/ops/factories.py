"""Ops that make tensors from nothing: they vanish into the kernels that read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Node

from .. import graph
from ..dtypes import compute_name
from ..values import Scalar, as_stored, coordinate
from .pointwise import refuse_dtypes
from .table import Coords, Kind, Row, Scope, register


def _value(scope: Scope, node: Node, value: Any) -> Scalar:
    dtype = compute_name(graph.dtype(node))
    operand = scope.operand(value, (), 0)
    return as_stored(
        operand.to(dtype) if isinstance(operand, Scalar) else scope.body.const(operand, dtype), graph.dtype(node)
    )


def _full(scope: Scope, node: Node, coords: Coords) -> Scalar:
    return _value(scope, node, graph.arguments(node)["fill_value"])


def _constant(number: int) -> Callable[[Scope, Node, Coords], Scalar]:
    return lambda scope, node, coords: scope.body.const(number, compute_name(graph.dtype(node)))


def _iota(scope: Scope, node: Node, coords: Coords) -> Scalar:
    arguments = graph.arguments(node)
    start, step = (scope.operand(arguments[n], (), 0) for n in ("start", "step"))
    position = coordinate(scope.body, coords[0])
    return (position * step + start).to(compute_name(graph.dtype(node)))


def factory(names: str, lower: Callable[[Scope, Node, Coords], Scalar]) -> None:
    """Rows for the space-separated op ``names``."""
    register(names.split(), Row(Kind.FACTORY, lower, refuse=refuse_dtypes, cost=0))


factory("aten.full.default aten.full_like.default aten.new_full.default prims.full prims.full_like", _full)
factory("aten.scalar_tensor.default prims.scalar_tensor", lambda s, n, c: _value(s, n, n.args[0]))
factory("aten.zeros.default aten.zeros_like.default aten.new_zeros.default", _constant(0))
factory("aten.ones.default aten.ones_like.default aten.new_ones.default", _constant(1))
factory(
    "aten.empty.memory_format aten.empty_strided.default aten.new_empty.default aten.new_empty_strided.default "
    "aten.empty_like.default "
    "prims.empty prims.empty_strided prims.empty_permuted aten.empty_permuted.default",
    _constant(0),
)  # any value will do
factory("prims.iota", _iota)
