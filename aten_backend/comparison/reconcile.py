"""The time of a run end to end beside that of its graphs alone, and what lies between."""

from __future__ import annotations

import dataclasses
import statistics

from aten_backend.comparison.records import Comparison, GraphRow, Row

NAMES = {
    "kernels": "generated kernels",
    "aten": "calls of ATen",
    "host": "the generated Python between them",
    "guards": "Dynamo's guards",
    "rest": "AOTAutograd's wrappers, autograd, and the rest",
}


@dataclasses.dataclass(frozen=True)
class Account:
    """Seconds of one run. ``parts`` are scaled so that those of the graphs make ``graphs``, the time without clocks.

    ``rest`` is what is left of ``end_to_end``, and zero where the graphs alone took longer than that.
    """

    label: str
    backend: str
    end_to_end: float
    graphs: float
    parts: dict[str, float]

    @property
    def explained(self) -> float:
        """The parts together, as a share of the whole: 1 unless the graphs alone took longer than the whole."""
        return sum(self.parts.values()) / self.end_to_end


def accounts(comparison: Comparison) -> list[Account]:
    """For each backend and workload of which every graph was timed in parts."""
    found = []
    for row in comparison.rows:
        mine = [one for one in comparison.graphs if one.label == row.label and one.compiler == row.backend]
        if mine and row.samples and all(one.samples and one.clocked_seconds for one in mine):
            found.append(_account(row, mine))
    return found


def _account(row: Row, graphs: list[GraphRow]) -> Account:
    end_to_end = statistics.median(row.samples)
    parts = dict.fromkeys(NAMES, 0.0)
    for one in graphs:
        scale = statistics.median(one.samples) / (one.clocked_seconds or 1.0)
        for name, seconds in one.parts.items():
            parts[name] += seconds * scale
    alone = sum(parts.values())
    parts["guards"] = row.guard_seconds or 0.0
    parts["rest"] = max(0.0, end_to_end - alone - parts["guards"])
    return Account(row.label, row.backend, end_to_end, alone, parts)
