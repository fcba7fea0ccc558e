"""One trial: a graph compiled under some options and run, and what became of it."""

from __future__ import annotations

import dataclasses
import enum
import signal
import time
from typing import Any

import torch

from aten_backend.bisect.capture import Subject
from aten_backend.numerics.policy import judge
from aten_backend.numerics.reference import snapshot
from aten_backend.observe import StageRunner, observers
from aten_backend.options import Options
from aten_backend.pipeline import compile_kernels, compiler_for, lower, traits_of
from runtime import devices
from runtime.executor import CompiledGraph, link


class Symptom(str, enum.Enum):
    """What a trial shows."""

    RIGHT = "right"
    WRONG = "wrong numbers"
    NAN = "NaN or infinity"
    COMPILE = "compile failure"
    ERROR = "error when run"
    CRASH = "crash"
    HANG = "hang"
    SLOW = "slow"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """``symptom`` and what is known of it; ``seconds`` of a run of the compiled graph and of eager, where asked for."""

    symptom: Symptom
    detail: str = ""
    seconds: float = 0.0
    eager_seconds: float = 0.0

    @property
    def lost(self) -> float:
        """Seconds more than eager."""
        return self.seconds - self.eager_seconds

    def like(self, other: Outcome) -> bool:
        """Whether ``other`` shows the same fault. Errors are told apart by their class: it begins their detail. A small
        part is easily slower than eager for the cost of its launch: it must lose a SHARE of what the whole loses."""
        if self.symptom is Symptom.SLOW:
            return other.lost >= self.lost * SHARE
        if self.symptom in (Symptom.COMPILE, Symptom.ERROR):
            return other.symptom is self.symptom and other.detail.split(":")[0] == self.detail.split(":")[0]
        numbers = (Symptom.WRONG, Symptom.NAN)
        return other.symptom is self.symptom or (self.symptom in numbers and other.symptom in numbers)


SHARE = 0.1
"""Of the time that a slow graph loses, what a part of it must lose to be the slow part."""


def died(code: int) -> Outcome:
    """What the end of a process with the exit ``code`` (a signal's number, negative) means for the trial in it."""
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return Outcome(Symptom.CRASH, f"the process ended with {name}")


def hung(seconds: float) -> Outcome:
    """What no answer within so many seconds means."""
    return Outcome(Symptom.HANG, f"no answer within {seconds:.0f} s")


def attempt(subject: Subject, options: Options, slower_than: float | None) -> Outcome:
    """Compile and run ``subject``. With ``slower_than``, how long it takes counts too: so many times eager's time.

    Every exception is a finding here, whatever its class.
    """
    try:
        compiled = _compile(subject, options)
    except Exception as error:
        return Outcome(Symptom.COMPILE, _describe(error))
    try:
        torch.manual_seed(0)
        inputs = [snapshot(v) for v in subject.inputs]
        with torch.no_grad():
            results = compiled.run(list(inputs))
    except Exception as error:
        return Outcome(Symptom.ERROR, _describe(error))
    returned = subject.gm.graph.output_node().args[0]
    ours = [r for r, n in zip(results, returned, strict=True) if isinstance(n, torch.fx.Node)]
    outcome = _judge(subject, [*ours, *(inputs[position] for position in subject.written)])
    if slower_than is None or outcome.symptom is not Symptom.RIGHT:
        return outcome
    return _time(subject, compiled, slower_than)


def _compile(subject: Subject, options: Options) -> CompiledGraph:
    """The pipeline without its fallbacks: a failure is what is looked for."""
    device = devices.resolve(options.device)
    lowered = lower(subject.gm, options, traits_of(device), StageRunner(observers(options)), {})
    binaries = compile_kernels(lowered, compiler_for(options)) if lowered.plan.kernels else {}
    return link(lowered.plan, [binaries[k.source.name] for k in lowered.plan.kernels], device, "bisect")


def _judge(subject: Subject, ours: list[Any]) -> Outcome:
    fault = judge(ours, subject.eager, subject.exact, subject.work)
    if fault is None:
        return Outcome(Symptom.RIGHT)
    lost = any(
        bool((~mine.isfinite() & theirs.isfinite()).any())
        for mine, theirs in zip(ours, subject.eager, strict=True)
        if isinstance(theirs, torch.Tensor) and theirs.is_floating_point() and mine.shape == theirs.shape
    )
    return Outcome(Symptom.NAN if lost else Symptom.WRONG, f"result {fault.result}: {fault.text}")


ROUNDS, SECONDS = 7, 1.0
"""How often a graph is timed at most, and for how long before the last time."""


def _time(subject: Subject, compiled: CompiledGraph, slower_than: float) -> Outcome:
    """The best of some rounds, ours and eager's in turn."""
    ours: list[float] = []
    eager: list[float] = []
    with torch.no_grad():
        while len(ours) < ROUNDS and sum(ours) + sum(eager) < SECONDS:
            for run, seconds in ((compiled.run, ours), (lambda given: subject.gm(*given), eager)):
                inputs = [snapshot(v) for v in subject.inputs]
                start = time.perf_counter()
                run(inputs)
                seconds.append(time.perf_counter() - start)
    slow = min(ours) > slower_than * min(eager)
    detail = f"{min(ours) * 1e3:.3f} ms, eager {min(eager) * 1e3:.3f} ms"
    return Outcome(Symptom.SLOW if slow else Symptom.RIGHT, detail, min(ours), min(eager))


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:2000]}"
