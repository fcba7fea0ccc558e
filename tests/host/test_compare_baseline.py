"""A comparison against an earlier one: a planted slowdown is found, and none where there is none."""

from __future__ import annotations

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
