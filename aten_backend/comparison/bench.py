"""One backend of a comparison, step by step: what happens in the process that is the backend's own, or in this one."""

from __future__ import annotations

import contextlib
import gc
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from aten_backend.comparison import flops, guards, memory
from aten_backend.comparison.backends import Backend, caches_in
from aten_backend.comparison.distance import in_float64
from aten_backend.comparison.graphs.measure import Traced
from aten_backend.comparison.records import GraphRow, Row, describe
from aten_backend.comparison.subject import Subject, exact_results
from aten_backend.comparison.workloads import Case, Workload


class Bench:
    """Measures ``backend`` on one workload after another. Each step returns the row, with the error if there was one.

    After an error in its row a workload is not to be asked for more. Steps know nothing of other backends, so that
    each may live in a process of its own.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._subject: Subject | None = None
        self._exact: list[torch.Tensor] = []
        self._row = Row("", "", backend.name)
        self._folder = Path()

    def warm_up(self, folder: Path) -> None:
        """Start Dynamo and the compiler: what a process pays once is no workload's. A failure shows in every row."""
        torch._dynamo.reset()
        with caches_in(folder), contextlib.suppress(Exception):
            self.backend.compile(lambda x: torch.softmax(x * 2, -1), None)(torch.ones(64, 64))

    def peaks(self) -> dict[str, float]:
        """What this machine can do: ``flops.peaks``."""
        return flops.peaks()

    def begin(self, workload: Workload, folder: Path) -> Row:
        """Make the workload, and its results in float64. Caches are to be in ``folder``."""
        self.end()
        self._row, self._folder = Row(workload.suite, workload.name, self.backend.name), folder
        try:
            case = made(workload)
            with torch.set_grad_enabled(case.train):
                self._exact = case.exact() if case.exact else exact_results(workload, in_float64(case))
                self._subject = Subject(workload, case, self.backend)
                self._subject.row = self._row
        except Exception as error:  # whatever the workload raises, before any backend
            self._row.error = describe(error)
        return self._row

    def reset(self) -> Row:
        """Forget all compiled code of this process."""
        torch._dynamo.reset()
        return self._row

    def compile_cold(self) -> Row:
        """First call with empty caches, after a reset: compile time, counts, distance."""
        torch._dynamo.reset()
        exact, self._exact = self._exact, []
        with caches_in(self._folder):
            return self._step(lambda subject: subject.compile_cold(exact))

    def compile_warm(self) -> Row:
        """First call with the caches that the cold one filled, after ``reset``."""
        with caches_in(self._folder):
            return self._step(Subject.compile_warm)

    def settle(self, repeats: int | None) -> Row:
        """Run until a sample can be taken, and choose (or take) the runs that make one."""
        return self._step(lambda subject: subject.settle(repeats))

    def sample(self) -> Row:
        """Add one sample to the row."""
        return self._step(Subject.sample)

    def weigh(self) -> Row:
        """Peak memory and guards, when everything is warm."""
        return self._step(_weigh)

    def end(self) -> Row:
        """Let go of the workload: its weights, inputs and compiled code."""
        self._subject, self._exact = None, []
        torch._dynamo.reset()
        gc.collect()
        return self._row

    def trace(self, workload: Workload, backends: Sequence[Backend], folder: Path) -> Row:
        """Make the workload anew, with its graphs given to this compiler directly: the steps that follow are of that.

        ``backends`` are all compilers that are given the same trace. What is compiled in this process is kept.
        """
        self._subject, self._row, self._folder = None, Row(workload.suite, workload.name, self.backend.name), folder
        with _told_in(self._row), caches_in(folder):
            case = made(workload)
            with torch.set_grad_enabled(case.train):
                subject = Traced(workload, case, self.backend, backends)
                subject.row = self._row
                subject.run()
                self._subject = subject
        return self._row

    def graph_rows(self) -> list[GraphRow]:
        """Of each graph, after ``trace``."""
        assert isinstance(self._subject, Traced)
        return self._subject.graph_rows()

    def _step(self, do: Callable[[Subject], object]) -> Row:
        subject = self._subject
        if subject is None:
            raise RuntimeError("there is no workload: begin() comes first, and returned its error")
        with _told_in(self._row), torch.set_grad_enabled(subject.case.train):
            do(subject)
        return self._row


def made(workload: Workload) -> Case:
    """The case of a workload, the same in each process unless the workload draws from a generator of its own."""
    torch.manual_seed(0)
    random.seed(0)
    return workload.make()


def _weigh(subject: Subject) -> None:
    subject.row.peak_bytes = memory.peak_growth(subject.run)
    if not subject.backend.is_eager:
        subject.row.guard_seconds = guards.seconds(subject.run)


@contextlib.contextmanager
def _told_in(row: Row) -> Iterator[None]:
    """A failure of a backend becomes the error of its row."""
    try:
        yield
    except Exception as error:  # whatever a compiler raises: told, not hidden
        row.error = describe(error)
