"""The graphs of a workload, compiled by each compiler and timed side by side, as rows."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from aten_backend.comparison.backends import EAGER, INDUCTOR, TWIN, Backend
from aten_backend.comparison.graphs.capture import Captured, Compile, capture
from aten_backend.comparison.graphs.ours import compile_ours
from aten_backend.comparison.graphs.steps import ATEN, KERNEL, WAIT, Built
from aten_backend.comparison.records import GraphRow, Row, StepRow, describe
from aten_backend.comparison.subject import Subject
from aten_backend.comparison.timing import Timed, interleave
from lowering.decompose import Table, decompositions
from lowering.graph import is_getitem, view_source

_PART_ROUNDS = 10


def measure(subject: Subject, backends: Sequence[Backend], rounds: int, seconds: float) -> list[GraphRow]:
    """A row for each captured graph and each compiler that can be given a graph: eager, ours at both levels,
    Inductor.

    ``subject`` is the workload in eager. ``rounds`` of zero times nothing.
    """
    compilers, table = _compilers(backends)
    rows = []
    for graph in capture(subject.fn, subject.run_as, compilers, table, subject.case.dynamic):
        built = {EAGER: Built(_boxed(graph)), **graph.built}
        timed = [_Graph(_row(subject.row, graph, name, one), one, graph.inputs) for name, one in built.items()]
        if rounds and graph.inputs is not None:
            with torch.no_grad():
                interleave(timed, rounds, seconds)
                _parts([one for one in timed if one.built.timed is not None])
        rows += [one.row for one in timed]
        for name, error in graph.errors.items():
            rows.append(GraphRow(subject.row.suite, subject.row.workload, graph.name, name, describe(error)))
    return rows


def _compilers(backends: Sequence[Backend]) -> tuple[dict[str, Compile], Table]:
    """By name, with the decompositions of the trace: those that all of them can start from."""
    found: dict[str, Compile] = {}
    table = decompositions("aten")
    for backend in backends:
        if backend.is_ours and backend.options.get("ir", "aten") == "aten":
            found[backend.name] = compile_ours
        if backend.name in (INDUCTOR, TWIN):
            loops = importlib.import_module("aten_backend.loop_level.graphs")  # importing Inductor takes seconds
            found[backend.name] = loops.compile_twin if backend.name == TWIN else loops.compile_inductor
            table = loops.trace_table()
    return found, table


def _boxed(graph: Captured) -> Callable[[list[Any]], Any]:
    def run(inputs: list[Any]) -> Any:
        return graph.gm(*inputs)

    return run


def _row(row: Row, graph: Captured, compiler: str, built: Built) -> GraphRow:
    calls = [node for node in graph.gm.graph.nodes if node.op == "call_function"]
    # Views are no work, and whoever reads them may name them.
    views = {node.name for node in calls if view_source(node) is not None or is_getitem(node)}
    steps = [StepRow(s.kind, s.name, [node for node in s.nodes if node not in views]) for s in built.steps]
    seconds = graph.compile_seconds.get(compiler)
    return GraphRow(
        row.suite, row.workload, graph.name, compiler, "", len(calls), seconds, steps=steps, codes=dict(built.codes)
    )


class _Graph(Timed):
    def __init__(self, row: GraphRow, built: Built, inputs: list[Any] | None) -> None:
        self.row: GraphRow = row
        self.built = built
        self.inputs = inputs or []

    def run(self) -> Any:
        return self.built.run(list(self.inputs))


def _parts(subjects: Sequence[_Graph]) -> None:
    """Kernels, ATen and host apart: medians over rounds of their own, since clocks between the steps cost time too."""
    parts: dict[str, list[dict[str, float]]] = {}
    alone: dict[str, list[Mapping[str, float]]] = {}
    for _ in range(_PART_ROUNDS):
        for subject in subjects:
            name, built = subject.row.compiler, subject.built
            parts.setdefault(name, []).append(_by_kind(subject))
            assert built.alone is not None
            alone.setdefault(name, []).append(_clocked(subject, built.alone)[1])
    for subject in subjects:
        row, built = subject.row, subject.built
        mine = parts[row.compiler]
        row.parts = {kind: statistics.median(one[kind] for one in mine) for kind in mine[0]}
        row.clocked_seconds = statistics.median(sum(one.values()) for one in mine)
        for number, step in enumerate(built.steps):
            found = [one[step.key] for one in alone[row.compiler] if step.key in one]
            row.steps[number].seconds = statistics.median(found) if found else None


def _by_kind(subject: _Graph) -> dict[str, float]:
    assert subject.built.timed is not None
    whole, seconds = _clocked(subject, subject.built.timed)
    kinds = {step.key: step.kind for step in subject.built.steps}
    kernels = sum(value for key, value in seconds.items() if key == WAIT or kinds.get(key) == KERNEL)
    aten = sum(value for key, value in seconds.items() if kinds.get(key) == ATEN)
    return {"kernels": kernels, "aten": aten, "host": max(0.0, whole - kernels - aten)}


def _clocked(subject: _Graph, call: Callable[[list[Any]], Any]) -> tuple[float, dict[str, float]]:
    """Seconds of one call, and of its steps. An untimed call first takes caches and cores back."""
    clock = subject.built.clock
    assert clock is not None
    call(list(subject.inputs))
    clock.seconds = {}
    started = time.perf_counter()
    call(list(subject.inputs))
    return time.perf_counter() - started, clock.seconds
