"""One comparison against an earlier one: what became slower beyond noise, what launches more, what fails now."""

from __future__ import annotations

import dataclasses
import math

from aten_backend.comparison import stats, summary
from aten_backend.comparison.backends import AGAIN, EAGER
from aten_backend.comparison.records import Comparison, Row

_CONFIDENCE = 0.99  # many workloads are tested at once: one in a hundred may mislead, not one in twenty
_SMALLEST = 0.03
"""Changes of less are not told, however narrow the intervals: where things lie in memory alone makes as much."""


@dataclasses.dataclass(frozen=True)
class Change:
    """A difference between two comparisons. ``ratio`` is new time over old, by eager's time where both have it."""

    label: str
    backend: str
    what: str
    worse: bool
    ratio: float | None = None


def changes(old: Comparison, new: Comparison) -> list[Change]:
    """Everything that differs beyond noise, the regressions first and the largest of them at the top."""
    found = [change for row in new.rows if row.backend != AGAIN for change in _of_row(old, new, row)]
    return sorted(found, key=lambda change: (not change.worse, -(change.ratio or math.inf)))


def _of_row(old: Comparison, new: Comparison, row: Row) -> list[Change]:
    earlier = old.row(row.label, row.backend)
    if earlier is None:
        return []
    if row.error:
        return [Change(row.label, row.backend, f"fails now: {row.error}", True)]
    return [*_counts(earlier, row), *_distance(earlier, row), *_time(old, new, earlier, row)]


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


def _time(old: Comparison, new: Comparison, earlier: Row, row: Row) -> list[Change]:
    """A change of time counts when it is larger than both intervals together and than eager's against itself."""
    before, after = _relative(old, earlier), _relative(new, row)
    if not before or not after:
        return []
    first, second = stats.median(before, _CONFIDENCE), stats.median(after, _CONFIDENCE)
    change = math.log(second.value / first.value)
    doubt = math.hypot(_half_width(first), _half_width(second)) + max(_floor(old, row.label), _floor(new, row.label))
    if abs(change) <= max(doubt, math.log1p(_SMALLEST)):
        return []
    ratio = second.value / first.value
    what = f"{abs(ratio - 1):.0%} {'slower' if change > 0 else 'faster'}, noise {math.expm1(doubt):.0%}"
    return [Change(row.label, row.backend, what, change > 0, ratio)]


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
