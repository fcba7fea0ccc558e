"""One comparison against an earlier one: what became slower beyond noise, what launches more, what fails now."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from aten_backend.comparison import stats, summary
from aten_backend.comparison.backends import AGAIN, EAGER
from aten_backend.comparison.records import Comparison, Row

_CONFIDENCE = 0.99  # many workloads are tested at once: one in a hundred may mislead, not one in twenty
_SMALLEST = 0.03
"""Changes of less are not told, however narrow the intervals: where things lie in memory alone makes as much."""
_MANY = 8
"""Workloads from which their changes say how far two runs differ by chance."""
_SPREAD = 4 * 1.4826
"""Four standard deviations of a normal distribution, from its median absolute deviation."""


@dataclasses.dataclass(frozen=True)
class Change:
    """A difference between two comparisons. ``ratio`` is new time over old, by eager's time where both have it."""

    label: str
    backend: str
    what: str
    worse: bool
    ratio: float | None = None


def changes(old: Comparison, new: Comparison) -> list[Change]:
    """Everything that differs beyond noise, the regressions first and the largest of them at the top.

    Two runs differ by more than the rounds of either show: processes start anew, and memory lies elsewhere. How much is
    seen where many workloads are compared. A change of one must stand out from those of all, and a change of all of
    them shows in their median, which is told for each suite.
    """
    times = [time for row in new.rows if row.backend != AGAIN and (time := _time(old, new, row)) is not None]
    found = [change for row in new.rows if row.backend != AGAIN for change in _of_row(old, row)]
    for backend in dict.fromkeys(time.row.backend for time in times):
        own = [time for time in times if time.row.backend == backend]
        found += _of_one(own) + _of_suites(own)
    return sorted(found, key=lambda change: (not change.worse, -(change.ratio or math.inf)))


@dataclasses.dataclass(frozen=True)
class _Time:
    """By how much a row's time changed, and by how much it may have by chance, as logarithms."""

    row: Row
    change: float
    doubt: float


def _of_one(times: Sequence[_Time]) -> list[Change]:
    """The workloads of a backend that changed more than others do between these runs."""
    logs = [time.change for time in times]
    scatter = 0.0
    if len(logs) >= _MANY:
        middle = statistics.median(logs)
        scatter = _SPREAD * statistics.median(abs(log - middle) for log in logs)
    return [
        _told(time.row.label, time.row.backend, time.change, f"noise {math.expm1(time.doubt + scatter):.0%}")
        for time in times
        if abs(time.change) > max(time.doubt + scatter, math.log1p(_SMALLEST))
    ]


def _of_suites(times: Sequence[_Time]) -> list[Change]:
    """The suites in which the middle one of a backend's workloads changed."""
    found = []
    for suite in dict.fromkeys(time.row.suite for time in times):
        logs = [time.change for time in times if time.row.suite == suite]
        if len(logs) < _MANY:
            continue
        middle = stats.median(logs)
        if middle.low > 0 or middle.high < 0:
            bounds = f"{math.exp(middle.low):.2f} to {math.exp(middle.high):.2f} times the time"
            if abs(middle.value) > math.log1p(_SMALLEST):
                found.append(_told(suite, times[0].row.backend, middle.value, f"all of it: {bounds}"))
    return found


def _told(label: str, backend: str, change: float, how: str) -> Change:
    ratio = math.exp(change)
    what = f"{abs(ratio - 1):.0%} {'slower' if change > 0 else 'faster'}, {how}"
    return Change(label, backend, what, change > 0, ratio)


def _of_row(old: Comparison, row: Row) -> list[Change]:
    earlier = old.row(row.label, row.backend)
    if earlier is None:
        return []
    if row.error:
        return [Change(row.label, row.backend, f"fails now: {row.error}", True)]
    return [*_counts(earlier, row), *_distance(earlier, row)]


def _counts(old: Row, new: Row) -> list[Change]:
    found = []
    for name in ("launches", "extern_calls", "fallback_nodes"):
        before, after = old.counts.get(name), new.counts.get(name)
        if before is not None and after is not None and before != after:
            found.append(Change(new.label, new.backend, f"{name}: {before} before, {after} now", after > before))
    return found


def _distance(old: Row, new: Row) -> list[Change]:
    if old.distance is not None and new.distance is None:
        return [Change(new.label, new.backend, new.note or "its distance from float64 is not finite now", True)]
    return []


def _time(old: Comparison, new: Comparison, row: Row) -> _Time | None:
    """How a row's time changed. In doubt are both intervals together, and how far eager is from itself."""
    earlier = old.row(row.label, row.backend)
    if earlier is None or row.error:
        return None
    before, after = _relative(old, earlier), _relative(new, row)
    if not before or not after:
        return None
    first, second = stats.median(before, _CONFIDENCE), stats.median(after, _CONFIDENCE)
    doubt = math.hypot(_half_width(first), _half_width(second)) + max(_floor(old, row.label), _floor(new, row.label))
    return _Time(row, math.log(second.value / first.value), doubt)


def _relative(comparison: Comparison, row: Row) -> list[float]:
    """Times as multiples of eager's in the same rounds: that the machine is faster today must not count."""
    eager = comparison.row(row.label, EAGER)
    if eager is None or row.backend == EAGER:
        return row.samples
    return stats.paired_ratios(row.samples, eager.samples)


def _floor(comparison: Comparison, label: str) -> float:
    """How far eager is from itself, as a logarithm."""
    found = summary.noise(comparison).get(label)
    return abs(math.log(stats.median(found).value)) if found else 0.0


def _half_width(interval: stats.Interval) -> float:
    return math.log(interval.high / interval.low) / 2
