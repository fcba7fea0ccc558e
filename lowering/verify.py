"""The executable specification of what the stages hand to each other: classes, partition, group IR and schedule.

Each function raises ArtifactError naming the artefact and the rule that it breaks. The rules are stated again here, from
the meaning of the artefact, and never by calling the stage that made it. Kernel text is specified in ``verify_text``.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch.fx import GraphModule, Node

from . import graph, ir
from .classify import Classes
from .dtypes import NAMES, compute_name, is_float
from .dtypes import TORCH as TORCH_DTYPES
from .errors import ArtifactError
from .index import ONE, Atom, Axis, Index, Loaded, Quotient, Remainder, Symbol, index, product
from .ops import TABLE
from .partition import Extern, Group, Partition
from .scalars import FUNCTIONS, RESULT_BOOL
from .schedule import MAX_RANGE, Schedule
from .target import Traits

EXHAUSTIVE = 4096
"""Iteration spaces up to this size are walked point by point; larger ones are sampled."""

SAMPLES = 24

Point = Mapping[Atom, int]


def broken(artefact: str, rule: str) -> NoReturn:
    """Raise the error for ``artefact``."""
    raise ArtifactError(f"{artefact}: {rule}. This is a bug of the compiler: please report it with the graph (TORCH_LOGS=+lowering).")


# ---- classes -----------------------------------------------------------------------------------------------------------


def verify_classes(gm: GraphModule, classes: Classes) -> None:
    """Every call is in exactly one class; what is fused can be lowered; what is refused has a reason."""
    sorts: dict[str, Iterable[Node]] = {"fused": classes.fused, "views": classes.views, "host": classes.host, "refused": classes.refused}
    calls = [n for n in gm.graph.nodes if n.op == "call_function"]
    for node in calls:
        found = [name for name, members in sorts.items() if node in members]
        if len(found) != 1:
            broken("classes", f"{node.name} is in {' and '.join(found) or 'no class'}, every call must be in exactly one")
    strangers = {n for members in sorts.values() for n in members} - set(calls)
    if strangers:
        broken("classes", f"{sorted(n.name for n in strangers)} are no calls of this graph")
    if not classes.inline <= classes.fused:
        broken("classes", f"inline nodes {sorted(n.name for n in classes.inline - classes.fused)} are not fused")
    for node in classes.fused:
        parent = node.args[0] if graph.is_getitem(node) else node
        row = TABLE.get(parent.target)  # type: ignore[union-attr,arg-type]
        if row is None or row.lower is None or parent not in classes.fused:
            broken("classes", f"{node.name} is fused, but the op table cannot lower it")
        if graph.is_mutation(node):
            broken("classes", f"{node.name} is fused, but writes to its argument")
    for node in classes.views:
        if graph.view_source(node) is None and not graph.is_getitem(node):
            broken("classes", f"{node.name} counts as a view, but shares no memory with an argument")
    for node, reason in classes.refused.items():
        if not reason:
            broken("classes", f"{node.name} is refused without a reason")


# ---- partition ---------------------------------------------------------------------------------------------------------


def verify_partition(cut: Partition) -> None:
    """Every node runs once, after all that it needs and in the order of writes; what others need is stored."""
    at = _positions(cut)
    for node, position in at.items():
        for source in _needed(cut, node):
            if source in at and at[source] > position:
                broken("partition", f"{node.name} runs in step {position}, before {source.name} in step {at[source]}, which it needs")
    _verify_writes(cut, at)
    for position, step in enumerate(cut.steps):
        if isinstance(step, Group):
            _verify_stored(cut, step, position, at)
            _verify_space(cut, step)


def _positions(cut: Partition) -> dict[Node, int]:
    """The step of every node that is in one."""
    classes = cut.classes
    at: dict[Node, int] = {}
    for position, step in enumerate(cut.steps):
        for node in (step.node,) if isinstance(step, Extern) else step.nodes:
            if node in at:
                broken("partition", f"{node.name} is in steps {at[node]} and {position}")
            if node not in (classes.refused if isinstance(step, Extern) else classes.fused):
                broken("partition", f"{node.name} is in a {type(step).__name__.lower()}, against its class")
            at[node] = position
    for node in cut.gm.graph.nodes:
        computed = node in classes.refused or (node in classes.fused and node not in classes.inline)
        if computed and node not in at:
            broken("partition", f"{node.name} is in no step")
    return at


def _needed(cut: Partition, node: Node) -> Iterator[Node]:
    """Nodes whose results must be there before ``node`` runs. A group recomputes the inline nodes that it reads, so it
    needs their arguments instead."""
    in_kernel, seen = node in cut.classes.fused, {node}
    stack = list(node.all_input_nodes)
    while stack:
        source = stack.pop()
        if source in seen:
            continue
        seen.add(source)
        recomputed = in_kernel and source in cut.classes.inline
        if not recomputed and (source in cut.classes.fused or source in cut.classes.refused):
            yield source
        else:
            stack += source.all_input_nodes


def _memory(cut: Partition, node: Node) -> Iterator[tuple[Node, Node]]:
    """(base, reader) for the memory that ``node`` reads; the reader is an inline node where one stands between."""
    stack = [(a, node) for a in node.all_input_nodes if graph.is_tensor(a)]
    while stack:
        arg, reader = stack.pop()
        base = graph.storage_base(arg)
        if node in cut.classes.fused and base in cut.classes.inline:
            stack += [(a, base) for a in base.all_input_nodes if graph.is_tensor(a)]
        else:
            yield base, reader


def _written(node: Node) -> set[Node]:
    values = zip(graph.bound_arguments(node), node.target._schema.arguments, strict=True)  # type: ignore[union-attr]
    nodes: list[Any] = []
    for (_, value), argument in values:
        if argument.alias_info is not None and argument.alias_info.is_write:
            nodes += value if isinstance(value, (list, tuple)) else [value]
    return {graph.storage_base(v) for v in nodes if graph.is_tensor(v)}


def _verify_writes(cut: Partition, at: Mapping[Node, int]) -> None:
    """Readers of memory stay on their side of each write to it."""
    order = {n: i for i, n in enumerate(cut.gm.graph.nodes)}
    writers = [(n, _written(n)) for n in at if graph.is_mutation(n)]
    if not writers:
        return
    reads = {n: list(_memory(cut, n)) for n in at}
    for writer, bases in writers:
        for node, found in reads.items():
            for base, reader in found:
                if base not in bases or node is writer:
                    continue
                if (order[node] < order[writer]) != (at[node] < at[writer]):
                    broken("partition", f"{node.name} and {writer.name}, which writes {base.name}, changed places")
                if order[reader] < order[writer] < order[node]:
                    broken("partition", f"{node.name} recomputes {reader.name} from {base.name} after {writer.name} wrote to it")


def _verify_stored(cut: Partition, group: Group, position: int, at: Mapping[Node, int]) -> None:
    stored = set(group.stored)
    if not stored <= set(group.nodes):
        broken("partition", f"step {position} stores nodes that it does not compute: {[n.name for n in stored - set(group.nodes)]}")
    for node in group.nodes:
        if graph.is_tensor(node) and node not in stored and (reader := _outside_reader(cut, node, position, at)) is not None:
            broken("partition", f"{node.name} is not stored, but {reader.name} outside its group needs it")


def _outside_reader(cut: Partition, node: Node, position: int, at: Mapping[Node, int]) -> Node | None:
    stack = list(node.users)
    while stack:
        user = stack.pop()
        if user in cut.classes.views or user in cut.classes.inline:
            stack += user.users
        if user.op == "output" or (user in at and at[user] != position):
            return user
    return None


def _verify_space(cut: Partition, group: Group) -> None:
    """The dimensions of each node are distinct axes of the group's space, as many points as the node has elements."""
    axes = cut.axes
    space = [*group.space.rows, *group.space.cols]
    if len(set(space)) != len(space) or tuple(space) != axes.leaves(space):
        broken("partition", f"the space of {group.nodes[0].name}'s group is not made of distinct axes: {space}")
    for node in group.nodes:
        if not graph.is_tensor(node):
            continue
        leaves = axes.leaves(a for d in group.dims[node] for a in d)
        if len(set(leaves)) != len(leaves) or not set(leaves) <= set(space):
            broken("partition", f"{node.name} has the axes {leaves} in a space of {space}")
        for dim, size in zip(group.dims[node], graph.shape(node), strict=True):
            extent = product(axes.size(a) for a in axes.leaves(dim))
            if extent != size and not _differ_by_symbols(extent, size):
                broken("partition", f"a dimension of {node.name} has size {size}, its axes {extent}")


