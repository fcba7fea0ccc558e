"""Reductions over any dimensions; what precedes and follows them is fused by the partition."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from .. import graph
from ..dtypes import compute_name
from ..index import Index, product
from ..values import Pair, Scalar, as_stored, coordinate, of_parts
from .pointwise import refuse_complex_product, refuse_dtypes
from .table import Coords, Kind, Row, Scope, register


def reduced_dims(node: Node) -> tuple[tuple[int, ...], bool]:
    """The dimensions of the first argument that ``node`` combines, and whether its result keeps them with size one."""
    arguments = graph.arguments(node)
    dims = arguments.get("dim", arguments.get("dims"))
    rank = graph.value_of(node.args[0]).dim()
    if dims is None or (isinstance(dims, (list, tuple)) and not dims and node.target not in _EMPTY_MEANS_NONE):
        dims = range(rank)
    dims = [dims] if isinstance(dims, int) else dims
    return tuple(sorted({d % rank for d in dims})) if rank else (), bool(arguments.get("keepdim", False))


_EMPTY_MEANS_NONE = frozenset(
    {
        torch.ops.prims.sum.default,
        torch.ops.prims.amax.default,
        torch.ops.prims.amin.default,
        torch.ops.prims.prod.default,
        torch.ops.prims.var.default,
    }
)


def _count(node: Node) -> Index:
    sizes = graph.shape(node.args[0])
    return product(sizes[d] for d in reduced_dims(node)[0])


def _input(scope: Scope, node: Node, coords: Coords, dtype: str | None = None) -> Scalar:
    value = scope.read(node.args[0], scope.reduced(node, coords))
    return value.to(dtype) if dtype else value


def _stored_input(scope: Scope, node: Node, coords: Coords) -> Scalar:
    """The input as memory would hold it: positions and truth values are eager's only if ties and zeros are."""
    return as_stored(_input(scope, node, coords), graph.dtype(node.args[0]))


def _result_type(node: Node) -> str:
    tensor = graph.first_tensor(node)
    assert tensor is not None
    return compute_name(tensor.dtype)


def _plain(fn: str) -> Callable[[Scope, Node, Coords], Scalar]:
    def lower(scope: Scope, node: Node, coords: Coords) -> Scalar:
        return scope.reduce(fn, _input(scope, node, coords, _result_type(node)))

    return lower


def _sum(scope: Scope, node: Node, coords: Coords) -> Scalar:
    return scope.reduce("sum", _input(scope, node, coords, _result_type(node)))


def _host_number(scope: Scope, count: Index, dtype: str) -> Scalar:
    constant = count.constant
    return scope.body.const(constant, dtype) if constant is not None else coordinate(scope.body, count).to(dtype)


def _mean(scope: Scope, node: Node, coords: Coords) -> Scalar:
    return _sum(scope, node, coords) / _host_number(scope, _count(node), _result_type(node))


def _moments(scope: Scope, node: Node, coords: Coords) -> tuple[Scalar, Scalar]:
    """(variance, mean) in two passes over the row: as accurate as Welford's method, and cheaper."""
    value = _input(scope, node, coords)
    parts = value.parts if isinstance(value, Pair) else (value.to(_result_type(node)),)
    count = _host_number(scope, _count(node), parts[0].dtype)
    means = [scope.reduce("sum", part) / count for part in parts]
    deviations = [part - mean for part, mean in zip(parts, means, strict=True)]
    squares = scope.reduce("sum", functools.reduce(operator.add, (d * d for d in deviations)))
    return squares / _degrees_of_freedom(scope, count, graph.arguments(node)), of_parts(*means)


def _refuse_symbolic_correction(node: Node) -> str | None:
    if isinstance(graph.arguments(node).get("correction"), Node):
        return "a correction known at run time only is left to ATen"
    return None


def _degrees_of_freedom(scope: Scope, count: Scalar, arguments: dict[str, Any]) -> Scalar:
    correction = arguments.get("correction", 1)
    if "unbiased" in arguments:
        correction = 1 if arguments["unbiased"] else 0
    correction = 1 if correction is None else correction
    if count.literal is not None:
        return scope.body.const(max(float(count.literal.real) - correction, 0.0), count.dtype)
    return scope.body.call("fmax", count - correction, 0.0)


def _any(scope: Scope, node: Node, coords: Coords) -> Scalar:
    return scope.reduce("any", _stored_input(scope, node, coords).to("bool")).to(_result_type(node))


def _all(scope: Scope, node: Node, coords: Coords) -> Scalar:
    return scope.reduce("all", _stored_input(scope, node, coords).to("bool")).to(_result_type(node))


def _position(fn: str) -> Callable[[Scope, Node, Coords], Scalar]:
    def lower(scope: Scope, node: Node, coords: Coords) -> Scalar:
        return scope.reduce(fn, _stored_input(scope, node, coords))

    return lower


def _extreme_with_index(fn: str) -> Callable[[Scope, Node, Coords], tuple[Scalar, Scalar]]:
    def lower(scope: Scope, node: Node, coords: Coords) -> tuple[Scalar, Scalar]:
        value = _stored_input(scope, node, coords)
        return scope.reduce(fn, value), scope.reduce(f"arg{fn}", value)

    return lower


def _refuse_empty_extreme(node: Node) -> str | None:
    if _count(node).constant == 0:
        return "an extreme over no elements raises, which ATen does"
    return None


def reduction(
    names: str,
    lower: Callable[[Scope, Node, Coords], Any],
    cost: int = 2,
    refuse: Callable[[Node], str | None] | None = None,
) -> None:
    """Rows for the space-separated op ``names``."""

    def refuse_all(node: Node) -> str | None:
        return refuse_dtypes(node) or (refuse(node) if refuse else None)

    register(names.split(), Row(Kind.REDUCTION, lower, dims=reduced_dims, refuse=refuse_all, cost=cost))


reduction("aten.sum.default aten.sum.dim_IntList prims.sum", _sum)
reduction("aten.mean.default aten.mean.dim", _mean)
reduction("aten.prod.default aten.prod.dim_int prims.prod", _plain("prod"), refuse=refuse_complex_product)
reduction("aten.amax aten.max.default prims.amax", _plain("max"), refuse=_refuse_empty_extreme)
reduction("aten.amin aten.min.default prims.amin", _plain("min"), refuse=_refuse_empty_extreme)
reduction("aten.any.default aten.any.dim aten.any.dims", _any)
reduction("aten.all.default aten.all.dim aten.all.dims", _all)
reduction("aten.argmax", _position("argmax"), cost=4, refuse=_refuse_empty_extreme)
reduction("aten.argmin", _position("argmin"), cost=4, refuse=_refuse_empty_extreme)
reduction("aten.max.dim", _extreme_with_index("max"), cost=4, refuse=_refuse_empty_extreme)
reduction("aten.min.dim", _extreme_with_index("min"), cost=4, refuse=_refuse_empty_extreme)
for _names, _lower in (
    ("aten.var.correction aten.var.dim aten.var.default prims.var", lambda s, n, c: _moments(s, n, c)[0]),
    ("aten.var_mean.correction aten.var_mean.dim aten.var_mean.default", _moments),
):
    reduction(_names, _lower, cost=6, refuse=_refuse_symbolic_correction)
