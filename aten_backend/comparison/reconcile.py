"""The time of a program beside the times of its parts, and what lies between."""

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
    """Seconds of one run of a program whose graphs one compiler was given.

    ``whole`` is the run, and ``graphs`` its graphs, with no clock inside them. ``parts`` were measured each by itself,
    in the same process and in rounds that took turns, and are not scaled; but ``rest`` is what they leave of ``whole``,
    and below zero where they are more. ``end_to_end`` is torch.compile's own program, None where it was not timed.
    """

    label: str
    backend: str
    end_to_end: float | None
    whole: float
    graphs: float
    parts: dict[str, float]

    @property
    def explained(self) -> float:
        """The measured parts together, without the rest, as a share of the whole."""
        return 1 - self.parts["rest"] / self.whole


def accounts(comparison: Comparison) -> list[Account]:
    """For each compiler and workload of which every graph that ran was timed in parts."""
    found = []
    for row in comparison.traced:
        mine = [one for one in comparison.graphs if one.label == row.label and one.compiler == row.backend]
        ran = [one for one in mine if one.samples]
        if row.samples and not row.error and not any(one.error for one in mine) and all(one.parts for one in ran):
            found.append(_account(row, ran, comparison.row(row.label, row.backend)))
    return found


def _account(row: Row, graphs: list[GraphRow], compiled: Row | None) -> Account:
    whole = statistics.median(row.samples)
    parts = {name: sum(one.parts[name] for one in graphs) for name in ("kernels", "aten", "host")}
    parts["guards"] = row.guard_seconds or 0.0
    parts["rest"] = whole - sum(parts.values())
    end_to_end = statistics.median(compiled.samples) if compiled is not None and compiled.samples else None
    alone = sum(statistics.median(one.samples) for one in graphs)
    return Account(row.label, row.backend, end_to_end, whole, alone, parts)
