"""Chains: several groups in one launch, where those after the first are too small to be worth one of their own.

A launch costs as much as thousands of elements do. So a small group that follows another, with no ATen call between
the two, becomes a phase of the same kernel: run by one work-group, when the groups before it are done (see
``assemble``). Its first phase keeps all its work-groups if each takes one row, and is otherwise small as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from . import ir
from .assemble import Phase, cost
from .index import product
from .schedule import Mapping
from .target import Traits

LOOKAHEAD = 16
"""Phases that a launch may have."""


def chain(phases: Iterable[Phase], traits: Traits) -> list[tuple[Phase, ...]]:
    """Cut ``phases``, each after all that it needs, into launches: from the first on as many at a time as pay."""
    rest, launches = list(phases), list[tuple[Phase, ...]]()
    while rest:
        best: tuple[Phase, ...] = (rest[0],)
        longer = best
        for phase in rest[1:LOOKAHEAD]:
            extended = _extended(longer, phase, traits)
            if extended is None:
                break
            longer = extended
            best = longer if _pays(longer, traits) else best
        launches.append(best)
        del rest[: len(best)]
    return launches


def _pays(launch: tuple[Phase, ...], traits: Traits) -> bool:
    """Whether a single work-group, while the other compute units are idle, loses less time than the launches of the
    phases on their own would take."""
    alone = sum(_work(p, traits) or 0 for p in launch if p.schedule.solo)
    return alone * (traits.compute_units - 1) < (len(launch) - 1) * traits.solo_work * traits.compute_units


def _extended(launch: tuple[Phase, ...], phase: Phase, traits: Traits) -> tuple[Phase, ...] | None:
    """``launch`` and then ``phase``; None where one work-group cannot run that, or the device does not take it."""
    keeps_groups = launch[0].schedule.mapping is Mapping.ROWS or launch[0].schedule.solo
    first = launch[0] if keeps_groups else _alone(launch[0], traits)
    added = _alone(phase, traits)
    if first is None or added is None:
        return None
    longer = (first, *launch[1:], added)
    buffers = {b.name for p in longer for b in p.group.buffers}
    statements = sum(len(p.group.body) for p in longer)
    fits = len(buffers) <= traits.max_kernel_arguments and statements <= 4 * traits.max_group_nodes
    return longer if fits else None


def _alone(phase: Phase, traits: Traits) -> Phase | None:
    """``phase`` for a single work-group; None where that would never pay, or it cannot be."""
    if phase.schedule.outer:  # more rows than a range takes
        return None
    work = _work(phase, traits)
    multiplies = any(isinstance(s, ir.Reduce) and s.fn == "prod" for s in phase.group.body)
    if work is None or work > LOOKAHEAD * traits.solo_work or multiplies or phase.schedule.chunk is not None:
        return None
    schedule = dataclasses.replace(
        phase.schedule, solo=traits.lanes, tile=None, rows_a_group=1, rows_an_item=1, work_group=()
    )
    return dataclasses.replace(phase, schedule=schedule)


def _work(phase: Phase, traits: Traits) -> int | None:
    """The additions that the lanes of one work-group would make together, idle lanes counted; None where sizes are not
    known."""
    schedule = phase.schedule
    rows, cols = [a for dim in schedule.dims for a in dim], list(schedule.loops)
    spread = cols if schedule.mapping is Mapping.ROWS else rows
    sizes = [a.size.constant for a in (*rows, *cols)]
    if any(s is None for s in sizes):
        return None
    points = product(a.size for a in (*rows, *cols)).constant or 0
    last = (spread[-1].size.constant or 0) if spread else 1
    padded = -(-last // traits.lanes) * traits.lanes
    return points * padded // max(last, 1) * cost(phase.group)
