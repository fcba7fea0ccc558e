"""Ops that write at places that depend on data: scatter, index_put and their kin.

Each is a kernel that makes the result's elements as they are before, then passes of updates: rows, which can never meet
in one place, side by side; the updates of a row one after another, as in eager, so that the result is eager's and the
same every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from .. import graph
from ..dtypes import compute_name, is_float, is_unsigned
from ..faults import ALONG, FLAT, PLACE, ROW, SUBSCRIPT, Fault
from ..index import ONE, ZERO, Index, product, unflatten
from ..values import Scalar, as_stored, coordinate, where
from .externs import DATA_DEPENDENT, FREQUENCY, HALF_SUMS, MASKED, NO_PLACE, ONE_ROW, UNKNOWN
from .pointwise import COMPLEX_PRODUCT, refuse_dtypes
from .reads import extent, index_place, refuse_mask_index, wrapped
from .table import Coords, Kind, Row, Scope, Updates, overloads, register
from .writes import IN_PLACE, in_place, refuse_destination, refuse_own_reads

LONG = 2**11
"""Updates of a single row, one after another, beyond which they are left to ATen, which does nothing beside them."""

FUNCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "maximum", "amin": "minimum"}
"""Scalar functions behind the names of reductions."""

Passes = Callable[[Node], tuple[Updates, ...]]
Place = Callable[[Scope, Coords, Coords], Coords]
Read = Callable[[Scope, Coords], Scalar]


def _self(scope: Scope, node: Node, coords: Coords) -> Scalar:
    """The elements before the first update."""
    return scope.read(node.args[0], coords).to(compute_name(graph.dtype(node)))


def _number(scope: Scope, node: Node, value: Any) -> Scalar:
    """A number, or a tensor of one element, as the result's tensor holds it."""
    dtype = compute_name(graph.dtype(node))
    operand = scope.operand(value, (), 0)
    number = operand.to(dtype) if isinstance(operand, Scalar) else scope.body.const(operand, dtype)
    return as_stored(number, graph.dtype(node))


def _neutral(fn: str, dtype: str) -> float | int | bool:
    """The value that ``fn`` combines with any other to that other."""
    if fn in ("add", "mul"):
        return int(fn == "mul")
    if dtype == "bool":
        return fn == "minimum"
    if is_float(dtype):
        return float("-inf") if fn == "maximum" else float("inf")
    bits = int(dtype.lstrip("uint"))
    low, high = (0, 2**bits - 1) if is_unsigned(dtype) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return low if fn == "maximum" else high


def _rank(node: Node) -> int:
    return len(graph.shape(node))


def _nonempty(sizes: Coords) -> Coords:
    """A tensor of no dimensions is indexed as one of a single element."""
    return sizes or (ONE,)


def _without(sizes: Coords, dim: int) -> Coords:
    return (*sizes[:dim], *sizes[dim + 1 :])


def _with(rows: Coords, dim: int, at: Index) -> Coords:
    return (*rows[:dim], at, *rows[dim:])


def _dim(node: Node) -> int:
    return int(graph.arguments(node)["dim"]) % max(_rank(node), 1)


def _reducing(node: Node, rows: Coords, cols: Coords, fn: str, place: Place, read: Read) -> tuple[Updates, ...]:
    """Updates of ``place`` by what ``read`` gives at the same coordinates; after a pass that forgets what was there
    unless it takes part."""
    dim = _dim(node)
    passes = []
    if not graph.arguments(node).get("include_self", True):
        dtype = compute_name(graph.dtype(node))
        passes.append(
            Updates(rows, cols, "set", lambda s, r, c: (place(s, r, c), s.body.const(_neutral(fn, dtype), dtype)))
        )
    passes.append(Updates(rows, cols, fn, lambda s, r, c: (place(s, r, c), read(s, _with(r, dim, c[0])))))
    return tuple(passes)


# ---- along a dimension, one index for each element -------------------------------------------------------------------


def _scatter(fn: str | None) -> Passes:
    """Passes by ``fn``, or by the op's argument ``reduce``."""

    def passes(node: Node) -> tuple[Updates, ...]:
        arguments = graph.arguments(node)
        dim, at = _dim(node), arguments["index"]
        sizes = _nonempty(graph.shape(at))
        if product(sizes) == ZERO:
            return ()

        def place(scope: Scope, rows: Coords, cols: Coords) -> Coords:
            position = scope.read(at, _with(rows, dim, cols[0])[: _rank(at)]).to("int64")
            size = _nonempty(graph.shape(node))[dim]
            return _with(rows, dim, scope.checked(position, size, ALONG, dim))[: _rank(node)]

        def read(scope: Scope, coords: Coords) -> Scalar:
            if "src" not in arguments:
                return _number(scope, node, arguments["value"])
            return scope.read(arguments["src"], coords[: _rank(arguments["src"])])

        chosen = fn or FUNCTIONS[arguments["reduce"]]
        return _reducing(node, _without(sizes, dim), (sizes[dim],), chosen, place, read)

    return passes


