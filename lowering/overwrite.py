"""Whether a kernel may write into memory that it also reads.

A work-item reads all that it needs of a point before it writes there, but work-items run in any order. So each element
that is read must be the one that the same work-item writes, and must not be needed again later on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch.fx import Node

from . import graph, ir
from .index import Index
from .ops.externs import READS_DESTINATION
from .partition import Group, Partition
from .stages import stages, varying


def unsafe_writes(cut: Partition, groups: Iterable[Group], bodies: Iterable[ir.GroupIR]) -> dict[str, str]:
    """In-place ops, by name, that must not be fused the way they are, with the reason."""
    nodes = {n.name: n for n in cut.gm.graph.nodes}
    found: dict[str, str] = {}
    for group, body in zip(groups, bodies, strict=True):
        for node in group.nodes:
            if graph.destination(node) is not None and not _is_safe(body, node, nodes):
                found[node.name] = READS_DESTINATION
    return found


def _is_safe(body: ir.GroupIR, node: Node, nodes: Mapping[str, Node]) -> bool:
    target = graph.destination(node)
    assert target is not None
    root = graph.memory(target)
    buffers = {b for b, buffer in enumerate(body.buffers) if graph.memory(nodes[buffer.name]) is root}
    stores = [p for p, s in enumerate(body.body) if isinstance(s, ir.Store) and s.buffer in buffers]
    loads = [p for p, s in enumerate(body.body) if isinstance(s, ir.Load) and s.buffer in buffers]
    return len(stores) == 1 and (
        not loads
        or (
            all(_place(body, p, nodes) == _place(body, stores[0], nodes) is not None for p in loads)
            and max(loads) < stores[0]
            and _is_read_only_here(body, loads, stores[0])
        )
    )


def _place(body: ir.GroupIR, position: int, nodes: Mapping[str, Node]) -> Index | None:
    """The element that a load or store accesses, from where its memory starts; None where that is not known."""
    access = _access(body, position)
    start = graph.start(nodes[body.buffers[access.buffer].name])
    return None if start is None else access.index + start


def _access(body: ir.GroupIR, position: int) -> ir.Load | ir.Store:
    statement = body.body[position]
    assert isinstance(statement, (ir.Load, ir.Store))
    return statement


def _is_read_only_here(body: ir.GroupIR, loads: list[int], store: int) -> bool:
    """Whether one work-item alone needs what was loaded, and no longer after the store."""
    place: Index = _access(body, store).index
    varies, stage = varying(body), stages(body)
    walked = {*body.rows, *(body.cols if varies[store] else ())}
    if not walked <= place.leaves() or any(varies[p] != varies[store] for p in loads):
        return False
    users = _users(body, loads)
    if varies[store]:  # the loop over the cols that stores is the last one that loads
        ends = (p for p in users if isinstance(body.body[p], (ir.Reduce, ir.Store)))
        return all(stage[p] <= stage[store] for p in ends if p in users)
    if not body.cols:
        return True
    # lanes share the row: only the first may use what it loaded, and chunks of a split row must not write
    return stage[store] > 0 and not any(varies[p] or isinstance(body.body[p], (ir.Reduce, ir.Check)) for p in users)


def _users(body: ir.GroupIR, loads: list[int]) -> set[int]:
    """Statements that need a load, not counting those that need it through a finished reduction."""
    found = set(loads)
    for p, statement in enumerate(body.body):
        if any(o in found and not isinstance(body.body[o], ir.Reduce) for o in ir.operands(statement)):
            found.add(p)
    return found
