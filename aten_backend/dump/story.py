"""What is known of one compile so far: each stage's artefact, how long it took, and what the first runs showed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from typing import Any

from torch.fx import GraphModule

from aten_backend.dump.values import sizes_of
from aten_backend.tracing import COMPILERS
from lowering.assemble import Kernel
from lowering.partition import Group, Partition
from runtime.devices import Device
from runtime.executor import CompiledGraph, Run
from runtime.launch_plan import LaunchPlan
from runtime.profile import Span

KINDS = tuple(COMPILERS.values())
"""What AOTAutograd has compiled: the stage of that name is the graph as it comes."""


@dataclasses.dataclass(frozen=True)
class Event:
    """One stage: when it ended, on the clock of ``time.perf_counter``, and the seconds that it took. ``error`` is what
    it failed with."""

    stage: str
    end: float
    seconds: float
    error: str = ""


@dataclasses.dataclass
class Story:
    """One compile. ``kind`` is one of KINDS; ``made`` has artefacts by stage; ``dynamo`` and ``joint`` are the graphs
    before. ``seen`` and ``sizes`` come from tracing, and are better once the graph has run; ``spans`` are of the last
    run that was measured."""

    kind: str = ""
    dynamo: GraphModule | None = None
    joint: GraphModule | None = None
    made: dict[str, Any] = dataclasses.field(default_factory=dict)
    events: list[Event] = dataclasses.field(default_factory=list)
    attempt: int = 0
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    seen: dict[str, Any] = dataclasses.field(default_factory=dict)
    spans: tuple[Span, ...] = ()
    runs: int = 0
    device: Device | None = None

    def note(self, stage: str, artefact: Any, seconds: float, error: str = "") -> None:
        """One stage is done, or failed with ``error``."""
        self.events.append(Event(stage, time.perf_counter(), seconds, error))
        if not error:
            self.made[stage] = artefact

    def begin(self, kind: str, gm: GraphModule) -> Story:
        """The story of a graph that is now compiled, with what was known before it."""
        events = [e for e in self.events if e.stage in ("dynamo", "joint")]
        return Story(kind, self.dynamo, self.joint, {kind: gm}, events, sizes=sizes_of(gm.graph))

    @property
    def cut(self) -> Partition | None:
        """The partition, once there is one."""
        found: Partition | None = self.made.get("partition")
        return found

    @property
    def plan(self) -> LaunchPlan | None:
        """The launch plan, once there is one."""
        found: LaunchPlan | None = self.made.get("plan")
        return found

    @property
    def kernels(self) -> Mapping[Group, tuple[Kernel, ...]]:
        """The kernels of each group that has any, once they are emitted."""
        if self.cut is None or "emit" not in self.made:
            return {}
        found: dict[Group, tuple[Kernel, ...]] = {}
        for kernel, owners in self.launches:
            for group in owners:
                found[group] = (*found.get(group, ()), kernel)
        return found

    @property
    def launches(self) -> list[tuple[Kernel, tuple[Group, ...]]]:
        """Each launch and the groups that it computes, or a part of."""
        chained = self.made.get("tune", self.made.get("chain", ()))
        pairs = zip(self.made.get("emit", ()), chained, strict=True)
        return [(kernel, tuple(dict.fromkeys(owners))) for kernel, (_, owners) in pairs]

    @property
    def units(self) -> list[tuple[tuple[Group, ...], tuple[Kernel, ...]]]:
        """Groups that only run together, because they share kernels, with these."""
        found: list[tuple[tuple[Group, ...], tuple[Kernel, ...]]] = []
        for kernel, owners in self.launches:
            if found and not set(owners).isdisjoint(found[-1][0]):
                groups, kernels = found.pop()
                found.append((tuple(dict.fromkeys((*groups, *owners))), (*kernels, kernel)))
            else:
                found.append((owners, (kernel,)))
        return found

    @property
    def failed(self) -> Event | None:
        """The stage that ended the compile, if one did."""
        return self.events[-1] if self.events and self.events[-1].error else None


class Follower:
    """An observer that keeps the story of the graph under way: the base of those that want more than one stage.

    One for each `torch.compile` call. ``watch`` says what is called in the place of a graph that was compiled.
    """

    def __init__(self) -> None:
        self.story = Story()

    def __call__(self, stage: str, artefact: Any, seconds: float) -> None:
        """A stage is done."""
        if stage in ("dynamo", "joint"):
            setattr(self.story, stage, artefact)
        elif stage in KINDS:
            self.story = self.story.begin(stage, artefact)
            self.begun()
        elif stage in ("passes", "classify") and stage in self.story.made:
            before = (self.story.kind, "passes")[: 1 if stage == "passes" else 2]  # what the new attempt starts from
            self.story.attempt += 1
            self.story.made = {name: self.story.made[name] for name in before}
            self.again()
        elif stage == "link":
            self.story.device = artefact.device
        self.story.note(stage, artefact, seconds)

    def failed(self, stage: str, error: Exception, seconds: float) -> None:
        """A stage raised."""
        self.story.note(stage, None, seconds, f"{type(error).__name__}: {error}")

    def begun(self) -> None:
        """The story of another graph begins."""

    def again(self) -> None:
        """Something is left to ATen, and the graph is lowered once more."""

    def watch(self, graph: CompiledGraph) -> Run:
        """What to call for ``graph``, before it first runs."""
        return graph.run


def timings(events: Iterable[Event]) -> str:
    """Seconds by stage, and what passed between them: AOTAutograd's tracing before the first, the rest elsewhere."""
    lines, last = [f"{'stage':12} {'ms':>10} {'ms since the stage before':>28}"], None
    for event in events:
        gap = "" if last is None else f"{(event.end - event.seconds - last) * 1e3:.1f}"
        error = event.error.partition("\n")[0]
        lines.append(f"{event.stage:12} {event.seconds * 1e3:10.1f} {gap:>28}  {error}".rstrip())
        last = event.end
    return "\n".join(lines) + "\n"
