"""Views: never a copy, only a map from coordinates of the result to coordinates of the source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Node

from .. import graph
from ..index import ZERO, Index, contiguous_strides, divide_exactly, index, linearize, unflatten
from ..symbols import to_index
from .table import Coords, Kind, Row, register


def _size(value: Any) -> Index:
    return to_index(graph.value_of(value)) if isinstance(value, Node) else to_index(value)


def _reshape(node: Node, coords: Coords) -> Coords | None:
    return unflatten(linearize(coords, contiguous_strides(graph.shape(node))), graph.shape(node.args[0]))


def _same(node: Node, coords: Coords) -> Coords:
    return coords


def _permute(node: Node, coords: Coords) -> Coords:
    arguments = graph.arguments(node)
    dims = arguments["dims"] if "dims" in arguments else arguments["permutation"]
    rank = len(coords)
    source: list[Index] = [ZERO] * rank
    for position, d in enumerate(dims):
        source[d % rank] = coords[position]
    return tuple(source)


def _transpose(node: Node, coords: Coords) -> Coords:
    rank = len(coords)
    if rank == 0:
        return coords
    a, b = (graph.arguments(node)[n] % rank for n in ("dim0", "dim1"))
    source = list(coords)
    source[a], source[b] = source[b], source[a]
    return tuple(source)


def _t(node: Node, coords: Coords) -> Coords:
    return coords[::-1]


def _unsqueeze(node: Node, coords: Coords) -> Coords:
    dim = node.args[1] % len(coords)
    return coords[:dim] + coords[dim + 1 :]


def _squeeze(node: Node, coords: Coords) -> Coords:
    """Reinsert the dropped dimensions at coordinate zero, wherever the op found them."""
    source = graph.shape(node.args[0])
    arguments = graph.arguments(node)
    dims = arguments.get("dim", arguments.get("dimensions"))
    rank = len(source)
    if dims is None:
        chosen = set(range(rank))
    else:
        chosen = {d % rank for d in ([dims] if isinstance(dims, int) else dims)} if rank else set()
    rest = iter(coords)
    return tuple(ZERO if d in chosen and size == index(1) else next(rest) for d, size in enumerate(source))


def _expand(node: Node, coords: Coords) -> Coords:
    source = graph.shape(node.args[0])
    return tuple(
        ZERO if size == index(1) else c for c, size in zip(coords[len(coords) - len(source) :], source, strict=True)
    )


def _broadcast_in_dim(node: Node, coords: Coords) -> Coords:
    source = graph.shape(node.args[0])
    dims = node.args[2]
    return tuple(ZERO if size == index(1) else coords[d] for d, size in zip(dims, source, strict=True))


def _start(node: Node, dim: int) -> Index | None:
    """Where a slice or selection starts along ``dim`` of its source, read off the storage offsets."""
    source = node.args[0]
    stride = graph.strides(source)[dim]
    return ZERO if stride == ZERO else divide_exactly(graph.offset(node) - graph.offset(source), stride)


def _slice(node: Node, coords: Coords) -> Coords | None:
    arguments = graph.arguments(node)
    dim = arguments["dim"] % len(coords)
    start = _start(node, dim)
    if start is None:
        return None
    return (*coords[:dim], coords[dim] * _size(arguments["step"]) + start, *coords[dim + 1 :])


def _select(node: Node, coords: Coords) -> Coords | None:
    dim = node.args[1] % len(graph.shape(node.args[0]))
    at = _start(node, dim)
    return None if at is None else (*coords[:dim], at, *coords[dim:])


def _diagonal(node: Node, coords: Coords) -> Coords | None:
    arguments = graph.arguments(node)
    rank = len(graph.shape(node.args[0]))
    shift, first, second = arguments["offset"], arguments["dim1"] % rank, arguments["dim2"] % rank
    rest = iter(coords[:-1])
    along = coords[-1]
    positions = {first: along + max(-shift, 0), second: along + max(shift, 0)}
    return tuple(positions[d] if d in positions else next(rest) for d in range(rank))


def _unfold(node: Node, coords: Coords) -> Coords | None:
    arguments = graph.arguments(node)
    rank = len(graph.shape(node.args[0]))
    if rank == 0:
        return ()
    dim = arguments["dimension"] % rank
    source = list(coords[:-1])
    source[dim] = source[dim] * _size(arguments["step"]) + coords[-1]
    return tuple(source)


def _not_expressible(node: Node, coords: Coords) -> None:
    return None


def view(names: str, pull: Callable[[Node, Coords], Coords | None]) -> None:
    """Rows for the space-separated op ``names``."""
    register(names.split(), Row(Kind.VIEW, pull=pull, reshapes=pull is _reshape, cost=0))


view(
    "aten.view.default aten._unsafe_view aten.reshape aten._reshape_alias prims.collapse_view "
    "prims.split_dim prims.reshape",
    _reshape,
)
view("aten.alias aten.detach prims.view_of aten.lift_fresh aten.lift", _same)
view("aten._conj.default aten._neg_view.default", _same)  # readers look at the bits that these set
view("aten.permute prims.transpose", _permute)
view("aten.transpose.int", _transpose)
view("aten.t aten.numpy_T", _t)
view("aten.unsqueeze", _unsqueeze)
view("aten.squeeze.default aten.squeeze.dim aten.squeeze.dims prims.squeeze", _squeeze)
view("aten.expand", _expand)
view("prims.broadcast_in_dim", _broadcast_in_dim)
view("aten.slice.Tensor", _slice)
view("aten.select.int", _select)
view("aten.diagonal", _diagonal)
view("aten.unfold", _unfold)
view("aten.as_strided prims.as_strided", _not_expressible)
