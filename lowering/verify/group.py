"""What group IR and a schedule must be."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from .. import graph, ir
from ..assemble import Phase
from ..dtypes import TORCH as TORCH_DTYPES
from ..dtypes import compute_name, element, is_float
from ..index import ONE, Atom, Axis, Index, Loaded, Quotient, Remainder, Symbol, index, product
from ..partition import Group, Partition
from ..scalars import FUNCTIONS, RESULT_BOOL
from ..schedule import MAX_RANGE, Schedule, shares_scans
from .errors import broken
from .partition import differ_by_symbols

EXHAUSTIVE = 512
"""Iteration spaces up to this size are walked point by point; larger ones are sampled."""

SAMPLES = 16

Point = Mapping[Atom, int]


def verify_group(cut: Partition, group: Group, body: ir.GroupIR) -> None:
    """Types agree, indexes are over the group's axes, addresses stay inside, and every output is stored once."""
    _verify_all(cut, group, (body,))


def verify_parts(cut: Partition, group: Group, parts: Sequence[ir.GroupIR]) -> None:
    """The same of a group in several kernels, which hand each other values in scratch memory that each element of is
    written once, and before it is read; and what they overwrite is read nowhere else."""
    _verify_all(cut, group, parts)
    for body in parts:
        _verify_overwrites(f"group({', '.join(body.ops[:3])})", body, {n.name: n for n in cut.gm.graph.nodes})


def _verify_all(cut: Partition, group: Group, parts: Sequence[ir.GroupIR]) -> None:
    nodes = {n.name: n for n in cut.gm.graph.nodes}
    stored: list[str] = []
    ready: dict[str, Index] = {}
    for body in parts:
        name = f"group({', '.join(body.ops[:3])}{', ...' if len(body.ops) > 3 else ''})"
        for position, statement in enumerate(body.body):
            _verify_types(name, body, position, statement)
            if isinstance(statement, (ir.Load, ir.Store, ir.Update, ir.Coord)):
                _verify_leaves(name, body, position, statement.index)
        for buffer in body.buffers:
            if buffer.scratch is not None and not buffer.written and ready.get(buffer.name) != buffer.scratch:
                broken(name, f"scratch memory {buffer.name} is read before it is written")
            if buffer.scratch is None and (
                buffer.name not in nodes or element(graph.dtype(nodes[buffer.name])) != (buffer.dtype, buffer.width)
            ):
                broken(name, f"buffer {buffer.name} is no tensor of type {buffer.dtype}")
        _verify_stores(name, body, nodes)
        _verify_updates(name, body, nodes, stored)
        _verify_addresses(name, body, nodes)
        stored += dict.fromkeys(b.name for b in _stored(body) if b.scratch is None)
        stored += sorted({b.name for b in _updated(body) if _is_in_place(nodes[b.name])} - set(stored))
        ready.update({b.name: b.scratch for b in _stored(body) if b.scratch is not None})
    if sorted(stored) != sorted(n.name for n in group.stored):
        broken(f"group({', '.join(parts[0].ops)})", f"it stores {stored}, its group {[n.name for n in group.stored]}")


def _stored(body: ir.GroupIR) -> list[ir.Buffer]:
    """The buffer of each store."""
    return [body.buffers[s.buffer] for s in body.body if isinstance(s, ir.Store)]


def _updated(body: ir.GroupIR) -> list[ir.Buffer]:
    """The buffer of each update."""
    return [body.buffers[s.buffer] for s in body.body if isinstance(s, ir.Update)]


def _is_in_place(node: Node) -> bool:
    """Whether the node's result is in memory that was there before."""
    return graph.destination(node) is not None


