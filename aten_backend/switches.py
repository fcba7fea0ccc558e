"""Steps of the compiler that can be switched off, each for a plain stand-in, so that a search finds the culprit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lowering.classify import Classes
from lowering.index import Axis
from lowering.ir import GroupIR
from lowering.passes import PASSES, Pass
from lowering.schedule import Schedule, choose, plainest
from lowering.simplify import collapse, uncollapsed
from lowering.split import split_long, unsplit
from lowering.target import Traits
from runtime.plan import PlainPlanner, Planner


def _as_it_is(value: Any) -> Any:
    return value


@dataclasses.dataclass(frozen=True)
class Steps:
    """What the pipeline runs at the places where there is a choice."""

    passes: Mapping[str, Pass] = dataclasses.field(default_factory=lambda: PASSES)
    classes: Callable[[Classes], Classes] = _as_it_is
    traits: Callable[[Traits], Traits] = _as_it_is
    simplify: Callable[[GroupIR], GroupIR] = collapse
    split: Callable[[GroupIR, Traits], tuple[tuple[GroupIR, Axis | None], ...]] = split_long
    schedule: Callable[[GroupIR, Traits, Axis | None], Schedule] = choose
    planner: type[Planner] = Planner


@dataclasses.dataclass(frozen=True)
class Switch:
    """A step that can be switched off: the ``change`` that this makes to a Steps, and what runs instead (``plain``)."""

    plain: str
    change: Callable[[Steps], Steps]


def _instead(plain: str, **fields: Any) -> Switch:
    return Switch(plain, lambda steps: dataclasses.replace(steps, **fields))


def _limit(plain: str, **traits: int) -> Switch:
    """A switch that takes something away from what the lowering believes of the device."""

    def change(steps: Steps) -> Steps:
        return dataclasses.replace(steps, traits=lambda found: dataclasses.replace(steps.traits(found), **traits))

    return Switch(plain, change)


def _without_pass(name: str) -> Switch:
    def change(steps: Steps) -> Steps:
        return dataclasses.replace(steps, passes={n: p for n, p in steps.passes.items() if n != name})

    return Switch("the graph stays as it is", change)


def _nothing_inline(classes: Classes) -> Classes:
    return dataclasses.replace(classes, inline=frozenset())


SWITCHES: dict[str, Switch] = {
    **{name: _without_pass(name) for name in PASSES},
    "simplify": _instead("axes stay as the ops have them", simplify=uncollapsed),
    "split": _instead("a long reduction stays one kernel", split=unsplit),
    "schedule": _instead("one work-item a row, loops in the group's order", schedule=plainest),
    "plan": _instead("every kernel is waited for, no memory is given back or used again", planner=PlainPlanner),
    "chain": _limit("each group is a launch of its own", solo_work=0),
    "keep": _limit("values are computed again, not kept in work-group memory", local_memory=0),
    "inline": _instead("every op is computed once, by its own group", classes=_nothing_inline),
    "fusion": _limit("each op is a kernel of its own", max_group_nodes=1),
}
"""By name, from what explains most to what explains least: a search names the first that mends."""


def without(names: Iterable[str]) -> Steps:
    """The steps with those of ``names`` switched off. Raises KeyError for a name that is none of SWITCHES."""
    steps = Steps()
    for name in names:
        steps = SWITCHES[name].change(steps)
    return steps
