"""One trial: a graph compiled under some options and run, and what became of it."""

from __future__ import annotations

import dataclasses
import enum
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

    def like(self, other: Outcome) -> bool:
        """Whether both show the same fault. Errors are told apart by their class: it begins their detail."""
        if self.symptom in (Symptom.COMPILE, Symptom.ERROR):
            return other.symptom is self.symptom and other.detail.split(":")[0] == self.detail.split(":")[0]
        numbers = (Symptom.WRONG, Symptom.NAN)
        return other.symptom is self.symptom or (self.symptom in numbers and other.symptom in numbers)


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
        with torch.no_grad():
            results = compiled.run([snapshot(v) for v in subject.inputs])
    except Exception as error:
        return Outcome(Symptom.ERROR, _describe(error))
    returned = subject.gm.graph.output_node().args[0]
    ours = [r for r, n in zip(results, returned, strict=True) if isinstance(n, torch.fx.Node)]
    outcome = _judge(subject, ours)
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


ROUNDS = 7


def _time(subject: Subject, compiled: CompiledGraph, slower_than: float) -> Outcome:
    """The best of some rounds, ours and eager's in turn."""
    ours, eager = [], []
    with torch.no_grad():
        for _ in range(ROUNDS):
            inputs = [snapshot(v) for v in subject.inputs]
            start = time.perf_counter()
            compiled.run(list(inputs))
            middle = time.perf_counter()
            subject.gm(*inputs)
            eager.append(time.perf_counter() - middle)
            ours.append(middle - start)
    slow = min(ours) > slower_than * min(eager)
    detail = f"{min(ours) * 1e3:.3f} ms, eager {min(eager) * 1e3:.3f} ms"
    return Outcome(Symptom.SLOW if slow else Symptom.RIGHT, detail, min(ours), min(eager))


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:2000]}"