def _verify_overwrites(name: str, body: ir.GroupIR, nodes: Mapping[str, Node]) -> None:
    """What is read of memory that the kernel writes to is the very element that the same work-item writes."""
    for store in (s for s in body.body if isinstance(s, (ir.Store, ir.Update))):
        buffer = body.buffers[store.buffer]
        if buffer.scratch is not None or not _is_in_place(nodes[buffer.name]):
            continue
        written = nodes[buffer.name]
        for load in (s for s in body.body if isinstance(s, ir.Load)):
            source = body.buffers[load.buffer]
            if source.scratch is not None or graph.memory(nodes[source.name]) is not graph.memory(written):
                continue
            ours, theirs = graph.start(written), graph.start(nodes[source.name])
            if ours is None or theirs is None:
                broken(name, f"{source.name} is read, and its memory written, as elements of different types")
            moved = ours - theirs
            points = _points([a for a in load.index.leaves() | store.index.leaves() if isinstance(a, (Axis, Loaded))])
            if points is None or any(isinstance(a, Symbol) for a in load.index.leaves() | store.index.leaves()):
                continue
            for point in points:
                places = [evaluate(ix, point.__getitem__) for ix in (load.index, store.index + moved)]
                if places[0] != places[1]:
                    broken(name, f"{source.name} is read at {load.index}, and written at {store.index + moved}")


def _verify_types(name: str, body: ir.GroupIR, position: int, statement: ir.Statement) -> None:
    types = [body.body[v].dtype for v in ir.operands(statement)]
    where = f"statement {position} ({ir.describe(position, statement)})"
    if isinstance(statement, ir.Call):
        problem = _call_problem(statement, types)
    elif isinstance(statement, (ir.Load, ir.Store, ir.Update)):
        compute = compute_name(TORCH_DTYPES[body.buffers[statement.buffer].dtype])
        held = statement.dtype if isinstance(statement, ir.Load) else body.body[statement.value].dtype
        problem = None if held == compute else f"moves {held} where the buffer computes in {compute}"
        if body.buffers[statement.buffer].written == isinstance(statement, ir.Load):
            problem = "reads what is written or writes what is read"
    elif isinstance(statement, (ir.Reduce, ir.Scan)):
        expected = "int64" if statement.fn.startswith("arg") else body.body[statement.arg].dtype
        problem = None if statement.dtype == expected else f"gives {statement.dtype}, not {expected}"
        if statement.fn in ("any", "all") and body.body[statement.arg].dtype != "bool":
            problem = "combines what is not bool"
        if not body.cols:
            problem = "combines over no cols"
        if isinstance(statement, ir.Scan) and len(body.cols) != 1:
            problem = "scans what is not one col"
    elif isinstance(statement, ir.Check):
        problem = None if body.body[statement.arg].dtype == "int64" else "checks what is not int64"
    else:
        problem = None
    mask = getattr(statement, "mask", None)
    if mask is not None and body.body[mask].dtype != "bool":
        problem = "has a mask that is not bool"
    if problem:
        broken(name, f"{where} {problem}")


def _call_problem(call: ir.Call, types: list[str]) -> str | None:
    """What is wrong with the types of a call, or None."""
    if call.fn == "cast":
        return None if len(types) == 1 else "casts not one value"
    if call.fn not in FUNCTIONS:
        return "calls no scalar function"
    own = types
    if call.fn == "where":
        if types[0] != "bool":
            return "chooses by what is not bool"
        own = types[1:]
    if len(set(own)) != 1:
        return f"mixes {own}"
    function = FUNCTIONS[call.fn]
    template = function.floats if is_float(own[0]) else function.bools if own[0] == "bool" else function.integers
    if template is None:
        return f"is not defined for {own[0]}"
    wanted = "bool" if call.fn in RESULT_BOOL else own[0]
    return None if call.dtype == wanted else f"gives {call.dtype}, not {wanted}"


def _verify_leaves(name: str, body: ir.GroupIR, position: int, ix: Index) -> None:
    axes = set(body.rows + body.cols)
    for leaf in ix.leaves():
        if isinstance(leaf, Axis) and leaf not in axes:
            broken(name, f"statement {position} indexes with {leaf} < {leaf.size}, which is none of the group's axes")
        if isinstance(leaf, Loaded) and not isinstance(body.body[leaf.value], ir.Check):
            broken(name, f"statement {position} indexes with value {leaf.value}, which is not checked")


