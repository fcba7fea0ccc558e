"""How a group's loops map to a device: chosen from its accesses and the device's traits, kept as data."""

from __future__ import annotations

import dataclasses
import enum
import math

from . import ir
from .combine import group_type
from .index import ONE, ZERO, Axis, Index, coefficient, floor_divide, index, product
from .target import Traits

MAX_RANGE = 3
"""Dimensions of a SYCL range."""

TILE = 64
"""Points of a tile's second axis: several cache lines, so that what fetches them ahead has something to do. With one
line, lanes a power of two apart also put each other's out of the nearest cache before they are used."""

GROUP_WORK = 2**17
"""Elements of rows from which the start of a work-group costs little."""

MAX_ROWS_A_GROUP, GROUPS_PER_UNIT = 16, 16

LONG_GROUPS_PER_UNIT = 2
"""Work-groups for each compute unit where each work-item walks a whole row: neighbours are read together."""

VECTOR = 16
"""Work-items that the widest vectors of a CPU take at once."""

ROWS_AN_ITEM, MAX_TEXT = (8, 4, 2), 96
"""How many columns of memory a work-item may reduce at once, and statements written out for all of them."""

SMALL_GROUP, LARGE_GROUP, HUGE_GROUP = 4 * VECTOR, 64 * VECTOR, 512 * VECTOR
"""Work-items of a work-group where its size should not depend on the extents: one text then serves many of them. The
start of one takes some 80 ns."""

RANGE_LIMIT = 2**31
"""SYCL refuses ranges of so many work-items, and numba-dpex tells LLVM that no id reaches this."""


class Mapping(enum.Enum):
    """Who runs over the cols."""

    FLAT = "flat"  # there are none: one work-item a point
    SERIAL = "serial"  # one work-item a row, which loops over its cols: neighbours read neighbouring columns
    ROWS = "rows"  # one work-group a row, its lanes stride over the fastest col


@dataclasses.dataclass(frozen=True)
class Schedule:
    """``dims`` are the range's dimensions, slowest first, each a product of row axes, slowest first. ``loops`` are the
    cols in loop order; under ROWS the last is spread over ``lanes`` work-items. ``chunk``, one of the row axes, is the
    part of the first loop that a work-group runs over, where one row is shared by several. ``outer`` are row axes over
    which every work-item loops, because the range would be too large with them. ``tile``, a dimension of its own, is
    walked ``TILE`` points at a time by each work-item: neighbours read memory across it, and use whole cache lines so.
    Under ROWS each work-group takes ``rows_a_group`` rows in turn. With ``solo``, one work-group of so many work-items
    walks all rows. ``work_group`` has the work-items of a work-group in each dimension where these do not share rows;
    with none, the driver chooses. Under SERIAL each work-item takes ``rows_an_item`` rows of the fastest dimension, a
    work-group apart, which is one vector: it then reads a stretch of each line of memory as it goes."""

    mapping: Mapping
    dims: tuple[tuple[Axis, ...], ...]
    loops: tuple[Axis, ...]
    lanes: int = 1
    chunk: Axis | None = None
    outer: tuple[Axis, ...] = ()
    tile: Axis | None = None
    rows_a_group: int = 1
    solo: int = 0
    work_group: tuple[int, ...] = ()
    rows_an_item: int = 1

    def __str__(self) -> str:
        dims = " x ".join("*".join(f"{a.name}<{a.size}" for a in dim) for dim in self.dims) or "one work-item"
        loops = ", ".join(f"{a.name}<{a.size}" for a in (*self.outer, *self.loops))
        where = f"one work-group of {self.solo} over" if self.solo else "range"
        tile = f", {self.tile.name} in tiles of {TILE}" if self.tile is not None else ""
        rows = f", {self.rows_a_group} rows a work-group" if self.rows_a_group > 1 else ""
        rows += f", {self.rows_an_item} rows a work-item" if self.rows_an_item > 1 else ""
        shape = " x ".join(map(str, self.work_group))
        lanes = f"work-groups of {shape}" if shape else f"{self.lanes} lanes a row"
        return f"{self.mapping.value}: {where} {dims}{tile}{rows}, {lanes}, loops over {loops or 'nothing'}"

    @property
    def has_lanes(self) -> bool:
        """Whether it needs work-groups of a size of its own, whose members know each other."""
        return self.mapping is Mapping.ROWS or self.solo > 0

    @property
    def neighbours(self) -> tuple[Axis, ...]:
        """The axis along which the work-items of a vector follow each other."""
        return self.loops[-1:] if self.mapping is Mapping.ROWS else self.dims[-1][-1:] if self.dims else ()

    @property
    def extents(self) -> tuple[Index, ...]:
        """What each dimension of the range has to do: work-items, before work-groups are filled up."""
        sizes = [
            floor_divide(dim[0].size + TILE - 1, index(TILE)) if dim == (self.tile,) else product(a.size for a in dim)
            for dim in self.dims
        ] or [ONE]
        taken = self.rows_a_group * self.rows_an_item
        if taken > 1:
            sizes[-1] = _ceil_divide(sizes[-1], taken)
        return tuple(sizes)

    @property
    def global_size(self) -> tuple[Index, ...]:
        """Work-items in each dimension of the range."""
        if self.solo:
            return (index(self.solo),)
        *slow, fastest = self.extents
        sizes = (*slow, fastest * self.lanes)
        if not self.work_group:
            return sizes
        return tuple(_ceil_divide(n, m) * m for n, m in zip(sizes, self.work_group, strict=True))

    @property
    def overhangs(self) -> tuple[bool, ...]:
        """For each dimension of the range, whether its last work-groups may have more work-items than there is work."""
        if not self.work_group:
            return (False,) * len(self.dims)
        filled = zip(self.extents, self.work_group, strict=True)
        return tuple(n.constant is None or n.constant % m != 0 for n, m in filled)


