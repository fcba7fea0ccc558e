"""Ops that read their arguments elsewhere: concatenation, padding, lookups. They fuse as reads and are never copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from .. import graph
from ..dtypes import compute_name
from ..faults import ALONG, ROW, SUBSCRIPT, Fault
from ..index import ONE, ZERO, Index, floor_divide, index, product
from ..symbols import to_index
from ..values import Scalar, coordinate, where
from .externs import DATA_DEPENDENT
from .pointwise import refuse_dtypes
from .table import Coords, Kind, Row, Scope, register


def _slice_scatter(scope: Scope, node: Node, coords: Coords) -> Scalar:
    """The slice's elements from the second argument, all others from the first."""
    arguments = graph.arguments(node)
    dim, step = arguments["dim"] % len(coords), extent(arguments["step"])
    size, count = graph.shape(node)[dim], graph.shape(arguments["src"])[dim]
    start = _slice_start(arguments["start"], size)
    along = coords[dim] - start
    inside = _both(
        _between(scope, coords[dim], start, None), coordinate(scope.body, along) < coordinate(scope.body, count * step)
    )
    if step != ONE:
        inside = inside & (
            scope.body.call("remainder", coordinate(scope.body, along), coordinate(scope.body, step)) == 0
        )
    return _patched(scope, node, coords, inside, (*coords[:dim], floor_divide(along, step), *coords[dim + 1 :]))


def _slice_start(start: Any, size: Index) -> Index:
    if start is None:
        return ZERO
    if not isinstance(start, int) or start >= 0:
        return extent(start)
    return ZERO if size.constant is not None and size.constant + start < 0 else size + start


def _select_scatter(scope: Scope, node: Node, coords: Coords) -> Scalar:
    dim = node.args[2] % len(coords)
    given, size = node.args[3], graph.shape(node)[dim]
    at = coordinate(scope.body, size + given if isinstance(given, int) and given < 0 else extent(given))
    if isinstance(given, Node):  # known at run time, it may be negative
        at = where(at < 0, at + coordinate(scope.body, size), at)
    inside = coordinate(scope.body, coords[dim]) == at
    return _patched(scope, node, coords, inside, (*coords[:dim], *coords[dim + 1 :]))


def _diagonal_scatter(scope: Scope, node: Node, coords: Coords) -> Scalar:
    arguments = graph.arguments(node)
    first, second = (arguments[n] % len(coords) for n in ("dim1", "dim2"))
    shift = arguments["offset"]
    inside = coordinate(scope.body, coords[second] - coords[first]) == shift
    rest = tuple(c for d, c in enumerate(coords) if d not in (first, second))
    return _patched(scope, node, coords, inside, (*rest, coords[first] - max(-shift, 0)))


def _patched(scope: Scope, node: Node, coords: Coords, inside: Scalar, place: Coords) -> Scalar:
    """The second argument at ``place`` where ``inside``, else the first."""
    dtype = compute_name(graph.dtype(node))
    return where(inside, scope.read(node.args[1], place, inside).to(dtype), scope.read(node.args[0], coords).to(dtype))


def _both(a: Scalar | None, b: Scalar) -> Scalar:
    return b if a is None else a & b


def _between(scope: Scope, at: Index, low: Index, high: Index | None) -> Scalar | None:
    """The condition low <= at < high; bounds that always hold are left out."""
    value = coordinate(scope.body, at)
    above = value >= coordinate(scope.body, low) if low != ZERO else None
    below = value < coordinate(scope.body, high) if high is not None else None
    if above is None or below is None:
        return above if below is None else below
    return above & below


def _cat(scope: Scope, node: Node, coords: Coords) -> Scalar:
    tensors = [t for t in node.args[0] if graph.shape(t) != (ZERO,) or len(coords) == 1]
    dim = (node.args[1] if len(node.args) > 1 else 0) % len(coords)
    dtype = compute_name(graph.dtype(node))
    start, result = ZERO, None
    for position, tensor in enumerate(tensors):
        end = start + graph.shape(tensor)[dim]
        last = position == len(tensors) - 1
        inside = _between(scope, coords[dim], start, None if last else end)
        local = (*coords[:dim], coords[dim] - start, *coords[dim + 1 :])
        value = scope.read(tensor, local, inside).to(dtype)
        result = (
            value
            if result is None
            else where(coordinate(scope.body, coords[dim]) < coordinate(scope.body, start), result, value)
        )
        start = end
    assert result is not None
    return result


