"""The measurement: workload after workload, all backends of a workload side by side."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from aten_backend.comparison import guards, machine, memory
from aten_backend.comparison.backends import EAGER, Backend, caches_in
from aten_backend.comparison.distance import in_float64
from aten_backend.comparison.graphs import measure as graphs
from aten_backend.comparison.records import Comparison, GraphRow, RecordError, Row, describe, misfits
from aten_backend.comparison.subject import Subject, exact_results
from aten_backend.comparison.timing import interleave
from aten_backend.comparison.workloads import Case, Workload

Progress = Callable[[str, float], None]
"""Called with what is being done, and how much was done since the last call, in units of a workload's weight."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to measure."""

    rounds: int = 30
    seconds: float = 20.0
    """Timed rounds of one workload end after so long, but not before six."""
    counts_only: bool = False
    graphs: bool = False
    """Whether the graphs of each workload are given to each compiler directly as well."""


class Interrupted(Exception):
    """The user ended the run. What was measured is in the comparison."""


def new_comparison(settings: Settings, backends: Sequence[Backend]) -> Comparison:
    """An empty comparison that knows where and how it is made."""
    created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    how = {**dataclasses.asdict(settings), "backends": [backend.name for backend in backends]}
    return Comparison(machine.machine(), machine.versions(), machine.threads(), how, created)


def resume(comparison: Comparison, old: Comparison) -> None:
    """Take over the finished workloads of ``old``. RecordError if it was made elsewhere or otherwise."""
    found = misfits(old, comparison)
    if found:
        raise RecordError("the rows that are there cannot be continued here. " + "; ".join(found) + ".")
    for label in old.labels:
        rows = [row for row in old.rows if row.label == label]
        complete = {row.backend for row in rows} >= set(comparison.settings["backends"])
        if complete and not any(row.interrupted for row in rows):
            comparison.rows += rows
            comparison.graphs += [row for row in old.graphs if row.label == label]


def run(
    workloads: Sequence[Workload],
    backends: Sequence[Backend],
    settings: Settings,
    comparison: Comparison,
    save: Callable[[], None] = lambda: None,
    progress: Progress = lambda what, done: None,
) -> None:
    """Measure what ``comparison`` does not hold yet, and ``save`` after each workload. Raises Interrupted on Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="xpu_aten_compare_", ignore_cleanup_errors=True) as folder:
        try:
            progress("starting the compilers", 0)
            _warm_up(backends, Path(folder) / "start")
            for number, workload in enumerate(workloads):
                if workload.label in comparison.labels:
                    progress(workload.label, workload.weight)
                    continue
                measurement = Measurement(workload, backends, settings, Path(folder) / str(number), progress)
                try:
                    measurement.measure()
                finally:
                    comparison.rows += measurement.rows
                    comparison.graphs += measurement.graphs
                    save()
        except KeyboardInterrupt:
            raise Interrupted from None


def _warm_up(backends: Sequence[Backend], folder: Path) -> None:
    """Start Dynamo and each compiler: what a process pays once is no workload's. A failure shows in every row."""
    torch._dynamo.reset()
    with caches_in(folder):
        for backend in backends:
            with contextlib.suppress(Exception):
                backend.compile(lambda x: torch.softmax(x * 2, -1), None)(torch.ones(64, 64))


class Measurement:
    """All backends on one workload. ``rows`` holds what there is, whenever it is asked."""

    def __init__(
        self, workload: Workload, backends: Sequence[Backend], settings: Settings, folder: Path, progress: Progress
    ) -> None:
        self.workload, self.backends, self.settings, self.folder = workload, backends, settings, folder
        self.subjects: list[Subject] = []
        self.rows: list[Row] = []
        self.graphs: list[GraphRow] = []
        self._tell = progress
        # Compiling takes most of the time: cold counts three times as much as warm, and the rounds as much as warm.
        self._unit = workload.weight / (3 * len(backends) + (0 if settings.counts_only else len(backends) + 1))

    def measure(self) -> None:
        """Cold compiles, warm compiles, interleaved rounds, memory. Errors become rows, an interrupt is passed on."""
        torch._dynamo.reset()
        try:
            torch.manual_seed(0)
            case = self.workload.make()
            with torch.set_grad_enabled(case.train):
                self._measure(case)
        except Exception as error:  # the workload itself, before any backend
            self.rows = [self._failed(backend, error) for backend in self.backends]
            self._tell(self.workload.label, self.workload.weight)
        except KeyboardInterrupt:
            for row in self.rows:
                row.interrupted = True
            raise

    def _measure(self, case: Case) -> None:
        self._tell(f"{self.workload.label}: float64", 0)
        exact = exact_results(self.workload, in_float64(case))
        for backend in self.backends:
            subject = Subject(self.workload, case, backend)
            self.subjects.append(subject)
            self.rows.append(subject.row)
            torch._dynamo.reset()
            with self._step(subject, "cold compile", 3):
                subject.compile_cold(exact)
        if not self.settings.counts_only:
            self._run_warm()
        if self.settings.graphs:
            self._measure_graphs(case)

    def _run_warm(self) -> None:
        torch._dynamo.reset()  # once: from here on every backend's code stays
        for subject in self._usable():
            with self._step(subject, "warm compile", 1):
                subject.compile_warm()
        self._time()
        for subject in self._usable():
            subject.row.peak_bytes = memory.peak_growth(subject.run)
            if not subject.backend.is_eager:
                subject.row.guard_seconds = guards.seconds(subject.run)

    @contextlib.contextmanager
    def _step(self, subject: Subject, what: str, units: int) -> Iterator[None]:
        """A failure of a backend is told in its row, and ends it there."""
        self._tell(f"{self.workload.label}: {subject.backend.name}, {what}", 0)
        try:
            with caches_in(self.folder / subject.backend.name.replace(":", "_")):
                yield
        except Exception as error:  # whatever a compiler raises: told, not hidden
            subject.row.error = describe(error)
        self._tell(f"{self.workload.label}: {subject.backend.name}, {what}", units * self._unit)

    def _usable(self) -> list[Subject]:
        return [subject for subject in self.subjects if subject.usable]

    def _time(self) -> None:
        settings = self.settings
        label, share = f"{self.workload.label}: timing", self._unit / settings.rounds
        interleave(self._usable(), settings.rounds, settings.seconds, lambda: self._tell(label, share))

    def _measure_graphs(self, case: Case) -> None:
        """The workload's graphs given to each compiler directly. What fails here is told beside what was measured."""
        self._tell(f"{self.workload.label}: graphs", 0)
        subject = Subject(self.workload, case, Backend(EAGER))
        rounds = 0 if self.settings.counts_only else self.settings.rounds
        try:
            with caches_in(self.folder / "graphs"):
                self.graphs = graphs.measure(subject, self.backends, rounds, self.settings.seconds)
        except Exception as error:  # capturing failed: whatever tracing or the workload raises
            self.graphs = [GraphRow(self.workload.suite, self.workload.name, "all", "trace", describe(error))]

    def _failed(self, backend: Backend, error: Exception) -> Row:
        return Row(self.workload.suite, self.workload.name, backend.name, describe(error))
