"""What a first call spends its time on: the phases of a compile, disjoint, and the same ones for every backend."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from torch._dynamo.utils import compilation_time_metrics

from aten_backend.observe import watching

NAMES = {
    "dynamo": "Dynamo and its guards",
    "aot": "AOTAutograd",
    "generate": "from graph to kernel text",
    "compile": "from kernel text to machine code",
    "run": "the first run",
}
"""The phases in order, and what they are."""

_FRAME, _BACKEND, _BACKWARD = "_compile.compile_inner", "OutputGraph.call_user_compiler", "backward._backward_impl"
_INDUCTOR, _INDUCTOR_WAIT = "compile_fx_inner", "async_compile.wait"
_OURS_COMPILE = ("compile", "link", "tune")


@contextlib.contextmanager
def recorded() -> Iterator[dict[str, float]]:
    """Seconds by phase of what is compiled and run meanwhile, filled at the end; they add up to the whole.

    From the timers of torch (``torch._dynamo.utils.dynamo_timed``) and the observers of ours. A backend that has
    neither has its whole compile in ``aot``.
    """
    phases: dict[str, float] = {}
    stages: dict[str, float] = {}

    def note(stage: str, artefact: Any, seconds: float) -> None:
        stages[stage] = stages.get(stage, 0.0) + seconds

    before = {name: sum(seconds) for name, seconds in compilation_time_metrics.items()}
    started = time.perf_counter()
    with watching(note):
        yield phases
    whole = time.perf_counter() - started
    phases.update(_phases(whole, _since(before), stages))


def _since(before: Mapping[str, float]) -> dict[str, float]:
    return {name: sum(seconds) - before.get(name, 0.0) for name, seconds in compilation_time_metrics.items()}


def _phases(whole: float, torch_seconds: Mapping[str, float], stages: Mapping[str, float]) -> dict[str, float]:
    backend = torch_seconds.get(_BACKEND, 0.0)
    # A backward graph is compiled when it is first called, outside of the frame.
    called = backend + torch_seconds.get(_BACKWARD, 0.0)
    inductor, waited = torch_seconds.get(_INDUCTOR, 0.0), torch_seconds.get(_INDUCTOR_WAIT, 0.0)
    ours = sum(seconds for stage, seconds in stages.items() if stage in _OURS_COMPILE)
    generate = inductor - waited + sum(stages.values()) - ours
    dynamo = torch_seconds.get(_FRAME, 0.0) - backend
    found = {
        "dynamo": dynamo,
        "aot": called - inductor - sum(stages.values()),
        "generate": generate,
        "compile": waited + ours,
        "run": whole - dynamo - called,
    }
    return {name: max(0.0, seconds) for name, seconds in found.items()}