def _pad(scope: Scope, node: Node, coords: Coords) -> Scalar:
    source, pads = node.args[0], node.args[1]
    fill = graph.arguments(node).get("value") or 0
    inside, local = None, list(coords)
    for position in range(len(pads) // 2):
        dim = len(coords) - 1 - position
        before = extent(pads[2 * position])
        size = graph.shape(source)[dim]
        local[dim] = coords[dim] - before
        if before == ZERO and extent(pads[2 * position + 1]) == ZERO:
            continue
        here = _between(scope, coords[dim], before, before + size)
        inside = here if inside is None else inside & here  # type: ignore[operator]
    value = scope.read(source, tuple(local), inside)
    return value if inside is None else where(inside, value, scope.body.const(fill, value.dtype))


def extent(value: Any) -> Index:
    """A size, stride or offset among an op's arguments."""
    return to_index(graph.value_of(value)) if isinstance(value, Node) else index(value)


def _flip(scope: Scope, node: Node, coords: Coords) -> Scalar:
    dims = {d % len(coords) for d in node.args[1]} if coords else set()
    sizes = graph.shape(node.args[0])
    return scope.read(node.args[0], tuple(sizes[d] - 1 - c if d in dims else c for d, c in enumerate(coords)))


def wrapped(scope: Scope, position: Scalar, size: Index, dim: int = 0, fault: Fault = SUBSCRIPT) -> Index:
    """A user's index as an Index: negative ones count from the end, others out of range raise."""
    limit = coordinate(scope.body, size)
    position = position.to("int64")
    return scope.checked(where(position < 0, position + limit, position), size, fault, dim)


def _embedding(scope: Scope, node: Node, coords: Coords) -> Scalar:
    weight, indices = node.args[0], node.args[1]
    row = scope.read(indices, coords[:-1]).to("int64")
    return scope.read(weight, (scope.checked(row, graph.shape(weight)[0], ROW), coords[-1]))


def _gather(scope: Scope, node: Node, coords: Coords) -> Scalar:
    source, dim, indices = node.args[:3]
    if product(graph.shape(indices)) == ZERO:  # of any rank
        return scope.body.const(0, compute_name(graph.dtype(node)))
    if not coords or not graph.shape(source):
        scope.checked(scope.read(indices, coords).to("int64"), ONE, ALONG)
        return scope.read(source, (ZERO,) * len(graph.shape(source)))
    dim = dim % len(coords)
    at = scope.checked(scope.read(indices, coords).to("int64"), graph.shape(source)[dim], ALONG, dim)
    return scope.read(source, (*coords[:dim], at, *coords[dim + 1 :]))


def _gather_aligned(node: Node) -> dict[Node, tuple[int | None, ...]]:
    source, dim, indices = node.args[:3]
    sizes, own = graph.shape(source), graph.shape(indices)
    aligned: dict[Node, tuple[int | None, ...]] = {indices: _result_dims(node)}
    if sizes and len(sizes) == len(own):
        aligned[source] = tuple(
            None if d == dim % len(own) or s != o else d for d, (s, o) in enumerate(zip(sizes, own, strict=True))
        )
    return aligned


def _index_select(scope: Scope, node: Node, coords: Coords) -> Scalar:
    source, dim, indices = node.args[:3]
    if not coords:
        return scope.read(source, ())
    dim = dim % len(coords)
    where_from = (coords[dim],) if graph.shape(indices) else ()
    at = scope.checked(scope.read(indices, where_from).to("int64"), graph.shape(source)[dim], ROW, dim)
    return scope.read(source, (*coords[:dim], at, *coords[dim + 1 :]))


def _index(scope: Scope, node: Node, coords: Coords) -> Scalar:
    source, indices = node.args[0], node.args[1]
    first, rank = index_place(node)
    inner = coords[first : first + rank]
    rest = iter(coords[:first] + coords[first + rank :])
    sizes = graph.shape(source)
    local = []
    for d, size in enumerate(sizes):
        position = indices[d] if d < len(indices) else None
        local.append(next(rest) if position is None else wrapped(scope, scope.operand(position, inner, rank), size, d))
    return scope.read(source, tuple(local))


def index_place(node: Node) -> tuple[int, int]:
    """Where the index tensors' broadcast dimensions stand in the result, and how many they are."""
    given = [d for d, i in enumerate(node.args[1]) if i is not None]
    rank = max(len(graph.shape(node.args[1][d])) for d in given)
    adjacent = given == list(range(given[0], given[-1] + 1))
    return (given[0] if adjacent else 0), rank


def _index_aligned(node: Node) -> dict[Node, tuple[int | None, ...]]:
    first, rank = index_place(node)
    aligned: dict[Node, tuple[int | None, ...]] = {}
    for position in node.args[1]:
        if position is not None:
            own = len(graph.shape(position))
            aligned[position] = tuple(range(first + rank - own, first + rank))
    return aligned


def refuse_mask_index(node: Node) -> str | None:
    """A reason where indices are masks, or none are given."""
    for position in node.args[1]:
        if position is not None and graph.dtype(position) in (torch.bool, torch.uint8):
            return DATA_DEPENDENT
    if not any(i is not None for i in node.args[1]):
        return "indexing with nothing is left to ATen"
    return None


def _result_dims(node: Node, drop: int = 0) -> tuple[int, ...]:
    return tuple(range(graph.value_of(node).dim() - drop))


def read(
    names: str,
    lower: Callable[[Scope, Node, Coords], Scalar],
    once: bool = False,
    aligned: Callable[[Node], dict[Node, tuple[int | None, ...]]] = lambda node: {},
    refuse: Callable[[Node], str | None] | None = None,
) -> None:
    """Rows for the space-separated op ``names``."""

    def refuse_all(node: Node) -> str | None:
        return refuse_dtypes(node) or (refuse(node) if refuse else None)

    register(names.split(), Row(Kind.READ, lower, aligned=aligned, once=once, refuse=refuse_all, cost=2))


read("aten.cat prims.cat", _cat, once=True)
read("aten.constant_pad_nd", _pad, once=True)
read("aten.flip prims.rev", _flip, once=True)
read("aten.embedding", _embedding, aligned=lambda n: {n.args[1]: _result_dims(n, 1)})
read("aten.gather", _gather, aligned=_gather_aligned)
read("aten.index_select", _index_select)
read("aten.index.Tensor aten._unsafe_index.Tensor", _index, aligned=_index_aligned, refuse=refuse_mask_index)
for _name, _lower in (("slice", _slice_scatter), ("select", _select_scatter), ("diagonal", _diagonal_scatter)):
    read(f"aten.{_name}_scatter.default", _lower, aligned=lambda n: {n.args[0]: _result_dims(n)})
