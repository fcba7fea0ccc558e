"""What a comparison measured: one row for each workload and backend, and the JSON that holds them (docs/compare.md)."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SCHEMA = 2
_READABLE = (1, SCHEMA)
"""What is new in 2 is optional: files of 1 lack the compile times by phase and the data of a workload."""


class RecordError(Exception):
    """A file that is no comparison, or one that does not fit. The text says why."""


@dataclasses.dataclass
class Row:
    """One backend on one workload. Filled while it is measured; what could not be measured stays None or empty."""

    suite: str
    workload: str
    backend: str
    error: str = ""
    note: str = ""
    cold_compile_seconds: float | None = None
    warm_compile_seconds: float | None = None
    cold_phases: dict[str, float] = dataclasses.field(default_factory=dict)
    warm_phases: dict[str, float] = dataclasses.field(default_factory=dict)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    distance: float | None = None
    guard_seconds: float | None = None
    peak_bytes: int | None = None
    data_bytes: int | None = None
    flops: int | None = None
    repeats: int = 1
    samples: list[float] = dataclasses.field(default_factory=list)
    interrupted: bool = False

    @property
    def label(self) -> str:
        """The workload with its suite."""
        return f"{self.suite}/{self.workload}"


@dataclasses.dataclass
class StepRow:
    """A kernel or a call of ATen in a compiled graph, with the captured nodes that it computes and its seconds."""

    kind: str
    name: str
    nodes: list[str]
    seconds: float | None = None


@dataclasses.dataclass
class GraphRow:
    """One compiler on one captured graph.

    All seconds are those of the graph within one run of the program. ``parts`` are kernels, ATen and host;
    ``clocked_seconds`` is the whole that they were taken from, which clocks between the steps make a little longer than
    ``samples``. ``digest`` is that of the captured graph.
    """

    suite: str
    workload: str
    graph: str
    compiler: str
    error: str = ""
    nodes: int = 0
    compile_seconds: float | None = None
    repeats: int = 1
    samples: list[float] = dataclasses.field(default_factory=list)
    parts: dict[str, float] = dataclasses.field(default_factory=dict)
    clocked_seconds: float | None = None
    steps: list[StepRow] = dataclasses.field(default_factory=list)
    codes: dict[str, str] = dataclasses.field(default_factory=dict)
    digest: str = ""

    @property
    def label(self) -> str:
        """The workload with its suite."""
        return f"{self.suite}/{self.workload}"


@dataclasses.dataclass
class Comparison:
    """A whole run: where it was made, how, and its rows. ``traced`` are the programs that ``graphs`` are of."""

    machine: dict[str, Any]
    versions: dict[str, str]
    threads: dict[str, int]
    settings: dict[str, Any]
    created: str = ""
    peaks: dict[str, float] = dataclasses.field(default_factory=dict)
    rows: list[Row] = dataclasses.field(default_factory=list)
    traced: list[Row] = dataclasses.field(default_factory=list)
    graphs: list[GraphRow] = dataclasses.field(default_factory=list)

    def row(self, label: str, backend: str) -> Row | None:
        """The row of a workload and a backend, if there is one without an error."""
        for row in self.rows:
            if row.label == label and row.backend == backend and not row.error:
                return row
        return None

    @property
    def labels(self) -> list[str]:
        """The workloads, in order."""
        return list(dict.fromkeys(row.label for row in self.rows))

    @property
    def backends(self) -> list[str]:
        """The backends, in order."""
        return list(dict.fromkeys(row.backend for row in self.rows))

    def to_json(self) -> str:
        """Everything, as JSON text."""
        return json.dumps({"schema": SCHEMA, **dataclasses.asdict(self)}, indent=1, allow_nan=False)

    def save(self, path: Path) -> None:
        """Write the JSON so that a reader, or a crash, never meets half of it."""
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self.to_json())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


def load(path: Path) -> Comparison:
    """Read what ``Comparison.save`` wrote. RecordError if it is something else."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"Cannot read {path}: {error.strerror}.") from error
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


def from_json(text: str) -> Comparison:
    """The inverse of ``Comparison.to_json``, strict about names."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise RecordError(f"this is not JSON ({error}).") from error
    if not isinstance(data, dict) or "schema" not in data:
        raise RecordError("this is not the JSON of a comparison.")
    schema = data.pop("schema")
    if schema not in _READABLE:
        raise RecordError(f"schema {schema!r} is none of those that this version reads, {_READABLE}.")
    rows, traced, graphs = data.pop("rows", None), data.pop("traced", []), data.pop("graphs", [])
    if not all(isinstance(part, list) for part in (rows, traced, graphs)):
        raise RecordError("it has no list of rows.")
    try:
        data |= {"rows": [*map(_row, rows)], "traced": [*map(_row, traced)], "graphs": [*map(_graph, graphs)]}
        return Comparison(**data)
    except TypeError as error:
        raise RecordError(f"it does not follow the schema ({error}).") from error


def _row(data: Any) -> Row:
    if not isinstance(data, dict):
        raise RecordError("a row is not an object.")
    row = Row(**data)
    if any(not math.isfinite(sample) or sample <= 0 for sample in row.samples):
        raise RecordError(f"a sample of {row.label} on {row.backend} is not a positive number.")
    return row


def _graph(data: Any) -> GraphRow:
    if not isinstance(data, dict):
        raise RecordError("a graph is not an object.")
    steps = [StepRow(**step) for step in data.pop("steps", [])]
    return GraphRow(**data, steps=steps)


def describe(error: Exception) -> str:
    """An exception in a line: two of its own, since the first of Dynamo's only says that there was an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])}" if lines else type(error).__name__


def misfits(old: Comparison, new: Comparison) -> list[str]:
    """Why rows of ``old`` must not be mixed with those of ``new``: another machine, version or setting."""
    found: list[str] = []
    for part in ("machine", "versions", "threads", "settings"):
        before, after = getattr(old, part), getattr(new, part)
        for name in _names(before, after):
            if before.get(name) != after.get(name):
                found.append(f"{part}: {name} was {before.get(name)!r}, is {after.get(name)!r}")
    return found


def _names(*parts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for part in parts for name in part))
