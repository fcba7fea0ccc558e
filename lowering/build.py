"""From a fusion group of FX nodes to group IR: values are pulled from the stored nodes back to memory.

Views become indexing on the way: a read through a view of something in memory uses the view's own strides, a read
through a view of something computed here uses its coordinate map.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from . import graph, ir
from .axes import Dim
from .classify import op_name
from .dtypes import compute_name, element, part_name
from .errors import ArtifactError
from .faults import FAULTS, Fault
from .index import ONE, ZERO, Axis, Index, Loaded, atom, linearize, product, recombine
from .ops import TABLE, Coords, Kind, Updates
from .partition import Group, Partition
from .rewrite import prune
from .symbols import to_index
from .values import Body, Pair, Scalar, coordinate, of_parts


class Builder:
    """The group under construction; it is the Scope that the rows of the op table see."""

    def __init__(self, partition: Partition, group: Group) -> None:
        self.partition, self.group = partition, group
        self.body = Body()
        self.members = frozenset(group.nodes)
        self.buffers: dict[tuple[str, bool], int] = {}
        self.kinds: list[ir.Buffer] = []
        axes = partition.axes
        self.axis = {
            a: Axis(f"{'i' if a in group.space.rows else 'j'}{n}", axes.size(a))
            for n, a in enumerate(group.space.rows + group.space.cols)
        }
        self._values: dict[tuple[Node, Coords, int | None], Any] = {}
        self._mask: Scalar | None = None
        self._reducing: Node | None = None

    def run(self) -> ir.GroupIR:
        """The whole group."""
        for node in self.group.nodes:  # in order, so that no long chain is followed back in one go
            if graph.is_tensor(node):
                self.read(node, self._place(node))
        for node in self.group.stored:
            coords = self._place(node)
            value = self.read(node, coords)
            self.body.origin = node.name
            for place, part in self._elements(node, coords, value):
                self.body.emit(ir.Store(self._buffer(node, written=True), place, part.id))
        rows, cols = (tuple(self.axis[a] for a in part) for part in (self.group.space.rows, self.group.space.cols))
        ops = tuple(op_name(n) for n in self.group.nodes if not graph.is_getitem(n))
        return prune(ir.GroupIR(ops, rows, cols, tuple(self.kinds), tuple(self.body.statements)))

    def update(self, node: Node, updates: Updates) -> ir.GroupIR:
        """One pass of updates over the result of ``node``."""
        self.body.origin = node.name
        rows = tuple(Axis(f"i{n}", s) for n, s in enumerate(updates.rows))
        cols = tuple(Axis(f"j{n}", s) for n, s in enumerate(updates.cols))
        at_row, at_col = (tuple(ZERO if a.size == ONE else atom(a) for a in part) for part in (rows, cols))
        coords, value = updates.at(self, at_row, at_col)
        value = value.to(compute_name(graph.dtype(node)))
        for place, part in self._elements(node, coords, value):
            self.body.emit(ir.Update(self._buffer(node, written=True), place, part.id, updates.fn))
        rows, cols = (tuple(a for a in part if a.size != ONE) for part in (rows, cols))
        return prune(ir.GroupIR((op_name(node),), rows, cols, tuple(self.kinds), tuple(self.body.statements)))

    def _place(self, node: Node) -> Coords:
        """The coordinates at which the loops compute ``node``."""
        return tuple(self._coordinate(d) for d in self.group.dims[node])

    def _coordinate(self, dim: Dim) -> Index:
        """A dimension as an index over the group's axes."""
        total, step = ZERO, ONE
        for leaf in reversed(self.partition.axes.leaves(dim)):
            total = total + atom(self.axis[leaf]) * step
            step = step * self.partition.axes.size(leaf)
        return total

    def _buffer(self, node: Node, written: bool) -> int:
        key = (node.name, written)
        if key not in self.buffers:
            self.buffers[key] = len(self.kinds)
            dtype, width = element(graph.dtype(node))
            filled = bool(product(graph.shape(node)).constant)
            self.kinds.append(ir.Buffer(node.name, dtype, written, width=width, filled=filled))
        return self.buffers[key]

    def _elements(self, node: Node, coords: Coords, value: Scalar) -> list[tuple[Index, Scalar]]:
        """Where in the buffer of ``node`` each part of ``value`` belongs."""
        place = linearize(coords, graph.strides(node)) * len(value.parts)
        return [(place + n, part) for n, part in enumerate(value.parts)]

    # ---- the Scope of op rows
    # --------------------------------------------------------------------------------------------

    def read(self, arg: Node, coords: Coords, mask: Scalar | None = None) -> Scalar:
        """Element ``coords`` of ``arg``; computed here when the group holds it, else loaded."""
        outer = self._mask
        self._mask = mask if outer is None else outer if mask is None else outer & mask
        try:
            return self._read(arg, coords)
        finally:
            self._mask = outer

    def _read(self, arg: Node, coords: Coords) -> Scalar:
        base = graph.storage_base(arg)
        if base not in self.members and base not in self.partition.classes.inline:
            return self._load(arg, base, coords)
        if arg is not base:
            row = TABLE.get(arg.target)
            pulled = row.pull(arg, coords) if row is not None and row.pull is not None else None
            if pulled is None:
                raise ArtifactError(f"{op_name(arg)} of {base.name} was fused, but has no coordinate map")
            value = self._read(arg.args[0], pulled)
            return _flipped(value, *(a != b for a, b in zip(graph.bits(arg), graph.bits(arg.args[0]), strict=True)))
        return self._value(arg, coords)

    def _load(self, arg: Node, base: Node, coords: Coords) -> Scalar:
        place = linearize(coords, graph.strides(arg)) + graph.offset(arg) - graph.offset(base)
        mask = None if self._mask is None else self._mask.id
        buffer, dtype = self._buffer(base, written=False), part_name(compute_name(graph.dtype(arg)))
        width = self.kinds[buffer].width
        loads = (self.body.scalar(ir.Load(buffer, place * width + n, dtype, mask)) for n in range(width))
        return _flipped(of_parts(*loads), *graph.bits(arg))

    def _value(self, node: Node, coords: Coords) -> Any:
        key = (node, coords, None if self._mask is None else self._mask.id)
        if key not in self._values:
            outer, reader = self._reducing, self.body.origin
            if graph.is_getitem(node):
                self._values[key] = self._value(node.args[0], coords)[node.args[1]]
            else:
                row = TABLE[node.target]
                self.body.origin = node.name
                self._reducing = node if row.dims is not None else None
                assert row.lower is not None
                self._values[key] = row.lower(self, node, coords)
            self._reducing, self.body.origin = outer, reader
        return self._values[key]

    def operand(self, arg: Any, coords: Coords, result_rank: int) -> Any:
        """A pointwise argument at the result's coordinates."""
        if not isinstance(arg, Node):
            return arg
        val = graph.value_of(arg)
        if isinstance(val, torch.Tensor):
            sizes = graph.shape(arg)
            tail = coords[result_rank - len(sizes) :]
            return self.read(arg, tuple(ZERO if s == ONE else c for c, s in zip(tail, sizes, strict=True)))
        if isinstance(val, (torch.SymInt, int)) and not isinstance(val, bool):
            return coordinate(self.body, to_index(val))
        return self.body.scalar(ir.HostFloat(arg.name))

    def reduced(self, node: Node, coords: Coords) -> Coords:
        """Coordinates in the first argument of the reduction ``node``: its cols for the dimensions that it combines."""
        row = TABLE[node.target]
        assert row.dims is not None
        expected = self._place(node)
        if coords != expected or self._mask is not None:
            raise ArtifactError(f"{op_name(node)} is read at {coords} in a group that computes it at {expected}")
        if row.kind is Kind.SCAN:
            return coords
        dims, keep = row.dims(node)
        rest = iter(c for d, c in enumerate(coords) if not (keep and d in dims))
        return tuple(
            self._coordinate(full) if d in dims else next(rest) for d, full in enumerate(self.group.full[node])
        )

    def reduce(self, fn: str, value: Scalar) -> Scalar:
        """``value`` combined over the cols; itself where the op combines dimensions of size one only. The parts of a
        complex one are combined each for itself."""
        return of_parts(*(self._combined(ir.Reduce, fn, part) for part in value.parts))

    def scan(self, fn: str, value: Scalar) -> Scalar:
        """``value`` combined over the cols so far, part by part; itself along a dimension of size one."""
        return of_parts(*(self._combined(ir.Scan, fn, part) for part in value.parts))

    def _combined(self, kind: type[ir.Reduce] | type[ir.Scan], fn: Any, value: Scalar) -> Scalar:
        node = self._reducing
        assert node is not None
        dims_of = TABLE[node.target].dims
        assert dims_of is not None
        dims, _ = dims_of(node)
        position = fn in ("argmax", "argmin")
        if not any(self.partition.axes.leaves(self.group.full[node][d]) for d in dims):
            return self.body.const(0, "int64") if position else value
        if position and kind is ir.Reduce:
            place = self._position(node, dims)
            return self.body.scalar(ir.Reduce(fn, value.id, "int64", place.to("int64").id))
        return self.body.scalar(kind(fn, value.id, "int64" if position else value.dtype))

    def _position(self, node: Node, dims: tuple[int, ...]) -> Scalar:
        """The row-major position among the dimensions ``dims`` that the reduction ``node`` combines."""
        sizes = graph.shape(node.args[0])
        total = ZERO
        for d in dims:
            total = total * sizes[d] + self._coordinate(self.group.full[node][d])
        return coordinate(self.body, recombine(total))

    def checked(self, value: Scalar, size: Index, fault: Fault, dim: int = 0) -> Index:
        """A data-dependent index that is certain to lie in [0, size)."""
        mask = None if self._mask is None else self._mask.id
        check = self.body.emit(ir.Check(value.id, size, FAULTS.index(fault), dim, mask))
        return atom(Loaded(check, size))


def _flipped(value: Scalar, conjugate: bool, negate: bool) -> Scalar:
    """``value`` as a tensor shows it whose bits differ so from those of what it was read from."""
    if conjugate:
        re, im = value.parts
        value = Pair(re, -im)
    return of_parts(*(-part for part in value.parts)) if negate else value


def build(partition: Partition, group: Group) -> ir.GroupIR:
    """The group IR of ``group``."""
    return Builder(partition, group).run()


def build_updates(partition: Partition, group: Group) -> tuple[ir.GroupIR, ...]:
    """The passes that follow where the group is an op that writes at places that depend on data; none for others."""
    node = group.nodes[0]
    row = TABLE[node.target]
    passes = row.updates(node) if row.updates is not None else ()
    return tuple(Builder(partition, group).update(node, updates) for updates in passes)
