"""Pooling: windows read element by element, unrolled. A window that reaches over the edge reads through a mask."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.fx import Node

from .. import graph
from ..dtypes import compute_name
from ..index import Index, floor_divide, is_below, is_nonnegative
from ..values import Scalar, coordinate, where
from .reads import read
from .table import Coords, Scope

MAX_WINDOW = 64
"""Elements of a window that are worth unrolling; larger ones are reductions, which ATen does."""


@dataclasses.dataclass(frozen=True)
class Window:
    """The windows of one pooling op, by spatial dimension."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """Elements from the first to the last of a window."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """Positions in a window, in memory order."""
        return itertools.product(*map(range, self.kernel))

    def covering(self) -> Iterator[tuple[int, ...]]:
        """For all windows that may hold an element: how many back from the last that starts at or before it."""
        counts = [-(-r // s) for r, s in zip(self.reach, self.stride, strict=True)]
        return itertools.product(*(range(c - 1, -1, -1) for c in counts))


def _full(value: Any, rank: int) -> tuple[int, ...]:
    values = [value] if isinstance(value, int) else list(value)
    return tuple(values * rank if len(values) == 1 else values)


def _window(node: Node) -> Window:
    arguments = graph.arguments(node)
    rank = 3 if "3d" in str(node.target) else 2
    kernel = _full(arguments["kernel_size"], rank)
    stride = _full(arguments["stride"], rank) if arguments.get("stride") else kernel
    return Window(kernel, stride, _full(arguments["padding"], rank), _full(arguments.get("dilation", 1), rank))


def _inside(scope: Scope, places: Sequence[Index], sizes: Sequence[Index]) -> Scalar | None:
    """The condition that every place lies in [0, size); None when that is certain."""
    found: Scalar | None = None
    for at, size in zip(places, sizes, strict=True):
        tests = []
        if not is_nonnegative(at):
            tests.append(coordinate(scope.body, at) >= 0)
        if not (is_nonnegative(at) and is_below(at, size)):
            tests.append(coordinate(scope.body, at) < coordinate(scope.body, size))
        for test in tests:
            found = test if found is None else found & test
    return found


def _elements(scope: Scope, node: Node, coords: Coords) -> Iterator[tuple[Scalar, Scalar | None, tuple[Index, ...]]]:
    """(value, condition of being inside, place) for each element of the window at ``coords``."""
    window, source = _window(node), node.args[0]
    rank = len(window.kernel)
    outer, out = coords[:-rank], coords[-rank:]
    sizes = graph.shape(source)[-rank:]
    for offset in window.offsets():
        place = tuple(
            o * s + (i * d - p)
            for o, s, i, d, p in zip(out, window.stride, offset, window.dilation, window.padding, strict=True)
        )
        inside = _inside(scope, place, sizes)
        yield scope.read(source, (*outer, *place), inside), inside, place


def _max_pool(scope: Scope, node: Node, coords: Coords) -> tuple[Scalar, Scalar]:
    """The largest element and its flat position. A NaN wins, the last of several; of equal elements the first."""
    best = at = None
    for value, inside, place in _elements(scope, node, coords):
        position = coordinate(scope.body, _flat(place, graph.shape(node.args[0])))
        if best is None or at is None:
            best, at = value, position if inside is None else where(inside, position, -1)
            continue
        wins = value > best
        wins = wins | (value != value) if value.is_float else wins
        wins = wins | (at < 0) if inside is None else inside & (wins | (at < 0))
        best, at = where(wins, value, best), where(wins, position, at)
    assert best is not None and at is not None
    return best, at


def _flat(place: Sequence[Index], shape: Sequence[Index]) -> Index:
    flat = place[0]
    for at, size in zip(place[1:], shape[len(shape) - len(place) + 1 :], strict=True):
        flat = flat * size + at
    return flat


def _avg_pool(scope: Scope, node: Node, coords: Coords) -> Scalar:
    dtype = compute_name(graph.dtype(node))
    total = scope.body.const(0, dtype)
    for value, _, _ in _elements(scope, node, coords):
        total = total + value
    window = _window(node)
    rank = len(window.kernel)
    return total / _divisor(scope, node, window, coords[-rank:], graph.shape(node.args[0])[-rank:], dtype)


def _divisor(
    scope: Scope, node: Node, window: Window, out: Sequence[Index], sizes: Sequence[Index], dtype: str
) -> Scalar:
    """How many elements the window at ``out`` counts."""
    arguments = graph.arguments(node)
    if arguments["divisor_override"] is not None:
        return scope.body.const(arguments["divisor_override"], dtype)
    padded = arguments["count_include_pad"]
    if (padded and not arguments["ceil_mode"]) or (not any(window.padding) and not arguments["ceil_mode"]):
        return scope.body.const(math.prod(window.kernel), dtype)
    count = None
    for o, k, s, p, size in zip(out, window.kernel, window.stride, window.padding, sizes, strict=True):
        start, end = coordinate(scope.body, o * s - p), coordinate(scope.body, o * s + (k - p))
        end = scope.body.call("minimum", end, coordinate(scope.body, size + p if padded else size))
        start = start if padded else scope.body.call("maximum", start, 0)
        count = end - start if count is None else count * (end - start)
    assert count is not None
    return count.to(dtype)


def _windows_over(
    scope: Scope, window: Window, at: Coords, out: Sequence[Index]
) -> Iterator[tuple[tuple[Index, ...], Scalar | None]]:
    """(window, condition that it exists) for each window that may hold the element ``at``."""
    for back in window.covering():
        place = tuple(
            floor_divide(c + p, s_index) - b
            for c, p, s_index, b in zip(at, window.padding, (Index({(): s}) for s in window.stride), back, strict=True)
        )
        yield place, _inside(scope, place, out)


def _max_pool_backward(scope: Scope, node: Node, coords: Coords) -> Scalar:
    arguments = graph.arguments(node)
    grad, indices = arguments["grad_output"], arguments["indices"]
    window = _window(node)
    rank = len(window.kernel)
    outer, at = coords[:-rank], coords[-rank:]
    own = coordinate(scope.body, _flat(at, graph.shape(node)))
    dtype = compute_name(graph.dtype(node))
    total = zero = scope.body.const(0, dtype)
    for place, exists in _windows_over(scope, window, at, graph.shape(grad)[-rank:]):
        chosen = scope.read(indices, (*outer, *place), exists) == own
        chosen = chosen if exists is None else chosen & exists
        total = total + where(chosen, scope.read(grad, (*outer, *place), exists), zero)
    return total


def _avg_pool_backward(scope: Scope, node: Node, coords: Coords) -> Scalar:
    grad = graph.arguments(node)["grad_output"]
    window = _window(node)
    rank = len(window.kernel)
    outer, at, out = coords[:-rank], coords[-rank:], graph.shape(grad)[-rank:]
    dtype = compute_name(graph.dtype(node))
    total = zero = scope.body.const(0, dtype)
    for place, exists in _windows_over(scope, window, at, out):
        holds = exists
        for c, p, o, s, k in zip(at, window.padding, place, window.stride, window.kernel, strict=True):
            if k % s:  # the last of the candidates may end before the element
                ends_after = coordinate(scope.body, c + p - o * s) < k
                holds = ends_after if holds is None else holds & ends_after
        value = scope.read(grad, (*outer, *place), holds) / _divisor(
            scope, node, window, place, graph.shape(node)[-rank:], dtype
        )
        total = total + (value if holds is None else where(holds, value, zero))
    return total


def _refuse_large(node: Node) -> str | None:
    if math.prod(_window(node).kernel) > MAX_WINDOW:
        return f"pooling windows of more than {MAX_WINDOW} elements are left to ATen"
    return None


def _refuse_average(node: Node) -> str | None:
    return _refuse_large(node) if graph.dtype(node).is_floating_point else "averages of integers are left to ATen"


def _pool(names: str, lower: Callable[[Scope, Node, Coords], Any], refuse: Callable[[Node], str | None]) -> None:
    read(names, lower, refuse=refuse)


_pool("aten.max_pool2d_with_indices.default aten.max_pool3d_with_indices.default", _max_pool, _refuse_large)
_pool("aten.avg_pool2d.default aten.avg_pool3d.default", _avg_pool, _refuse_average)
_pool(
    "aten.max_pool2d_with_indices_backward.default aten.max_pool3d_with_indices_backward.default",
    _max_pool_backward,
    _refuse_large,
)
_pool("aten.avg_pool2d_backward.default aten.avg_pool3d_backward.default", _avg_pool_backward, _refuse_average)
