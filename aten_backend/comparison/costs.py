"""What the two levels cost and gain, from one comparison: launches, compile times by phase, and times."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from aten_backend.comparison import phases, summary
from aten_backend.comparison.backends import INDUCTOR, OURS, TWIN
from aten_backend.comparison.records import Comparison, Row
from aten_backend.comparison.sheets import Sheet

_SIDES = (OURS, TWIN, INDUCTOR)


def sheets(comparison: Comparison) -> list[Sheet]:
    """The tables that there is something to say in."""
    found = [_launches(comparison), _compile_times(comparison), _times(comparison)]
    return [sheet for sheet in found if sheet.rows]


def _launches(comparison: Comparison) -> Sheet:
    rows = []
    for label in comparison.labels:
        sides = [comparison.row(label, backend) for backend in _SIDES]
        if any(side is not None and side.counts for side in sides):
            launches, calls = ([_count(side, name) for side in sides] for name in ("launches", "extern_calls"))
            rows.append((label, *launches, _count(sides[2], "loops"), *calls))
    headings = ("workload", *_SIDES, "its loops", *(f"ATen calls, {backend}" for backend in _SIDES))
    notes = ("Launches of one run, backward included. A launch of Inductor's may run several loop nests: its loops.",)
    return Sheet("Launches", headings, tuple(rows), 1, notes)


def _count(row: Row | None, name: str) -> str:
    return "" if row is None else str(row.counts.get(name, ""))


def _compile_times(comparison: Comparison) -> Sheet:
    rows = []
    for suite in dict.fromkeys(row.suite for row in comparison.rows):
        for backend in _SIDES:
            mine = [row for row in comparison.rows if (row.suite, row.backend) == (suite, backend) and not row.error]
            if any(row.cold_compile_seconds for row in mine):
                rows.append((suite, backend, str(len(mine)), *_compile_row(mine)))
    headings = ("suite", "backend", "workloads", "cold s", *phases.NAMES.values(), "warm s")
    notes = ("Means over a suite's workloads, in seconds of the first call; the phases are those of the cold one.",)
    return Sheet("Compile times", headings, tuple(rows), 2, notes)


def _compile_row(rows: list[Row]) -> list[str]:
    columns: list[Callable[[Row], float | None]] = [lambda row: row.cold_compile_seconds]
    columns += [lambda row, name=name: row.cold_phases.get(name) for name in phases.NAMES]  # type: ignore[misc]
    columns.append(lambda row: row.warm_compile_seconds)
    return [_mean(rows, of) for of in columns]


def _mean(rows: list[Row], of: Callable[[Row], float | None]) -> str:
    known = [value for row in rows if (value := of(row)) is not None]
    return f"{statistics.fmean(known):.2f}" if known else ""


def _times(comparison: Comparison) -> Sheet:
    rows = tuple(
        (mean.suite, mean.backend, mean.over, str(mean.speedup), str(mean.workloads), str(len(mean.losers)))
        for mean in summary.means(comparison)
        if mean.backend in _SIDES
    )
    headings = ("suite", "backend", "over", "times as fast", "workloads", "slower on")
    notes = ("Geometric means of the medians, unclipped, with 95% intervals over the rounds.",)
    return Sheet("Times", headings, rows, 3, notes)
