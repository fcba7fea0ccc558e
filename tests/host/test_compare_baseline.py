"""A comparison against an earlier one: a planted slowdown is found, and none where there is none."""

from __future__ import annotations

import random

import pytest

from aten_backend.comparison import baseline
from compare_cases import BACKENDS, WORKLOADS, comparison


def test_nothing_where_nothing_changed():
    for seed in range(1, 21):
        assert baseline.changes(comparison(seed=0), comparison(seed=seed)) == []


@pytest.mark.parametrize("factor", [1.1, 1.5])
def test_a_slowdown_is_found(factor):
    for seed in range(1, 21):
        slower = comparison({**BACKENDS, "xpu_aten": 0.5 * factor}, seed=seed)
        found = baseline.changes(comparison(seed=0), slower)
        assert {(change.label, change.backend) for change in found} == {(f"fusion/{w}", "xpu_aten") for w in WORKLOADS}
        assert all(change.worse and change.ratio == pytest.approx(factor, rel=0.04) for change in found)


def test_a_faster_machine_is_no_change():
    faster = comparison({name: time / 3 for name, time in BACKENDS.items()}, seed=1)
    assert not [change for change in baseline.changes(comparison(), faster) if change.backend != "eager"]


def test_noise_hides_a_small_change():
    """When eager differs from itself by a fifth, a tenth is nothing."""
    noisy = {**BACKENDS, "eager again": 1.2}
    assert baseline.changes(comparison(noisy), comparison({**noisy, "xpu_aten": 0.55}, seed=1)) == []


def test_improvements_are_told_and_are_no_regressions():
    found = baseline.changes(comparison(), comparison({**BACKENDS, "xpu_aten": 0.25}, seed=1))
    assert found and not any(change.worse for change in found)


def test_counts_failures_and_distances():
    old, new = comparison(), comparison(seed=1)
    ours = [row for row in new.rows if row.backend == "xpu_aten"]
    ours[0].counts = {**ours[0].counts, "launches": 2}
    ours[1].error = "RuntimeError: no"
    ours[2].distance, ours[2].note = None, "NaN"
    texts = {change.label: change.what for change in baseline.changes(old, new) if change.worse}
    assert texts == {
        "fusion/gelu": "launches: 1 before, 2 now",
        "fusion/softmax": "fails now: RuntimeError: no",
        "fusion/argmax": "NaN",
    }


def test_new_workloads_are_not_compared():
    assert baseline.changes(comparison(workloads=("gelu",)), comparison(seed=1)) == []


MANY = tuple(f"w{number}" for number in range(24))


def run(seed, slower=1.0):
    """A run whose workloads, ours, each differ by some tenths from those of another run, all their rounds alike."""
    chance = random.Random(seed)
    made = comparison(seed=seed, workloads=MANY)
    for row in made.rows:
        if row.backend == "xpu_aten":
            factor = slower * chance.lognormvariate(0, 0.08)
            row.samples = [sample * factor for sample in row.samples]
    return made


def test_scatter_between_runs_is_no_change():
    """The interval of a suite's median is one of 95%, so that one in twenty misleads."""
    found = [baseline.changes(run(0), run(100 + seed)) for seed in range(1, 41)]
    assert sum(bool(one) for one in found) <= 4


def test_a_slowdown_of_all_shows_through_scatter():
    found = [baseline.changes(run(0), run(100 + seed, 1.1)) for seed in range(1, 21)]
    assert sum(any(change.label == "fusion" and change.worse for change in one) for one in found) >= 18


def test_one_that_stands_out_shows_through_scatter():
    new = run(1)
    row = next(row for row in new.rows if row.label == "fusion/w3" and row.backend == "xpu_aten")
    row.samples = [sample * 3 for sample in row.samples]
    (change,) = baseline.changes(run(0), new)
    assert change.label == "fusion/w3" and change.worse
