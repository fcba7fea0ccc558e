"""Other ways to run a launch, for those who measure which is best."""

from __future__ import annotations

import dataclasses

from . import ir
from .assemble import Phase
from .schedule import Mapping, Schedule, choose, in_work_groups, limited, range_dims
from .target import Traits

LANES = (8, 16, 32, 64)
"""Work-group sizes to try for rows."""


def alternatives(launch: tuple[Phase, ...], traits: Traits) -> dict[str, tuple[tuple[Phase, ...], ...]]:
    """Ways to run the phases of ``launch`` by what distinguishes them, each as launches in order; the first is
    ``launch`` itself."""
    first, *later = launch
    found: dict[str, tuple[tuple[Phase, ...], ...]] = {"planned": (launch,)}
    if later:
        found["a launch each"] = tuple((_on_its_own(p, traits),) for p in launch)
    for name, schedule in _schedules(first, traits).items():
        solo = schedule.solo or schedule.lanes
        rest = [dataclasses.replace(p, schedule=_with_lanes(p.schedule, solo)) for p in later]
        if not later or (schedule.has_lanes and not any(isinstance(s, ir.Scan) for p in later for s in p.group.body)):
            found[name] = ((Phase(first.group, schedule), *rest),)
    return found


def _on_its_own(phase: Phase, traits: Traits) -> Phase:
    return Phase(phase.group, choose(phase.group, traits, phase.schedule.chunk))


def _with_lanes(schedule: Schedule, lanes: int) -> Schedule:
    """``schedule`` with work-groups of ``lanes``."""
    other = dataclasses.replace(
        schedule,
        lanes=lanes if schedule.mapping is Mapping.ROWS else schedule.lanes,
        solo=lanes if schedule.solo else 0,
    )
    return other if schedule.solo else limited(other)


def _schedules(phase: Phase, traits: Traits) -> dict[str, Schedule]:
    """Other schedules for a phase. Scans and updates walk their cols in order, which leaves no choice."""
    chosen, found = phase.schedule, dict[str, Schedule]()
    if any(isinstance(s, (ir.Scan, ir.Update)) for s in phase.group.body):
        return found
    if chosen.has_lanes:
        own = chosen.solo or chosen.lanes
        found |= {f"work-groups of {lanes}": _with_lanes(chosen, lanes) for lanes in LANES if lanes != own}
    if chosen.mapping is Mapping.ROWS and not chosen.solo and chosen.chunk is None and phase.group.rows:
        serial = limited(Schedule(Mapping.SERIAL, range_dims(list(phase.group.rows)), chosen.loops))
        found["a work-item a row"] = in_work_groups(serial, traits)
    if chosen.mapping is Mapping.SERIAL and not chosen.solo:
        rows = Schedule(Mapping.ROWS, (tuple(phase.group.rows),), chosen.loops)
        found |= {f"a work-group of {lanes} a row": limited(dataclasses.replace(rows, lanes=lanes)) for lanes in LANES}
    if chosen.tile is not None:
        found["no tiles"] = in_work_groups(dataclasses.replace(chosen, tile=None), traits)
    return found