def _differ_by_symbols(a: Index, b: Index) -> bool:
    """Two sizes that may be equal at run time although they are written differently."""
    return any(isinstance(leaf, Symbol) for leaf in a.leaves() | b.leaves())


# ---- group IR ----------------------------------------------------------------------------------------------------------


def verify_group(cut: Partition, group: Group, body: ir.GroupIR) -> None:
    """Types agree, indexes are over the group's axes, addresses stay in their buffers, and every output is stored once."""
    name = f"group({', '.join(body.ops[:3])}{', ...' if len(body.ops) > 3 else ''})"
    for position, statement in enumerate(body.body):
        _verify_types(name, body, position, statement)
        if isinstance(statement, (ir.Load, ir.Store, ir.Coord)):
            _verify_leaves(name, body, position, statement.index)
    nodes = {n.name: n for n in cut.gm.graph.nodes}
    for buffer in body.buffers:
        if buffer.name not in nodes or NAMES.get(graph.dtype(nodes[buffer.name])) != buffer.dtype:
            broken(name, f"buffer {buffer.name} is no tensor of type {buffer.dtype}")
    _verify_stores(name, group, body, nodes)
    _verify_addresses(name, body, nodes)


def _verify_types(name: str, body: ir.GroupIR, position: int, statement: ir.Statement) -> None:
    types = [body.body[v].dtype for v in ir.operands(statement)]
    where = f"statement {position} ({ir.describe(position, statement)})"
    if isinstance(statement, ir.Call):
        problem = _call_problem(statement, types)
    elif isinstance(statement, (ir.Load, ir.Store)):
        compute = compute_name(TORCH_DTYPES[body.buffers[statement.buffer].dtype])
        held = statement.dtype if isinstance(statement, ir.Load) else body.body[statement.value].dtype
        problem = None if held == compute else f"moves {held} where the buffer computes in {compute}"
        if body.buffers[statement.buffer].written != isinstance(statement, ir.Store):
            problem = "reads what is written or writes what is read"
    elif isinstance(statement, ir.Reduce):
        expected = "int64" if statement.fn.startswith("arg") else body.body[statement.arg].dtype
        problem = None if statement.dtype == expected else f"gives {statement.dtype}, not {expected}"
        if statement.fn in ("any", "all") and body.body[statement.arg].dtype != "bool":
            problem = "combines what is not bool"
        if not body.cols:
            problem = "combines over no cols"
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
    for monomial, factor in ix.terms.items():
        for a in monomial:
            if isinstance(a, Quotient):
                factor *= evaluate(a.num, point) // evaluate(a.den, point)
            elif isinstance(a, Remainder):
                factor *= evaluate(a.num, point) % evaluate(a.den, point)
            else:
                factor *= point(a)
        total += factor
    return total