def _ceil_divide(number: Index, by: int) -> Index:
    return floor_divide(number + (by - 1), index(by))


def choose(group: ir.GroupIR, traits: Traits, chunk: Axis | None = None) -> Schedule:
    """The schedule of ``group`` on a device of ``traits``; with ``chunk``, each work-group takes that part of a row."""
    rows = _by_stride(group, group.rows, stores_first=not group.cols)
    if not group.cols:
        dims = range_dims(rows)
        return in_work_groups(limited(Schedule(Mapping.FLAT, dims, (), tile=_tile(group, dims))), traits)
    loops = tuple(_by_stride(group, group.cols, stores_first=False) if not _is_ordered(group) else group.cols)
    if chunk is None and (
        _rows_are_contiguous(group) or (_is_ordered(group) and not shares_scans(group, traits.lanes))
    ):
        return _by_columns(
            in_work_groups(limited(Schedule(Mapping.SERIAL, range_dims(rows), loops)), traits), group, traits
        )
    rows_a_group = 1 if chunk is not None else _rows_a_group(group, traits)
    return limited(Schedule(Mapping.ROWS, (tuple(group.rows),), loops, traits.lanes, chunk, rows_a_group=rows_a_group))


def _rows_a_group(group: ir.GroupIR, traits: Traits) -> int:
    """How many short rows a work-group takes, so that starting it costs little beside them, and there are enough
    work-groups for every compute unit."""
    rows, cols = (product(a.size for a in part).constant for part in (group.rows, group.cols))
    multiplies = any(isinstance(s, ir.Reduce) and s.fn == "prod" for s in group.body)  # meets in work-group memory
    if not rows or not cols or multiplies:
        return 1
    return max(1, min(GROUP_WORK // cols, rows // (GROUPS_PER_UNIT * traits.compute_units), MAX_ROWS_A_GROUP))


def _by_columns(schedule: Schedule, group: ir.GroupIR, traits: Traits) -> Schedule:
    """``schedule`` with several rows for each work-item, where the group reduces neighbouring columns of memory by one
    loop, and enough work-groups are left."""
    columns = schedule.dims[-1] if schedule.dims else ()
    extent = columns[0].size.constant if len(columns) == 1 else None
    others = product(e for e in schedule.extents[:-1]).constant
    if not extent or not others or not _reduces_once(group):
        return schedule
    for count in ROWS_AN_ITEM:
        shape = (*(1 for _ in schedule.dims[:-1]), VECTOR)
        groups = extent // (VECTOR * count) * others
        if (
            extent % (VECTOR * count) == 0
            and groups >= LONG_GROUPS_PER_UNIT * traits.compute_units
            and len(group.body) * count <= MAX_TEXT
        ):
            return dataclasses.replace(schedule, work_group=shape, rows_an_item=count)
    return schedule


def _reduces_once(group: ir.GroupIR) -> bool:
    """Whether one loop over the cols makes all that the group needs, and no position counts."""
    behind: set[int] = set()
    for position, statement in enumerate(group.body):
        if isinstance(statement, (ir.Scan, ir.Update, ir.Check)):
            return False
        if isinstance(statement, ir.Reduce) and (statement.fn.startswith("arg") or statement.arg in behind):
            return False
        if isinstance(statement, ir.Reduce) or not behind.isdisjoint(ir.operands(statement)):
            behind.add(position)
        cols = set(group.cols)
        if isinstance(statement, (ir.Load, ir.Store)) and position in behind and cols & set(statement.index.leaves()):
            return False
    return bool(behind)


def in_work_groups(schedule: Schedule, traits: Traits) -> Schedule:
    """``schedule``, whose work-items know nothing of each other, in work-groups as large as the device takes, so that
    starting one costs little, but enough of them for every compute unit. Left to itself, Intel's CPU driver takes
    divisors of the extents: single work-items where one is prime."""
    total = product(schedule.extents).constant
    room = traits.max_work_group_size
    if total is not None:
        groups = (GROUPS_PER_UNIT if schedule.mapping is Mapping.FLAT else LONG_GROUPS_PER_UNIT) * traits.compute_units
        room = min(room, max(total // groups, SMALL_GROUP))
    shape: list[int] = []
    for extent in reversed(schedule.extents):
        known, fastest = extent.constant, not shape
        if known is None:
            share = LARGE_GROUP if len(schedule.extents) == 1 else max(SMALL_GROUP // math.prod(shape), 1)
        elif len(schedule.extents) == 1 and known > room:
            share = next((n for n in (HUGE_GROUP, LARGE_GROUP) if room >= n), SMALL_GROUP)
        else:
            share = _even_share(max(known, 1), room, VECTOR if fastest else 1)
        shape.insert(0, min(share, room))
        room //= shape[0]
    filled = dataclasses.replace(schedule, work_group=tuple(shape))
    items = product(filled.global_size).constant
    return filled if items is None or items < RANGE_LIMIT else schedule


def _even_share(extent: int, room: int, multiple: int) -> int:
    """How many of ``extent`` work-items a work-group takes that has room for ``room``: all, or as many as the others
    do, in whole vectors."""
    if extent <= room:
        return extent
    share = -(-extent // -(-extent // room))
    return min(-(-share // multiple) * multiple, max(room // multiple * multiple, 1))


def plainest(group: ir.GroupIR, traits: Traits, chunk: Axis | None = None) -> Schedule:
    """The schedule with the least to go wrong: one work-item a row, loops in the order of the group."""
    mapping = Mapping.SERIAL if group.cols else Mapping.FLAT
    return limited(Schedule(mapping, range_dims(list(group.rows)), group.cols, chunk=chunk))


def limited(schedule: Schedule) -> Schedule:
    """``schedule`` with its slowest axes taken out of the range until SYCL accepts the number of work-items."""
    dims, outer = [list(d) for d in schedule.dims], list(schedule.outer)
    while (
        total := product(a.size for d in dims for a in d).constant
    ) is not None and total * schedule.lanes >= RANGE_LIMIT:
        outer.append(dims[0].pop(0))
        dims = dims if dims[0] or len(dims) == 1 else dims[1:]
    if len(outer) == len(schedule.outer):
        return schedule
    tile = None if schedule.tile in outer else schedule.tile
    return dataclasses.replace(schedule, dims=tuple(map(tuple, dims)), outer=tuple(outer), tile=tile)


def range_dims(axes: list[Axis]) -> tuple[tuple[Axis, ...], ...]:
    """At most three dimensions; what is left over goes into the slowest, where a division costs least."""
    extra = max(len(axes) - MAX_RANGE, 0)
    return (tuple(axes[: extra + 1]), *((a,) for a in axes[extra + 1 :])) if axes else ()


def _tile(group: ir.GroupIR, dims: tuple[tuple[Axis, ...], ...]) -> Axis | None:
    """The axis along which memory runs in a load that the fastest dimension of the range reads across."""
    fastest = dims[-1][-1] if dims else None
    for ix in _accesses(group, ir.Load):
        along = [a for (a, *rest) in dims[:-1] if not rest and coefficient(ix, a) == ONE]
        if along and fastest is not None and coefficient(ix, fastest) not in (None, ONE, ZERO):
            return along[0]
    return None


def _is_ordered(group: ir.GroupIR) -> bool:
    return any(isinstance(s, (ir.Scan, ir.Update)) for s in group.body)


def shares_scans(group: ir.GroupIR, lanes: int) -> bool:
    """Whether ``lanes`` work-items can walk a row of the group's scans side by side: SPIR-V has an instruction for
    sums, and all have to be there in every turn."""
    scans = [s for s in group.body if isinstance(s, ir.Scan)]
    length = group.cols[-1].size.constant if group.cols else None
    return (
        lanes > 1
        and length is not None
        and length % lanes == 0
        and not any(isinstance(s, ir.Update) for s in group.body)
        and all(s.fn == "sum" and group_type(s.dtype) == s.dtype for s in scans)
    )


def _accesses(group: ir.GroupIR, *kinds: type[ir.Load] | type[ir.Store] | type[ir.Update]) -> list[Index]:
    return [s.index for s in group.body if isinstance(s, kinds)]


def _by_stride(group: ir.GroupIR, axes: tuple[Axis, ...], stores_first: bool) -> list[Axis]:
    """``axes`` with the one walked contiguously last. Stores decide for pointwise groups, as a store misses twice."""
    loads, stores = _accesses(group, ir.Load), _accesses(group, ir.Store, ir.Update)
    order = [stores, loads] if stores_first else [loads, stores]

    def key(a: Axis) -> tuple[float, ...]:
        return tuple(_typical_stride(accesses, a) for accesses in order)

    return sorted(axes, key=key, reverse=True)


def _typical_stride(indexes: list[Index], a: Axis) -> float:
    """The mean stride of ``a`` over the accesses that move with it; large when unknown or none does."""
    found = []
    for ix in indexes:
        stride = coefficient(ix, a)
        if stride is None:
            found.append(2.0**20)
        elif stride.terms:
            constant = stride.constant
            found.append(float(abs(constant)) if constant is not None else 2.0**30)
    return sum(found) / len(found) if found else 2.0**40


def _unit_stride(accesses: list[tuple[Index, int]], axes: tuple[Axis, ...]) -> int:
    return sum(any(coefficient(ix, a) == index(width) for a in axes) for ix, width in accesses)


def _rows_are_contiguous(group: ir.GroupIR) -> bool:
    """Whether memory runs along a row axis rather than along the cols."""
    accesses = [(s.index, group.buffers[s.buffer].width) for s in group.body if isinstance(s, (ir.Load, ir.Store))]
    varying = [(ix, w) for ix, w in accesses if any(coefficient(ix, c) != Index({}) for c in group.cols)]
    return _unit_stride(varying, group.rows) > _unit_stride(varying, group.cols)