# ---- along a dimension, one index for each slice ---------------------------------------------------------------------


def _sliced(fn: str | None, fault: Fault) -> Passes:
    """Passes over the slices of ``source``, or of ``value`` everywhere; ``fault`` is what eager raises."""

    def passes(node: Node) -> tuple[Updates, ...]:
        arguments = graph.arguments(node)
        dim, at = _dim(node), arguments["index"]
        sizes = _nonempty(graph.shape(node))

        def place(scope: Scope, rows: Coords, cols: Coords) -> Coords:
            position = scope.read(at, cols[: _rank(at)]).to("int64")
            if fault.wraps:
                return _with(rows, dim, wrapped(scope, position, sizes[dim], dim))[: _rank(node)]
            return _with(rows, dim, scope.checked(position, sizes[dim], fault, dim))[: _rank(node)]

        def read(scope: Scope, coords: Coords) -> Scalar:
            if "source" not in arguments:
                return _number(scope, node, arguments["value"])
            source = arguments["source"]
            value = scope.read(source, coords[: _rank(source)]).to(compute_name(graph.dtype(node)))
            return value * _number(scope, node, arguments["alpha"]) if arguments.get("alpha", 1) != 1 else value

        chosen = fn or FUNCTIONS[arguments["reduce"]]
        return _reducing(node, _without(sizes, dim), (_nonempty(graph.shape(at))[0],), chosen, place, read)

    return passes


# ---- the other places ------------------------------------------------------------------------------------------------


def _mask(node: Node) -> tuple[int, Node] | None:
    """The mask of an index_put and its first dimension where it is the only index and there is one value for all."""
    arguments = graph.arguments(node)
    given = [(d, i) for d, i in enumerate(arguments["indices"]) if i is not None]
    is_mask = len(given) == 1 and graph.dtype(given[0][1]) in (torch.bool, torch.uint8)
    return given[0] if is_mask and product(graph.shape(arguments["values"])) == ONE else None


def _masked_self(scope: Scope, node: Node, coords: Coords) -> Scalar:
    """The elements before the first update; where a mask gives the places, after all."""
    value, found = _self(scope, node, coords), _mask(node)
    if found is None:
        return value
    arguments = graph.arguments(node)
    (first, mask), values = found, arguments["values"]
    new = scope.read(values, (ZERO,) * _rank(values))
    chosen = scope.read(mask, coords[first : first + _rank(mask)]).to("bool")
    return where(chosen, value + new if arguments["accumulate"] else new, value)


def _refuse_mask(node: Node) -> str | None:
    """A mask takes the values in turn."""
    if _mask(node) is not None:
        return None
    reason = refuse_mask_index(node)
    return MASKED if reason == DATA_DEPENDENT else reason


def _index_put(node: Node) -> tuple[Updates, ...]:
    if _mask(node) is not None:
        return ()
    arguments = graph.arguments(node)
    indices, values = arguments["indices"], arguments["values"]
    first, rank = index_place(node)
    sizes = graph.shape(node)
    given = {d: i for d, i in enumerate(indices) if i is not None}
    rows = tuple(s for d, s in enumerate(sizes) if d not in given)
    cols = _broadcast([graph.shape(i) for i in given.values()])

    def at(scope: Scope, rows: Coords, cols: Coords) -> tuple[Coords, Scalar]:
        rest = iter(rows)
        place = tuple(
            wrapped(scope, scope.operand(given[d], cols, rank), s, d) if d in given else next(rest)
            for d, s in enumerate(sizes)
        )
        coords = (*rows[:first], *cols, *rows[first:])
        return place, scope.operand(values, coords[max(len(coords) - _rank(values), 0) :], _rank(values))

    return (Updates(rows, cols, "add" if arguments["accumulate"] else "set", at),)


