"""One backend on one workload: compiled, run, and timed."""

from __future__ import annotations

import copy
import math
import time
import types
from collections.abc import Callable
from typing import Any

import torch

from aten_backend.comparison import flops, memory, phases
from aten_backend.comparison.backends import Backend, counted
from aten_backend.comparison.distance import distance, tensors
from aten_backend.comparison.records import Row
from aten_backend.comparison.timing import Timed
from aten_backend.comparison.workloads import Case, Workload


class Subject(Timed):
    """Owns what a backend needs to run a case, so that nothing is shared between backends but inference weights."""

    def __init__(self, workload: Workload, case: Case, backend: Backend) -> None:
        self.backend = backend
        self.case = case
        self.row: Row = Row(workload.suite, workload.name, backend.name)
        self.fn = own(case)
        self._run: Callable[..., Any] = self.fn

    @property
    def usable(self) -> bool:
        """Whether nothing failed so far."""
        return not self.row.error

    def compile_cold(self, exact: list[torch.Tensor]) -> None:
        """First call with empty caches: compile time, counts, and the distance of its results from ``exact``."""
        with counted(self.backend) as counts, phases.recorded() as spent:
            seconds, results = self._first_call()
        self.row.counts = counts
        self.row.data_bytes = memory.data_bytes([self.fn, self.case.calls, dict(self.case.kwargs), results])
        found = distance(results, exact)
        self.row.distance = found if math.isfinite(found) else None
        if not math.isfinite(found):
            self.row.note = "NaN, infinity or a shape differs from eager in float64"
        if self.backend.is_eager:
            self.row.flops = flops.count(self.run)
        else:
            self.row.cold_compile_seconds, self.row.cold_phases = seconds, spent

    def compile_warm(self) -> None:
        """First call again, after a reset, with the caches that the cold one filled."""
        with phases.recorded() as spent:
            seconds, _ = self._first_call()
        if not self.backend.is_eager:
            self.row.warm_compile_seconds, self.row.warm_phases = seconds, spent

    def run(self) -> Any:
        """All calls of the case, with a backward pass each in training."""
        return self.run_as(self._run)

    def run_as(self, run: Callable[..., Any]) -> Any:
        """The same with ``run`` in place of the compiled function."""
        case = self.case
        if not case.train:
            return [run(*args, **case.kwargs) for args in case.calls]
        return [self._step(run, args) for args in case.calls]

    def _step(self, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        self.fn.zero_grad(set_to_none=True)  # type: ignore[attr-defined]
        output = run(*args, **self.case.kwargs)
        loss = next(tensor for tensor in tensors(output) if tensor.requires_grad)
        loss.sum().backward()
        return output

    def _first_call(self) -> tuple[float, list[torch.Tensor]]:
        self._run = self.backend.compile(self.fn, self.case.dynamic)
        started = time.perf_counter()
        output = self.run()
        return time.perf_counter() - started, [t.detach() for t in tensors(output)] + self._gradients()

    def _gradients(self) -> list[torch.Tensor]:
        """Of every parameter. Where the loss does not depend on one, eager has none, and a compiled graph zeros."""
        if not self.case.train:
            return []
        parameters = self.fn.parameters()  # type: ignore[attr-defined]
        return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters]


def own(case: Case) -> Callable[..., Any]:
    """``case.fn`` for one backend alone: a trained module with its own weights, a function with its own code object.

    Dynamo keeps compiled code with the code object, and looks through all of it at each call: those who share one
    would pay for each other.
    """
    if isinstance(case.fn, torch.nn.Module):
        return copy.deepcopy(case.fn) if case.train else case.fn
    if not isinstance(case.fn, types.FunctionType):
        return case.fn
    old = case.fn
    new = types.FunctionType(old.__code__.replace(), old.__globals__, old.__name__, old.__defaults__, old.__closure__)
    new.__kwdefaults__ = old.__kwdefaults__
    return new


def exact_results(workload: Workload, case: Case) -> list[torch.Tensor]:
    """What eager gives for ``case``, whose numbers are in float64 already."""
    return Subject(workload, case, Backend("eager"))._first_call()[1]
