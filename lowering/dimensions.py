"""The dimensions of nodes as loops: of each node's own, and of what it reads, through views."""

from __future__ import annotations

from torch.fx import Node

from . import graph
from .axes import Axes, Dim, Dims
from .index import ONE, ZERO, Axis, atom
from .ops import TABLE, Kind

ReadDims = tuple[Dim | None, ...]
"""How a node reads an argument: for each dimension the loops that give the place, or None where it reads anywhere."""


class Dimensions:
    """Dimensions by node: of results (``dims``), and of what reductions and scans walk (``full``)."""

    def __init__(self, axes: Axes, views: frozenset[Node]) -> None:
        self.axes, self.views = axes, views
        self.dims: dict[Node, Dims] = {}
        self.full: dict[Node, Dims] = {}
        self.view_dims: dict[Node, Dims] = {}

    def own(self, node: Node) -> Dims:
        """Fresh dimensions for ``node``: of its result, and for a reduction of its first argument (``full``)."""
        row = TABLE[node.target]
        if row.kind is not Kind.REDUCTION:
            source = node.args[0] if row.kind is Kind.SCAN else node
            self.dims[node] = self.full[node] = self.axes.fresh_dims(graph.shape(source))
            return self.full[node]
        assert row.dims is not None and isinstance(node.args[0], Node)
        full = self.full[node] = self.axes.fresh_dims(graph.shape(node.args[0]))
        reduced, keep = row.dims(node)
        self.dims[node] = tuple(() if d in reduced else dim for d, dim in enumerate(full) if keep or d not in reduced)
        return full

    def reduced(self, node: Node) -> tuple[int, ...] | None:
        row = TABLE[node.target]
        if row.dims is None:
            return None
        return tuple(a for d in row.dims(node)[0] for a in self.full[node][d]) or None

    def of(self, arg: Node) -> Dims | None:
        """Dimensions of a node in a group, or of a view of one; None where a view cannot be followed."""
        if arg in self.dims and arg not in self.views:
            return self.dims[arg]
        if arg in self.view_dims:
            return self.view_dims[arg]
        source = graph.view_source(arg)
        below = self.of(source) if source is not None and source is arg.args[0] else None
        found = None if below is None else self._view_dims(arg, below)
        if found is not None:
            self.axes.record(self.view_dims, arg, found)
        return found

    def _view_dims(self, view: Node, below: Dims) -> Dims | None:
        row = TABLE.get(view.target)
        if row is None or row.pull is None:
            return None
        moved = self._pulled_dims(view, below, row.pull)
        return self.axes.reshape(below, graph.shape(view)) if moved is None and row.reshapes else moved

    def _pulled_dims(self, view: Node, below: Dims, pull: object) -> Dims | None:
        """Dimensions of a view that only moves, drops and broadcasts dimensions."""
        shape = graph.shape(view)
        probes = tuple(ZERO if s == ONE else atom(Axis(f"p{i}", s)) for i, s in enumerate(shape))
        coords = pull(view, probes)  # type: ignore[operator]
        if coords is None:
            return None
        found: list[tuple[int, ...] | None] = [None] * len(shape)
        for coord, dim, size in zip(coords, below, graph.shape(view.args[0]), strict=True):
            if size == ONE and coord == ZERO:
                continue
            at = next(
                (i for i, p in enumerate(probes) if p == coord and p != ZERO and shape[i] == size and found[i] is None),
                None,
            )
            if at is None:
                return None
            found[at] = dim
        return tuple(self.axes.fresh(s) if f is None else f for f, s in zip(found, shape, strict=True))

    def read(self, user: Node, arg: Node) -> ReadDims | None:
        """The dimensions that ``user`` gives its argument ``arg``; None where it reads it anywhere, or broadcast."""
        row = TABLE[user.target]
        if row.dims is not None:
            return self.full[user] if arg is user.args[0] else None
        if row.kind is Kind.POINTWISE:
            return broadcast(self.dims[user], arg)
        aligned = row.aligned(user)
        if arg not in aligned:
            return None
        sizes = graph.shape(arg)
        return tuple(
            () if s == ONE else None if d is None else self.dims[user][d]
            for d, s in zip(aligned[arg], sizes, strict=True)
        )


def broadcast(dims: ReadDims, arg: Node) -> ReadDims:
    """The part of ``dims`` by which a pointwise op reads ``arg``."""
    sizes = graph.shape(arg)
    return tuple(() if s == ONE else d for d, s in zip(dims[len(dims) - len(sizes) :], sizes, strict=True))


def whole(dims: ReadDims | None) -> Dims | None:
    """``dims`` where every dimension is read along a loop."""
    return None if dims is None or None in dims else tuple(d for d in dims if d is not None)