def _points(axes: Sequence[Axis], loaded: Sequence[Loaded] = ()) -> Iterator[Point] | None:
    """All points of a small space, corners and samples of a large one; None when a size is not a constant or zero."""
    leaves: list[Atom] = [*axes, *loaded]
    sizes = [a.size.constant for a in (*axes, *loaded)]
    if any(not s for s in sizes):
        return None
    total = 1
    for s in sizes:
        total *= s  # type: ignore[operator]
    if total <= EXHAUSTIVE:
        grid = itertools.product(*(range(s) for s in sizes))  # type: ignore[arg-type]
        return (dict(zip(leaves, values, strict=True)) for values in grid)
    return _sampled(leaves, [int(s) for s in sizes if s])


def _sampled(leaves: Sequence[Atom], sizes: Sequence[int]) -> Iterator[Point]:
    yield dict.fromkeys(leaves, 0)
    yield {a: s - 1 for a, s in zip(leaves, sizes, strict=True)}
    for chosen, size in zip(leaves, sizes, strict=True):
        yield {a: size - 1 if a is chosen else 0 for a in leaves}
    generator = random.Random(0)
    for _ in range(SAMPLES):
        yield {a: generator.randrange(s) for a, s in zip(leaves, sizes, strict=True)}


def _verify_stores(name: str, group: Group, body: ir.GroupIR, nodes: Mapping[str, Node]) -> None:
    """One store for each stored node, whose places are exactly the node's elements."""
    stores = [s for s in body.body if isinstance(s, ir.Store)]
    names = [body.buffers[s.buffer].name for s in stores]
    if sorted(names) != sorted(n.name for n in group.stored):
        broken(name, f"it stores {names}, its group {[n.name for n in group.stored]}")
    for store in stores:
        node = nodes[body.buffers[store.buffer].name]
        used = [a for a in body.rows + body.cols if a in store.index.leaves()]
        count, numel = product(a.size for a in used), product(graph.shape(node))
        if numel.constant == 0:
            continue
        if count != numel and not _differ_by_symbols(count, numel):
            broken(name, f"{node.name} has {numel} elements, and is stored at {count} points")
        points = _points(used)
        if points is None or (numel.constant or 0) > EXHAUSTIVE:
            continue
        places = sorted(evaluate(store.index, p.__getitem__) for p in points)
        if places != sorted(_elements(node)):
            broken(name, f"the store {store.index} does not cover each element of {node.name} once")