def evaluate(ix: Index, point: Callable[[Atom], int]) -> int:
    """The value of ``ix`` where ``point`` gives those of its leaves."""
    total = 0
    for monomial, coefficient in ix.terms.items():
        term = coefficient
        for a in monomial:
            if isinstance(a, Quotient):
                term *= evaluate(a.num, point) // evaluate(a.den, point)
            elif isinstance(a, Remainder):
                term *= evaluate(a.num, point) % evaluate(a.den, point)
            else:
                term *= point(a)
        total += term
    return total


def _points(leaves: Sequence[Axis | Loaded]) -> Iterator[Point] | None:
    """All points of a small space, corners and samples of a large one; None when a size is zero or no constant."""
    sizes = [a.size.constant or 0 for a in leaves]
    if not all(sizes):
        return None
    if math.prod(sizes) > EXHAUSTIVE:
        return _sampled(leaves, sizes)
    return (dict(zip(leaves, values, strict=True)) for values in itertools.product(*map(range, sizes)))


def _sampled(leaves: Sequence[Atom], sizes: Sequence[int]) -> Iterator[Point]:
    yield dict.fromkeys(leaves, 0)
    yield {a: s - 1 for a, s in zip(leaves, sizes, strict=True)}
    for chosen, size in zip(leaves, sizes, strict=True):
        yield {a: size - 1 if a is chosen else 0 for a in leaves}
    generator = random.Random(0)
    for _ in range(SAMPLES):
        yield {a: generator.randrange(s) for a, s in zip(leaves, sizes, strict=True)}


def _verify_stores(name: str, body: ir.GroupIR, nodes: Mapping[str, Node]) -> None:
    """The places of each store are exactly the elements of its buffer, or one part of each complex one, and no buffer
    has two stores of one part."""
    parts: dict[str, int] = {}
    for store in (s for s in body.body if isinstance(s, ir.Store)):
        buffer = body.buffers[store.buffer]
        part = parts[buffer.name] = parts.get(buffer.name, -1) + 1
        if part >= buffer.width:
            broken(name, f"it stores {buffer.name} {part + 1} times")
        used = [a for a in body.rows + body.cols if a in store.index.leaves()]
        count = product(a.size for a in used)
        numel = buffer.scratch if buffer.scratch is not None else product(graph.shape(nodes[buffer.name]))
        if numel.constant == 0:
            continue
        if count != numel and not differ_by_symbols(count, numel):
            broken(name, f"{buffer.name} has {numel} elements, and is stored at {count} points")
        points = _points(used)
        if points is None or numel.constant is None or numel.constant > EXHAUSTIVE:
            continue
        places = sorted(evaluate(store.index, p.__getitem__) for p in points)
        wanted = range(numel.constant) if buffer.scratch is not None else _elements(nodes[buffer.name])
        if places != sorted(w * buffer.width + part for w in wanted):
            broken(name, f"the store {store.index} does not cover each element of {buffer.name} once")
    if short := [b for b in body.buffers if b.name in parts and parts[b.name] + 1 != b.width and b.written]:
        broken(name, f"it stores {parts[short[0].name] + 1} parts of {short[0].name}, not {short[0].width}")


def _verify_updates(name: str, body: ir.GroupIR, nodes: Mapping[str, Node], stored: Sequence[str]) -> None:
    """What is updated is in memory by then, and two rows never write to one place."""
    for update in (s for s in body.body if isinstance(s, ir.Update)):
        buffer = body.buffers[update.buffer]
        if buffer.name not in stored and not _is_in_place(nodes[buffer.name]):
            broken(name, f"{buffer.name} is updated before it is stored")
        if update.fn != "set" and update.fn not in FUNCTIONS:
            broken(name, f"{buffer.name} is updated by {update.fn}, which is no scalar function")
        leaves = update.index.leaves() | set(body.rows)
        points = _points([a for a in leaves if isinstance(a, (Axis, Loaded))])
        if points is None or any(isinstance(a, Symbol) for a in leaves):
            continue
        owner: dict[int, tuple[int, ...]] = {}
        for point in points:
            row = tuple(point[a] for a in body.rows)
            if owner.setdefault(evaluate(update.index, point.__getitem__), row) != row:
                broken(name, f"two rows update one place of {buffer.name} by {update.index}")


