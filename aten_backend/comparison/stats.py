"""Medians, ratios and geometric means with intervals. Plain Python: a few thousand numbers at most."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95
_RESAMPLES = 1000


@dataclasses.dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def median(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median with an interval from order statistics, which assumes nothing about the distribution.

    With fewer than six samples no such interval reaches 95%: it is then from the least to the greatest.
    """
    if not samples:
        raise ValueError("the median of no samples")
    ordered = sorted(samples)
    rank = _rank(len(ordered), confidence)
    return Interval(statistics.median(ordered), ordered[rank], ordered[-1 - rank])


def _rank(count: int, confidence: float) -> int:
    """The greatest r with P(fewer than r + 1 of ``count`` fair coins show heads) at most half of what is left over."""
    allowed = (1 - confidence) / 2 * 2.0**count
    below, rank = 0.0, -1
    for heads in range(count // 2):
        below += math.comb(count, heads)
        if below > allowed:
            break
        rank = heads
    return max(rank, 0)


def paired_ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """``over / under`` round by round, so that drift of the machine cancels. Rounds that only one has are left out."""
    return [a / b for a, b in zip(over, under, strict=False) if b > 0]


def geometric_mean(ratios: Sequence[Sequence[float]], confidence: float = CONFIDENCE, seed: int = 0) -> Interval:
    """The geometric mean of the medians of several sets of ratios. Nothing is clipped.

    The interval is a bootstrap over rounds with a fixed seed: the same samples give the same interval.
    """
    logs = [[math.log(ratio) for ratio in one] for one in ratios if one]
    if not logs:
        raise ValueError("the geometric mean of no ratios")
    chance = random.Random(seed)
    means = sorted(_mean_of_medians([chance.choices(one, k=len(one)) for one in logs]) for _ in range(_RESAMPLES))
    cut = int((1 - confidence) / 2 * _RESAMPLES)
    value = math.exp(_mean_of_medians(logs))
    return Interval(value, min(value, math.exp(means[cut])), max(value, math.exp(means[-1 - cut])))


def plain_geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of numbers that were measured once."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


def _mean_of_medians(logs: Sequence[Sequence[float]]) -> float:
    return statistics.fmean(statistics.median(one) for one in logs)
