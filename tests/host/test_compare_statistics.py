"""Medians, ratios and means of a comparison, against what is known of them."""

from __future__ import annotations

import math
import random

import pytest

from aten_backend.comparison import stats
from aten_backend.comparison.stats import Interval


@pytest.mark.parametrize(("count", "rank"), [(1, 0), (5, 0), (6, 0), (9, 1), (10, 1), (20, 5), (30, 9), (100, 39)])
def test_ranks_are_those_of_the_tables(count, rank):
    """Order-statistic ranks for a 95% interval of the median, counted from zero."""
    found = stats.median([float(n) for n in range(count)])
    assert (found.low, found.high) == (rank, count - 1 - rank)


def test_median_interval_covers():
    """Of 95% intervals, about 95 in 100 hold the true median, whatever the distribution."""
    chance = random.Random(1)
    covered = 0
    for _ in range(500):
        found = stats.median([chance.expovariate(1.0) for _ in range(30)])
        covered += found.low <= math.log(2) <= found.high
    assert 0.93 <= covered / 500 <= 0.995


def test_more_confidence_is_wider():
    samples = [float(n) for n in range(30)]
    narrow, wide = stats.median(samples, 0.9), stats.median(samples, 0.99)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


def test_no_samples():
    with pytest.raises(ValueError, match="no samples"):
        stats.median([])
    with pytest.raises(ValueError, match="no ratios"):
        stats.geometric_mean([[]])


def test_paired_ratios_cancel_drift():
    drift = [1.0, 2.0, 5.0, 0.5]
    assert stats.paired_ratios([3 * d for d in drift], drift) == pytest.approx([3.0] * 4)
    assert stats.paired_ratios([1.0, 2.0], [1.0]) == [1.0], "an interrupted round has no partner"


def test_geometric_mean_is_not_clipped():
    assert stats.geometric_mean([[2.0] * 8, [0.125] * 8]).value == pytest.approx(0.5)
    assert stats.plain_geometric_mean([4.0, 0.25, 1.0]) == pytest.approx(1.0)


def test_geometric_mean_interval():
    chance = random.Random(2)
    ratios = [[chance.lognormvariate(math.log(1.3), 0.1) for _ in range(30)] for _ in range(10)]
    found = stats.geometric_mean(ratios)
    assert found.low < 1.3 < found.high
    assert found.high / found.low < 1.06
    assert found == stats.geometric_mean(ratios), "the same samples give the same interval"


def test_interval_reads_well():
    assert str(Interval(1.234, 1.1, 1.4)) == "1.23 [1.10, 1.40]"