def _broadcast(shapes: list[Coords]) -> Coords:
    """The shape that all of ``shapes`` broadcast to."""
    rank = max(map(len, shapes))
    padded = [(ONE,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((s for s in dims if s != ONE), ONE) for dims in zip(*padded, strict=True))


def _put(node: Node) -> tuple[Updates, ...]:
    arguments = graph.arguments(node)
    places, source = arguments["index"], arguments["source"]
    sizes = graph.shape(node)

    def at(scope: Scope, rows: Coords, cols: Coords) -> tuple[Coords, Scalar]:
        place = wrapped(scope, scope.read(places, cols), product(sizes), fault=FLAT)
        flat = _flat(cols, graph.shape(places))
        return unflatten(place, sizes), scope.read(source, unflatten(flat, graph.shape(source)))

    return (Updates((), graph.shape(places), "add" if arguments["accumulate"] else "set", at),)


def _flat(coords: Coords, sizes: Coords) -> Index:
    position = ZERO
    for c, s in zip(coords, sizes, strict=True):
        position = position * s + c
    return position


def _as_strided_scatter(node: Node) -> tuple[Updates, ...]:
    arguments = graph.arguments(node)
    source, steps, offset = arguments["src"], arguments["stride"], arguments["storage_offset"]

    def at(scope: Scope, rows: Coords, cols: Coords) -> tuple[Coords, Scalar]:
        place = extent(offset) if offset is not None else ZERO
        for c, step in zip(rows, steps, strict=True):
            place = place + c * extent(step)
        value = scope.read(source, rows).to(compute_name(graph.dtype(node)))
        return unflatten(place, graph.shape(node)), value

    return (Updates(graph.shape(source), (), "set", at),)


def _refuse_layout(node: Node) -> str | None:
    """Strides count in the storage of the first argument, of which the result has a copy."""
    contiguous = all(graph.value_of(n).is_contiguous() for n in (node, node.args[0]))
    if not contiguous or graph.offset(node.args[0]) != ZERO:
        return "as_strided_scatter into a tensor that is not contiguous is left to ATen"
    return None


def _embedding_backward(node: Node) -> tuple[Updates, ...]:
    arguments = graph.arguments(node)
    grad, indices = arguments["grad_output"], arguments["indices"]

    def at(scope: Scope, rows: Coords, cols: Coords) -> tuple[Coords, Scalar]:
        position = scope.read(indices, cols).to("int64")
        value = scope.read(grad, (*cols, *rows))
        skipped = position == coordinate(scope.body, extent(arguments["padding_idx"]))
        place = scope.checked(position, graph.shape(node)[0], ROW)
        return (place, *rows), where(skipped, scope.body.const(0, value.dtype), value)

    return (Updates(graph.shape(node)[1:], graph.shape(indices), "add", at),)


# ---- what is left to ATen --------------------------------------------------------------------------------------------


def _refuse(node: Node, passes: Passes) -> str | None:
    """Why a kernel would be wrong or slower: see the reasons in externs."""
    if graph.arguments(node).get("reduce", "sum") not in FUNCTIONS:
        return UNKNOWN  # a mean, which a decomposition takes apart
    made = passes(node)
    if graph.dtype(node) in (torch.float16, torch.bfloat16) and any(updates.fn in ("add", "mul") for updates in made):
        return HALF_SUMS
    if graph.dtype(node).is_complex and any(updates.fn not in ("set", "add") for updates in made):
        return COMPLEX_PRODUCT
    if made and product(graph.shape(node)) == ZERO:
        return NO_PLACE
    if made and product(made[-1].rows) == ONE and (product(made[-1].cols).constant or 0) > LONG:
        return ONE_ROW
    return None


def scatter(
    names: str,
    passes: Passes,
    lower: Callable[[Scope, Node, Coords], Scalar] = _self,
    refuse: Callable[[Node], str | None] = lambda node: None,
) -> None:
    """Rows for the space-separated op ``names``, and for their forms that write to the first argument."""

    def refuse_all(node: Node) -> str | None:
        return refuse_dtypes(node) or refuse(node) or _refuse(node, passes)

    def refuse_in_place(node: Node) -> str | None:
        return refuse_all(node) or refuse_destination(node) or refuse_own_reads(node)

    register(names.split(), Row(Kind.READ, lower, refuse=refuse_all, cost=2, updates=passes))
    found = {op: form for op in overloads(names.split()) if (form := in_place(op)) is not None}
    IN_PLACE.update(found)
    register([str(form) for form in found.values()], Row(Kind.READ, lower, refuse=refuse_in_place, updates=passes))


scatter("aten.scatter.src aten.scatter.value", _scatter("set"))
scatter("aten.scatter.reduce aten.scatter.value_reduce aten.scatter_reduce.two", _scatter(None))
scatter("aten.scatter_add.default", _scatter("add"))
scatter("aten.index_add.default", _sliced("add", ALONG))
scatter("aten.index_copy.default", _sliced("set", PLACE))
scatter("aten.index_fill.int_Scalar aten.index_fill.int_Tensor", _sliced("set", SUBSCRIPT))
scatter("aten.index_reduce.default", _sliced(None, ROW))
scatter(
    "aten.index_put.default aten._unsafe_index_put.default",
    _index_put,
    _masked_self,
    _refuse_mask,
)
scatter("aten.put.default", _put)
scatter("aten.as_strided_scatter.default", _as_strided_scatter, refuse=_refuse_layout)
scatter(
    "aten.embedding_dense_backward.default",
    _embedding_backward,
    lower=lambda scope, node, coords: scope.body.const(0, compute_name(graph.dtype(node))),
    refuse=lambda n: FREQUENCY if graph.arguments(n)["scale_grad_by_freq"] else None,
)