def _elements(node: Node) -> Iterator[int]:
    """Places of all elements from the start of the tensor, for constant sizes and strides."""
    sizes = [s.constant or 0 for s in graph.shape(node)]
    strides = [s.constant or 0 for s in graph.strides(node)]
    for coords in itertools.product(*map(range, sizes)):
        yield sum(c * s for c, s in zip(coords, strides, strict=True))


def _limits(buffer: ir.Buffer, nodes: Mapping[str, Node]) -> tuple[int, int] | None:
    """The places that may be addressed from the start of the tensor: all of its storage; None when not constant."""
    if buffer.scratch is not None:
        return None if buffer.scratch.constant is None else (0, buffer.scratch.constant)
    val = graph.value_of(nodes[buffer.name])
    size, start = val.untyped_storage().nbytes(), graph.offset(nodes[buffer.name]).constant
    if isinstance(size, torch.SymInt) or start is None:
        return None
    return -start * buffer.width, (int(size) // val.dtype.itemsize - start) * buffer.width


def _verify_addresses(name: str, body: ir.GroupIR, nodes: Mapping[str, Node]) -> None:
    """No access that its mask lets through leaves its buffer, at any point tried; a space without points has none."""
    if any(a.size.constant == 0 for a in (*body.rows, *body.cols)):
        return
    for position, statement in enumerate(body.body):
        if not isinstance(statement, (ir.Load, ir.Store, ir.Update)):
            continue
        buffer = body.buffers[statement.buffer]
        limits, leaves = _limits(buffer, nodes), _leaves_below(body, statement)
        points = _points([a for a in leaves if isinstance(a, (Axis, Loaded))])
        if limits is None or points is None or any(isinstance(a, Symbol) for a in leaves):
            continue
        for point in points:
            place = evaluate(statement.index, point.__getitem__)
            if not limits[0] <= place < limits[1] and not _is_masked(body, statement, point):
                here = ", ".join(f"{a}={v}" for a, v in point.items()) or "its only point"
                text = ir.describe(position, statement)
                broken(name, f"statement {position} ({text}) leaves {buffer.name}: place {place} at {here}")


def _is_masked(body: ir.GroupIR, statement: ir.Load | ir.Store | ir.Update, point: Point) -> bool:
    """Whether an access is masked out at ``point``, or may be."""
    mask = statement.mask if isinstance(statement, ir.Load) else None
    return mask is not None and not _value(body, mask, point)


def _leaves_below(body: ir.GroupIR, statement: ir.Load | ir.Store | ir.Update) -> set[Atom]:
    """The leaves of an access and of the coordinates that decide its mask."""
    leaves = set(statement.index.leaves())
    stack = [statement.mask] if isinstance(statement, ir.Load) and statement.mask is not None else []
    while stack:
        below = body.body[stack.pop()]
        if isinstance(below, ir.Coord):
            leaves |= below.index.leaves()
        elif isinstance(below, ir.Call):
            stack += below.args
    return leaves


_MASKS: dict[str, Callable[..., Any]] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "and": lambda a, b: a and b,
    "or": lambda a, b: a or b, "not": lambda a: not a,
}  # fmt: skip


def _value(body: ir.GroupIR, value: ir.Value, point: Point) -> int | bool | None:
    """A mask made of coordinates, at one point; None when it depends on anything else."""
    statement = body.body[value]
    if isinstance(statement, ir.Const):
        return statement.value if isinstance(statement.value, int) else None
    if isinstance(statement, ir.Coord):
        return evaluate(statement.index, point.__getitem__)
    if not isinstance(statement, ir.Call) or statement.fn not in _MASKS:
        return None
    values = [_value(body, a, point) for a in statement.args]
    if any(v is None for v in values):
        return None
    result: int | bool = _MASKS[statement.fn](*values)
    return result


# ---- schedule