def _elements(node: Node) -> Iterator[int]:
    """Places of all elements from the start of the tensor, for constant sizes and strides."""
    sizes = [s.constant or 0 for s in graph.shape(node)]
    strides = [s.constant or 0 for s in graph.strides(node)]
    for coords in itertools.product(*map(range, sizes)):
        yield sum(c * s for c, s in zip(coords, strides, strict=True))


def _limits(node: Node) -> tuple[int, int] | None:
    """The places that may be addressed from the start of the tensor: all of its storage; None when not constant."""
    val = graph.value_of(node)
    size, start = val.untyped_storage().nbytes(), graph.offset(node).constant
    if isinstance(size, torch.SymInt) or start is None:
        return None
    return -start, int(size) // val.dtype.itemsize - start


def _verify_addresses(name: str, body: ir.GroupIR, nodes: Mapping[str, Node]) -> None:
    """No access that its mask lets through leaves its buffer, at any point tried."""
    for position, statement in enumerate(body.body):
        if not isinstance(statement, (ir.Load, ir.Store)):
            continue
        limits = _limits(nodes[body.buffers[statement.buffer].name])
        leaves = _leaves_below(body, statement)
        points = _points([a for a in body.rows + body.cols if a in leaves], [a for a in leaves if isinstance(a, Loaded)])
        if limits is None or points is None or any(isinstance(a, Symbol) for a in leaves):
            continue
        for point in points:
            place = evaluate(statement.index, point.__getitem__)
            masked = isinstance(statement, ir.Load) and statement.mask is not None and _value(body, statement.mask, point) in (None, False)
            if not limits[0] <= place < limits[1] and not masked:
                here = ", ".join(f"{a}={v}" for a, v in point.items())
                broken(name, f"statement {position} ({ir.describe(position, statement)}) leaves {body.buffers[statement.buffer].name}: place {place} at {here or 'its only point'}")


def _leaves_below(body: ir.GroupIR, statement: ir.Load | ir.Store) -> set[Atom]:
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
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": lambda a: not a,
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


# ---- schedule ----------------------------------------------------------------------------------------------------------


def verify_schedule(body: ir.GroupIR, schedule: Schedule, traits: Traits) -> None:
    """Each axis is walked once; the device takes the range and the work-group."""
    rows = [a for dim in schedule.dims for a in dim]
    for part, given, wanted in (("rows", rows, body.rows), ("cols", schedule.loops, body.cols)):
        if sorted(map(str, given)) != sorted(map(str, wanted)) or set(given) != set(wanted):
            broken("schedule", f"it walks the {part} {', '.join(map(str, given)) or 'none'}, the group has {', '.join(map(str, wanted)) or 'none'}")
    if len(schedule.dims) > MAX_RANGE:
        broken("schedule", f"a range of {len(schedule.dims)} dimensions, SYCL takes {MAX_RANGE}")
    if not 1 <= schedule.lanes <= traits.max_work_group_size:
        broken("schedule", f"work-groups of {schedule.lanes} items, the device takes {traits.max_work_group_size}")
    counts = any(isinstance(s, ir.Reduce) and s.fn.startswith("arg") for s in body.body)
    if counts and tuple(schedule.loops) != body.cols:
        broken("schedule", "a reduction counts positions, and the cols are not walked in their order")
    work_items = product(schedule.global_size)
    if work_items != product(a.size for a in rows) * index(schedule.lanes) and work_items != ONE:
        broken("schedule", f"{work_items} work-items for {product(a.size for a in rows)} rows")
