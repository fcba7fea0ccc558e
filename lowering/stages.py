"""In which loop over the cols each statement of a group runs, and what is kept between the loops.

Stage 0 is what needs no reduction, stage n what needs reductions of stage n - 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from . import ir
from .dtypes import is_float
from .index import Axis, product
from .scalars import FUNCTIONS
from .schedule import Mapping, Schedule


def varying(group: ir.GroupIR, axes: Collection[Axis] | None = None) -> list[bool]:
    """For each statement, whether it varies over the ``axes``, or else over the cols."""
    chosen = set(group.cols if axes is None else axes)
    varies: list[bool] = []
    for statement in group.body:
        own = isinstance(statement, (ir.Load, ir.Store, ir.Coord)) and not chosen.isdisjoint(statement.index.leaves())
        own = own or (isinstance(statement, ir.Update) and bool(chosen))
        through = not isinstance(statement, ir.Reduce) and any(varies[o] for o in ir.operands(statement))
        varies.append(own or through or isinstance(statement, ir.Scan))
    return varies


def stages(group: ir.GroupIR) -> list[int]:
    """For each statement, how many reductions must be finished one after another before it."""
    stage: list[int] = []
    for statement in group.body:
        stage.append(max((stage[o] + isinstance(group.body[o], ir.Reduce) for o in ir.operands(statement)), default=0))
    last, read, varies = max(stage, default=0), _read(group), varying(group)
    for position, statement in enumerate(group.body):
        # what is read and written in one group is written last: a stage may read again what an earlier one has read
        if isinstance(statement, ir.Store) and group.buffers[statement.buffer].name in read:
            stage[position] = last + (not varies[position])
    return stage


def _read(group: ir.GroupIR) -> set[str]:
    return {group.buffers[s.buffer].name for s in group.body if isinstance(s, ir.Load)}


def loop_targets(group: ir.GroupIR, varies: list[bool], stages: list[int], stage: int) -> list[int]:
    """What the loop of ``stage`` is for: reductions, varying stores, and varying checks whose value nothing uses."""
    used = {o for s in group.body for o in ir.operands(s)}

    def is_target(position: int, statement: ir.Statement) -> bool:
        if isinstance(statement, ir.Reduce):
            return True
        alone = isinstance(statement, ir.Check) and position not in used
        return (alone or isinstance(statement, (ir.Store, ir.Update))) and varies[position]

    return [p for p, s in enumerate(group.body) if stages[p] == stage and is_target(p, s)]


@dataclasses.dataclass(frozen=True)
class Kept:
    """For each stage, the varying statements that its loop runs through (``needed``); the stage in which each was first
    computed (``first``); and those kept in work-group memory of ``extent`` elements from then on (``places``)."""

    needed: tuple[tuple[int, ...], ...]
    first: dict[int, int]
    places: dict[int, int]
    extent: int


def plan_kept(group: ir.GroupIR, schedule: Schedule, varies: list[bool], stages: list[int], local_memory: int) -> Kept:
    """Decide what is kept between loops: values that cost more to compute again than to store, where the row fits."""
    extent = product(a.size for a in group.cols).constant or 0
    fits = (
        extent > 0 and schedule.mapping is Mapping.ROWS and schedule.chunk is None
    )  # of unknown or no extent: not kept
    room = local_memory // 2 // (8 * extent) if fits else 0
    first: dict[int, int] = {}
    places: dict[int, int] = {}
    needed: list[tuple[int, ...]] = []
    for stage in range(max(stages, default=0) + 1):
        here: set[int] = set()
        targets = loop_targets(group, varies, stages, stage)
        stack: list[int] = []
        for t in targets:
            stack += ir.operands(group.body[t]) if isinstance(group.body[t], ir.Reduce) else (t,)
        while stack:
            p = stack.pop()
            if p in here or not varies[p]:
                continue
            here.add(p)
            known = p in first
            if (
                known
                and len(places) < room
                and p not in places
                and is_float(group.body[p].dtype)
                and _price(group, varies, places, p) >= KEEP
            ):
                places[p] = len(places)
            if not (known and p in places):
                stack += ir.operands(group.body[p])
        for p in here:
            first.setdefault(p, stage)
        needed.append(tuple(sorted(here)))
    return Kept(tuple(needed), first, places, extent)


KEEP = 8
"""Additions from which a value is kept rather than computed again."""


def _price(group: ir.GroupIR, varies: list[bool], places: dict[int, int], position: int) -> int:
    """Additions to compute a value again from memory and from what is kept."""
    total, seen, stack = 0, set(), [position]
    while stack:
        p = stack.pop()
        if p in seen or not varies[p] or (p in places and p != position):
            continue
        seen.add(p)
        statement = group.body[p]
        if isinstance(statement, ir.Call):
            total += FUNCTIONS[statement.fn].cost if statement.fn in FUNCTIONS else 1
        stack += ir.operands(statement)
    return total