def verify_schedule(body: ir.GroupIR, schedule: Schedule) -> None:
    """Each axis is walked once, and the range has a work-item for each row and lane. (What a device takes, the launcher
    checks.)"""
    ranged = [a for dim in schedule.dims for a in dim]
    rows = [*schedule.outer, *ranged]
    for part, given, wanted in (("rows", rows, body.rows), ("cols", schedule.loops, body.cols)):
        if sorted(map(str, given)) != sorted(map(str, wanted)) or set(given) != set(wanted):
            broken("schedule", f"it walks the {part} {[*map(str, given)]}, the group has {[*map(str, wanted)]}")
    if len(schedule.dims) > MAX_RANGE:
        broken("schedule", f"a range of {len(schedule.dims)} dimensions, SYCL takes {MAX_RANGE}")
    if schedule.lanes < 1:
        broken("schedule", f"work-groups of {schedule.lanes} items")
    counts = any(isinstance(s, (ir.Scan, ir.Update)) for s in body.body)
    if any(isinstance(s, ir.Update) for s in body.body) and schedule.lanes > 1:
        broken("schedule", "updates are made in order, and several lanes share a row")
    if counts and schedule.lanes > 1 and not shares_scans(body, schedule.lanes):
        broken("schedule", f"a scan cannot be shared by {schedule.lanes} lanes")
    if counts and tuple(schedule.loops) != body.cols:
        broken("schedule", "positions count, and the cols are not walked in their order")
    if schedule.chunk is not None and (schedule.chunk not in rows or not schedule.loops):
        broken("schedule", f"its chunk {schedule.chunk} is no row of a group with cols")
    if schedule.solo:
        if schedule.lanes not in (1, schedule.solo) or schedule.chunk is not None or schedule.outer:
            broken("schedule", f"a single work-group of {schedule.solo} with {schedule.lanes} lanes a row")
        return
    group_size = schedule.work_group[-1] if schedule.work_group else 0
    if schedule.work_group:
        if schedule.has_lanes or len(schedule.work_group) != len(schedule.extents):
            broken("schedule", f"work-groups of {schedule.work_group}")
        schedule = dataclasses.replace(schedule, work_group=())
    if schedule.tile is not None:
        if (schedule.tile,) not in schedule.dims[:-1] or schedule.mapping.value != "flat":
            broken("schedule", f"tiles of {schedule.tile}, which is no slow dimension of a flat range")
        schedule = dataclasses.replace(schedule, tile=None)
    if schedule.rows_a_group > 1:
        if schedule.mapping.value != "rows" or schedule.chunk is not None:
            broken("schedule", f"{schedule.rows_a_group} rows a work-group, which are not its own")
        schedule = dataclasses.replace(schedule, rows_a_group=1)
    if schedule.rows_an_item > 1:
        columns = schedule.dims[-1]
        if schedule.mapping.value != "serial" or len(columns) != 1 or not group_size:
            broken("schedule", f"{schedule.rows_an_item} rows a work-item")
        if columns[0].size.constant is None or columns[0].size.constant % (schedule.rows_an_item * group_size):
            broken(
                "schedule",
                f"{schedule.rows_an_item} rows a work-item, which do not fill the work-groups of {group_size}",
            )
        schedule = dataclasses.replace(schedule, rows_an_item=1)
    work_items = product(schedule.global_size)
    if work_items != product(a.size for a in ranged) * index(schedule.lanes) and work_items != ONE:
        broken("schedule", f"{work_items} work-items for {product(a.size for a in ranged)} rows")


def verify_launches(phases: Sequence[Phase], launches: Sequence[tuple[Phase, ...]]) -> None:
    """Every phase is launched once and in order; all but the first of a launch are run by a single work-group, and the
    first by work-groups whose last can be told."""
    flat = [p for launch in launches for p in launch]
    if [p.group for p in flat] != [p.group for p in phases]:
        broken("chain", f"it launches {len(flat)} phases in an order of their own, there are {len(phases)}")
    for launch in launches:
        for phase in launch:
            verify_schedule(phase.group, phase.schedule)
        if len(launch) > 1 and not launch[0].schedule.has_lanes:
            broken("chain", f"{launch[1].group.ops} follow {launch[0].group.ops}, which have no work-groups")
        if any(not p.schedule.solo for p in launch[1:]):
            broken("chain", "a phase after the first is run by several work-groups")
