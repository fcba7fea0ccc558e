"""The measurement: workload after workload, all backends of a workload side by side."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from aten_backend.comparison import machine
from aten_backend.comparison.backends import Backend
from aten_backend.comparison.graphs import rounds
from aten_backend.comparison.lane import START, Lane
from aten_backend.comparison.places import Apart, Here, Place, ProcessEndedError
from aten_backend.comparison.records import Comparison, GraphRow, RecordError, Row, misfits
from aten_backend.comparison.timing import interleave
from aten_backend.comparison.workloads import Workload

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
    isolated: bool = True
    """Whether each backend has a process of its own. Workloads must be such that they can be pickled."""


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
    comparison.peaks = old.peaks
    for label in old.labels:
        rows = [row for row in old.rows if row.label == label]
        complete = {row.backend for row in rows} >= set(comparison.settings["backends"])
        if complete and not any(row.interrupted for row in rows):
            comparison.rows += rows
            comparison.traced += [row for row in old.traced if row.label == label]
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
    with tempfile.TemporaryDirectory(prefix="xpu_aten_compare_", ignore_cleanup_errors=True) as name:
        try:
            with _places(backends, settings) as places:
                _start(places, Path(name) / START, progress)
                if not comparison.peaks and not settings.counts_only:
                    comparison.peaks = _peaks(places)
                for number, workload in enumerate(workloads):
                    if workload.label in comparison.labels:
                        progress(workload.label, workload.weight)
                        continue
                    measurement = Measurement(workload, settings, places, Path(name) / str(number), progress)
                    try:
                        measurement.measure()
                    finally:
                        comparison.rows += measurement.rows
                        comparison.traced += measurement.traced
                        comparison.graphs += measurement.graphs
                        save()
        except KeyboardInterrupt:
            raise Interrupted from None


Places = Sequence[tuple[Backend, Place]]
"""Where each backend is measured."""


@contextlib.contextmanager
def _places(backends: Sequence[Backend], settings: Settings) -> Iterator[Places]:
    """All processes, which end with the run: by themselves, or at once when something is raised."""
    place: Callable[[Backend], Place] = Apart if settings.isolated else Here
    opened: list[tuple[Backend, Place]] = []
    patience: dict[str, float] = {"patience": 0.0}
    try:
        for backend in backends:
            opened.append((backend, place(backend)))
        yield opened
        patience = {}
    finally:
        for _, one in opened:
            one.close(**patience)


def _start(places: Places, folder: Path, progress: Progress) -> None:
    for backend, place in places:
        progress(f"starting {backend.name}", 0)
        with contextlib.suppress(ProcessEndedError):  # each workload starts it again, and has the error in its row
            place.start(folder)


def _peaks(places: Places) -> dict[str, float]:
    """What the machine can do, as the first process finds it; nothing where that one ended."""
    try:
        found: dict[str, float] = places[0][1].ask("peaks")
        return found
    except ProcessEndedError:
        return {}


class Measurement:
    """All backends on one workload. ``rows`` holds what there is, whenever it is asked."""

    def __init__(
        self, workload: Workload, settings: Settings, places: Places, folder: Path, progress: Progress
    ) -> None:
        self.workload, self.settings, self.places, self.folder = workload, settings, places, folder
        self.traced: list[Row] = []
        self.graphs: list[GraphRow] = []
        self._lanes: list[Lane] = []
        self._tell = progress
        # Compiling takes most of the time: cold counts three times as much as warm, and the rounds as much as warm.
        compiles = len(places)
        self._unit = workload.weight / (3 * compiles + (0 if settings.counts_only else compiles + 1))

    @property
    def rows(self) -> list[Row]:
        """One for each backend that was begun with."""
        return [lane.row for lane in self._lanes]

    def measure(self) -> None:
        """Cold compiles, warm compiles, interleaved rounds, memory. Errors become rows, an interrupt is passed on."""
        try:
            self._compile_cold()
            if not self.settings.counts_only:
                self._compile_warm()
                self._time()
            for lane in self._lanes:
                lane.end()
            if self.settings.graphs:
                self._measure_graphs()
        except KeyboardInterrupt:
            for row in self.rows:
                row.interrupted = True
            raise

    def _compile_cold(self) -> None:
        for backend, place in self.places:
            lane = Lane(self.workload, backend, place)
            lane.start(self.folder / START)
            self._say(lane, "float64", 0)
            lane.ask("begin", self.workload, self.folder / backend.name.replace(":", "_"))
            self._lanes.append(lane)
            self._step(lane, "cold compile", "compile_cold", 3)

    def _compile_warm(self) -> None:
        for lane in self._lanes:  # all before the first, which may be in the same process
            lane.ask("reset")
        for lane in self._lanes:
            self._step(lane, "warm compile", "compile_warm", 1)

    def _step(self, lane: Lane, what: str, do: str, units: int) -> None:
        self._say(lane, what, 0)
        lane.ask(do)
        self._say(lane, what, units)

    def _say(self, lane: Lane, what: str, units: int) -> None:
        self._tell(f"{self.workload.label}: {lane.backend.name}, {what}", units * self._unit)

    def _time(self) -> None:
        settings = self.settings
        label, share = f"{self.workload.label}: timing", self._unit / settings.rounds
        usable = [lane for lane in self._lanes if lane.usable]
        interleave(usable, settings.rounds, settings.seconds, lambda: self._tell(label, share))
        for lane in usable:
            lane.ask("weigh")

    def _measure_graphs(self) -> None:
        """The workload's graphs given to each compiler directly. What fails here is told beside what was measured."""
        settings, label = self.settings, self.workload.label
        number = 0 if settings.counts_only else settings.rounds
        self.traced, self.graphs = rounds.measure(
            self.workload, self.places, number, settings.seconds, self.folder / "graphs",
            lambda what: self._tell(f"{label}: {what}", 0),
        )  # fmt: skip
