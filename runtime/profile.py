"""Plans that tell what their steps take.

The text that runs every day knows nothing of this: a second text is made from it when someone asks, with a mark
around each step, and is thrown away with the one who asked. Where a team runs the kernels, a launch takes as long as
its kernel does; elsewhere device times come from SYCL events, which only a queue made for them records
(`devices.timed`).
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from torch.profiler import record_function

from . import devices
from .executor import CompiledGraph, Run, executable, waiting
from .launch import LaunchFunction
from .launch_plan import Step, namespace
from .launcher import bind_all, have_team
from .libraries import syclinterface

WAIT = -1
"""The step that a plan's ``wait()`` counts as: ATen, or the caller, waits for kernels."""

Around = Callable[[int], AbstractContextManager[Any]]


def marked(text: str, steps: Sequence[Step]) -> str:
    """The plan ``text`` with each step's lines inside ``with around(n):``, and each wait inside ``around(WAIT)``.

    Views that a call of ATen makes before it waits are nobody's.
    """
    plain = text.splitlines()
    waits = {number for number, line in enumerate(plain, 1) if line.strip() == "wait()"}
    owners: dict[int, int] = dict.fromkeys(waits, WAIT)
    for n, step in enumerate(steps):
        first = max((line + 1 for line in range(step.first, step.last + 1) if line in waits), default=step.first)
        owners.update(dict.fromkeys(range(first, step.last + 1), n))
    lines: list[str] = []
    for owner, part in itertools.groupby(enumerate(plain, 1), lambda numbered: owners.get(numbered[0])):
        if owner is None:
            lines += [line for _, line in part]
        else:
            lines += [f"    with around({owner}):", *(f"    {line}" for _, line in part)]
    return "\n".join(lines) + "\n"


def title(step: Step) -> str:
    """What a profile calls a step: the kernel without its hash, or the op, and the user's line."""
    label = step.label.rpartition("_")[0] if step.kernel else step.label
    place = ": ".join(step.source.split(": ")[:1])
    return f"xpu_aten {label} ({place})" if place else f"xpu_aten {label}"


def annotated(graph: CompiledGraph) -> Run:
    """``graph`` with a range of torch.profiler around each step."""
    titles = [*map(title, graph.steps), "xpu_aten wait for kernels"]  # WAIT is the last
    return _variant(graph, lambda step: record_function(titles[step]), None)


def _variant(graph: CompiledGraph, around: Around, meter: Meter | None) -> Run:
    """The marked plan of ``graph``; ``meter`` is told what its kernels take."""
    device, kernels = graph.device, graph.kernels
    if meter is None or device is None or have_team(kernels):
        launches = [launch.launch for launch in bind_all(kernels)]
        launches = launches if meter is None else [*map(meter.timed, launches)]
    else:
        device = devices.timed(device)
        kernels = tuple(dataclasses.replace(kernel, device=device) for kernel in kernels)
        launches = [kernel.by_queue(meter.submitted).launch for kernel in kernels]
    scope = {**namespace(graph.constants, launches, waiting(graph.kernels, device)), "around": around}
    return executable(marked(graph.text, graph.steps), scope, graph.kernels, graph.device, f"{graph.name} marked")


@dataclasses.dataclass(frozen=True)
class Span:
    """One step of one run, in nanoseconds of the host's ``time.perf_counter_ns``. ``kernels`` has the start and the end
    of each kernel that it launched, on the same clock as near as the device tells."""

    step: int
    start: int
    end: int
    kernels: tuple[tuple[int, int], ...] = ()


class Meter:
    """Runs a graph and keeps the spans of each run: ``runs`` has a list for each."""

    def __init__(self, graph: CompiledGraph) -> None:
        self.graph = graph
        self.runs: list[list[Span]] = []
        self._run = _variant(graph, lambda step: _Mark(self, step), self)
        self._open: list[Span] = []
        self._events: list[tuple[int, int, int]] = []  # place in _open, event, host time when it was submitted
        self._times: dict[int, list[tuple[int, int]]] = {}  # by place in _open: start and end of each kernel

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Run the graph once. The plan waits for its kernels before it returns, so that all events are complete."""
        self._open, self._events, self._times = [], [], {}
        results = self._run(inputs)
        self.runs.append(self._finished())
        return results

    def timed(self, launch: LaunchFunction) -> LaunchFunction:
        """``launch``, whose kernel is done when it returns, and a note of what it takes."""

        def run(args: Any, global_size: Any, alone: bool = False) -> None:
            start = time.perf_counter_ns()
            launch(args, global_size, alone)
            self._times.setdefault(len(self._open), []).append((start, time.perf_counter_ns()))

        return run

    def submitted(self, event: int) -> None:
        """Keep a kernel's event until the run is over."""
        self._events.append((len(self._open), event, time.perf_counter_ns()))

    def close(self, step: int, start: int) -> None:
        """Note the end of a step that began at ``start``."""
        self._open.append(Span(step, start, time.perf_counter_ns()))

    def _finished(self) -> list[Span]:
        library = syclinterface() if self._events else None
        times, moments = self._times, []
        for place, event, host in self._events:
            assert library is not None
            submit, start, end = (
                getattr(library, f"DPCTLEvent_GetProfilingInfo{moment}")(event) for moment in ("Submit", "Start", "End")
            )
            library.DPCTLEvent_Delete(event)
            moments.append((place, host - submit, start, end))
        # A kernel is submitted before the call that submits it returns: the least distance is nearest the truth.
        offset = min((distance for _, distance, _, _ in moments), default=0)
        for place, _, start, end in moments:
            times.setdefault(place, []).append((start + offset, end + offset))
        return [dataclasses.replace(span, kernels=tuple(times.get(n, ()))) for n, span in enumerate(self._open)]


class _Mark:
    """The time between entering and leaving a step."""

    def __init__(self, meter: Meter, step: int) -> None:
        self._meter, self._step = meter, step

    def __enter__(self) -> None:
        self._start = time.perf_counter_ns()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._meter.close(self._step, self._start)
