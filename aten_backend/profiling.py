"""Where the time of a compiled program goes: kernels by SYCL events, ATen and the host by the clock."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from aten_backend.backend import compile_dynamo_graph
from aten_backend.dump.story import Follower, Story
from aten_backend.dump.view import step_bytes
from aten_backend.options import Options
from runtime.executor import CompiledGraph, Run
from runtime.profile import WAIT, Meter, Span

WARM_UP = 2
"""Rounds before those that count: the first compiles, the second fills caches."""

Frames = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of one graph over all rounds. ``what`` is the kernel's name without its hash or the op, ``frames`` the
    program's calls that lead to it, the outermost first. ``calls`` counts runs of the step. Of all of them, ``bytes``
    are read and written, ``host`` nanoseconds go by on the host, submitting kernels or in ATen, and ``device``
    nanoseconds on the device, in kernels."""

    graph: str
    what: str
    kernel: bool
    source: str
    frames: Frames
    calls: int
    bytes: int
    host: int
    device: int

    @property
    def time(self) -> int:
        """Nanoseconds that the step itself needs: in its kernels, or in ATen."""
        return self.device if self.kernel else self.host


@dataclasses.dataclass(frozen=True)
class Profile:
    """``rounds`` has the start and the end of each round in nanoseconds, ``steps`` all that ran in them, ``waits`` the
    nanoseconds that the host waited for kernels. ``spans`` are those of each graph's runs."""

    rounds: tuple[tuple[int, int], ...]
    steps: tuple[Step, ...]
    waits: int
    spans: tuple[tuple[str, tuple[Step, ...], tuple[Span, ...]], ...]
    device: str

    @property
    def total(self) -> int:
        """Nanoseconds of all rounds."""
        return sum(end - start for start, end in self.rounds)

    @property
    def elsewhere(self) -> int:
        """Nanoseconds of the host outside all steps and waits: Dynamo's guards, AOTAutograd's wrappers, the plans' own
        lines, and the program's other Python."""
        return max(self.total - self.waits - sum(s.host for s in self.steps), 0)

    def table(self) -> list[Step]:
        """Steps with one name in one kind of graph as one, the most costly first; ``source`` is the first one's."""
        merged: dict[tuple[str, str, bool], Step] = {}
        for s in self.steps:
            key = (s.graph, s.what, s.kernel)
            known = merged.get(key)
            merged[key] = s if known is None else dataclasses.replace(
                known, calls=known.calls + s.calls, host=known.host + s.host, device=known.device + s.device,
                bytes=known.bytes + s.bytes, source=known.source if known.source == s.source else f"{known.source} ...",
            )  # fmt: skip
        return sorted(merged.values(), key=lambda s: -s.time)

    def to_chrome(self) -> str:
        """The rounds as a Chrome trace (chrome://tracing, Perfetto): the host and the device each as a thread."""
        first = self.rounds[0][0]
        events: list[dict[str, Any]] = [
            {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}
            for tid, name in ((1, "host"), (2, f"device: {self.device}"))
        ]

        def add(tid: int, name: str, start: int, end: int, **about: Any) -> None:
            ts, dur = (start - first) / 1e3, (end - start) / 1e3
            events.append({"ph": "X", "pid": 1, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": about})

        for n, (start, end) in enumerate(self.rounds):
            add(1, f"round {n}", start, end)
        for graph, steps, spans in self.spans:
            for span in spans:
                if span.step == WAIT:
                    add(1, "wait for kernels", span.start, span.end, graph=graph)
                    continue
                step = steps[span.step]
                about = {"graph": graph, "source": step.source, "bytes": step.bytes // max(step.calls, 1)}
                add(1, f"submit {step.what}" if step.kernel else step.what, span.start, span.end, **about)
                for start, end in span.kernels:
                    add(2, step.what, start, end, **about)
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def run_once(fn: Callable[..., Any], args: Sequence[Any]) -> None:
    """Call ``fn``, and go backward from results that want gradients."""
    results = [r for r in tree_leaves(fn(*args)) if isinstance(r, torch.Tensor) and r.requires_grad]
    if results:
        torch.autograd.backward(results, [torch.ones_like(r) for r in results])


def profile(fn: Callable[..., Any], *args: Any, rounds: int = 10, options: Mapping[str, Any] | None = None) -> Profile:
    """Compile ``fn`` with xpu_aten and run ``fn(*args)`` so many ``rounds``, backward too where results want gradients.

    Compiling starts anew (``torch._dynamo.reset``). Kernels are submitted to a queue of their own that records when
    each starts and ends, and every step is timed, so that the whole is somewhat slower than unwatched. Raises
    OptionError for options that do not exist.
    """
    chosen = Options.parse(None, options)
    collected: list[_Metered] = []

    def backend(gm: Any, inputs: Sequence[Any]) -> Any:
        return compile_dynamo_graph(gm, inputs, chosen, _Collector(collected))

    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=backend)
    for _ in range(WARM_UP):
        run_once(compiled, args)
    for metered in collected:
        metered.meter.runs.clear()
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        run_once(compiled, args)
        times.append((start, time.perf_counter_ns()))
    found = [(m.name, m.steps(), tuple(s for run in m.meter.runs for s in run)) for m in collected]
    spans = tuple((name, steps, runs) for name, steps, runs in found if runs)
    waits = sum(s.end - s.start for _, _, runs in spans for s in runs if s.step == WAIT)
    device = next((m.meter.graph.device.name for m in collected if m.meter.graph.device is not None), "none")
    # a group that a kernel of an earlier step computes has no lines of its own
    steps = tuple(s for _, own, _ in spans for s in own if s.calls)
    return Profile(tuple(times), steps, waits, spans, device)


class _Collector(Follower):
    """Puts a meter on every graph."""

    def __init__(self, collected: list[_Metered]) -> None:
        super().__init__()
        self._collected = collected

    def watch(self, graph: CompiledGraph) -> Run:
        kind = self.story.kind
        count = sum(m.name.split()[0] == kind for m in self._collected)
        meter = Meter(graph)
        self._collected.append(_Metered(f"{kind} {count}", self.story, meter))
        return meter


@dataclasses.dataclass(frozen=True)
class _Metered:
    name: str
    story: Story
    meter: Meter

    def steps(self) -> tuple[Step, ...]:
        """What the meter saw of each step."""
        cut = self.story.cut
        assert cut is not None
        nodes = {n.name: n for n in cut.gm.graph.nodes}
        sizes = step_bytes(self.story)
        found = []
        for n, step in enumerate(self.meter.graph.steps):
            spans = [s for run in self.meter.runs for s in run if s.step == n]
            what = step.label.rpartition("_")[0] if step.kernel else step.label
            found.append(
                Step(
                    self.name, what, step.kernel, step.source,
                    next((f for name in step.nodes if (f := frames(nodes[name]))), ()),
                    len(spans), sizes[n] * len(spans),
                    sum(s.end - s.start for s in spans), sum(b - a for s in spans for a, b in s.kernels),
                )
            )  # fmt: skip
        return tuple(found)


_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>.*)$', re.MULTILINE)


def frames(node: Node) -> Frames:
    """The program's calls that lead to ``node``, as ``function (file:line)``, the outermost first."""
    trace = node.meta.get("stack_trace") or ""
    return tuple(
        f"{found['function']} ({found['file'].rpartition('/')[2]}:{found['line']})" for found in _FRAME.finditer(trace)
    )
