"""A workload as the program of its captured graphs, timed whole and in parts by one compiler, as rows."""

from __future__ import annotations

import dataclasses
import importlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from aten_backend.comparison.backends import EAGER, INDUCTOR, TWIN, Backend
from aten_backend.comparison.graphs.capture import Captured, Compile, capture, compile_eager
from aten_backend.comparison.graphs.ours import compile_ours
from aten_backend.comparison.graphs.steps import ATEN, KERNEL, WAIT, Built
from aten_backend.comparison.records import GraphRow, StepRow, describe
from aten_backend.comparison.subject import Subject
from aten_backend.comparison.workloads import Case, Workload
from lowering.decompose import Table, decompositions
from lowering.graph import is_getitem, view_source


def takes_graphs(backend: Backend) -> bool:
    """Whether a backend can be given a graph: eager, ours at both levels, Inductor."""
    return backend.name in (EAGER, INDUCTOR, TWIN) or (backend.is_ours and backend.options.get("ir", "aten") == "aten")


def _compiler(backend: Backend) -> Compile:
    if backend.is_eager:
        return compile_eager
    if backend.is_ours:
        return compile_ours
    compilers: dict[str, Compile] = {TWIN: _loops().compile_twin, INDUCTOR: _loops().compile_inductor}
    return compilers[backend.name]


def _table(backends: Sequence[Backend]) -> Table:
    """The decompositions of the trace: those that all of ``backends`` can start from."""
    if any(backend.name in (INDUCTOR, TWIN) for backend in backends):
        table: Table = _loops().trace_table()
        return table
    return decompositions("aten")


def _loops() -> Any:
    return importlib.import_module("aten_backend.loop_level.graphs")  # importing Inductor takes seconds


@dataclasses.dataclass
class _Kept:
    """What was measured of a graph: seconds in one run of the program, a number for each round."""

    samples: list[float] = dataclasses.field(default_factory=list)
    parts: list[dict[str, float]] = dataclasses.field(default_factory=list)
    steps: list[dict[str, float]] = dataclasses.field(default_factory=list)
    """Kernels each by itself, and calls of ATen."""


class Traced(Subject):
    """The workload with its graphs compiled by one compiler, ``backends`` being all that are given the same trace.

    Each sample is one of the program as it is, then one with clocks in the graphs' own code, then one in which each
    kernel is waited for: all of them of whole runs, so that graphs meet the inputs, threads and memory that they meet
    in the program.
    """

    def __init__(self, workload: Workload, case: Case, backend: Backend, backends: Sequence[Backend]) -> None:
        super().__init__(workload, case, backend)
        self._run, self.graphs = capture(self.fn, _compiler(backend), _table(backends), case.dynamic)
        self._kept: dict[str, _Kept] = {}

    def timed(self) -> float:
        seconds = self._with(lambda built: built.run)
        for graph in self.graphs:
            if graph.seconds:
                self._of(graph).samples.append(graph.seconds / self.row.repeats)
        self._with(lambda built: built.timed)
        for graph in self._clocked():
            self._of(graph).parts.append(self._by_kind(graph))
            self._of(graph).steps.append(self._seconds(graph))
        self._with(lambda built: built.alone)
        for graph in self._clocked():
            self._of(graph).steps[-1].update(self._seconds(graph))
        for graph in self.graphs:
            graph.call = graph.built.run
        return seconds

    def _with(self, choose: Callable[[Built], Callable[[list[Any]], Any] | None]) -> float:
        """Seconds of one run with what ``choose`` takes of each graph, where there is such a thing."""
        for graph in self.graphs:
            graph.call, graph.seconds = choose(graph.built) or graph.built.run, 0.0
            if graph.built.clock is not None:
                graph.built.clock.seconds = {}
        return super().timed()

    def _clocked(self) -> list[Captured]:
        """The graphs that have clocks and have just been run."""
        return [graph for graph in self.graphs if graph.built.clock is not None and graph.seconds]

    def _of(self, graph: Captured) -> _Kept:
        return self._kept.setdefault(graph.name, _Kept())

    def _seconds(self, graph: Captured) -> dict[str, float]:
        """Of each step in one run."""
        assert graph.built.clock is not None
        return {key: value / self.row.repeats for key, value in graph.built.clock.seconds.items()}

    def _by_kind(self, graph: Captured) -> dict[str, float]:
        seconds, whole = self._seconds(graph), graph.seconds / self.row.repeats
        kinds = {step.key: step.kind for step in graph.built.steps}
        kernels = sum(value for key, value in seconds.items() if key == WAIT or kinds.get(key) == KERNEL)
        aten = sum(value for key, value in seconds.items() if kinds.get(key) == ATEN)
        return {"kernels": kernels, "aten": aten, "host": whole - kernels - aten}

    def graph_rows(self) -> list[GraphRow]:
        """A row for each graph."""
        return [self._graph_row(graph) for graph in self.graphs]

    def _graph_row(self, graph: Captured) -> GraphRow:
        calls = [node for node in graph.gm.graph.nodes if node.op == "call_function"]
        row = GraphRow(
            self.row.suite, self.row.workload, graph.name, self.backend.name, nodes=len(calls), digest=graph.digest
        )
        if graph.error is not None:
            row.error = describe(graph.error)
            return row
        # Views are no work, and whoever reads them may name them.
        views = {node.name for node in calls if view_source(node) is not None or is_getitem(node)}
        kept = self._of(graph)
        row.compile_seconds = None if self.backend.is_eager else graph.compile_seconds
        row.codes, row.repeats, row.samples = dict(graph.built.codes), self.row.repeats, kept.samples
        for step in graph.built.steps:
            found = [seconds[step.key] for seconds in kept.steps if step.key in seconds]
            nodes = [node for node in step.nodes if node not in views]
            row.steps.append(StepRow(step.kind, step.name, nodes, statistics.median(found) if found else None))
        if kept.parts:
            # Of one round, the median one: medians of each part need not add up to that of the whole.
            rounds = sorted(kept.parts, key=lambda one: sum(one.values()))
            row.parts = rounds[(len(rounds) - 1) // 2]
            row.clocked_seconds = sum(row.parts.values())
        return row
