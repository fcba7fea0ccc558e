"""A small comparison from the command line, measured for real."""

from __future__ import annotations

import pytest
import torch

from aten_backend import cli, compare
from aten_backend.comparison import backends as named
from aten_backend.comparison import levels, records, runner
from aten_backend.comparison.runner import Settings
from aten_backend.comparison.suites import generation
from aten_backend.comparison.workloads import Case, Workload

pytestmark = pytest.mark.device

TARGETS = """
import torch

def softmax():
    return (lambda x: torch.softmax(x * 2, -1)), (torch.randn(16, 40),)

def two_matmuls():
    return (lambda x: ((x @ x).relu() @ x) + 1), (torch.randn(24, 24),)
"""


@pytest.mark.slow
def test_two_workloads(tmp_path, capsys):
    (tmp_path / "own.py").write_text(TARGETS)
    result = tmp_path / "result.json"
    targets = [f"{tmp_path / 'own.py'}:softmax", f"{tmp_path / 'own.py'}:two_matmuls"]
    given = ["compare", *targets, "--rounds", "6", "--seconds", "2", "--resume", str(result)]
    assert cli.main(given) == 0
    made = records.load(result)
    assert made.backends == ["eager", "eager again", "xpu_aten", "inductor"]
    assert len(made.rows) == 8
    assert not [row.error or row.note for row in made.rows if row.error or row.note]
    assert all(len(row.samples) == 6 and (row.distance or 0) < 1e-5 for row in made.rows)
    ours = [row for row in made.rows if row.backend == "xpu_aten"]
    assert [(row.counts["launches"], row.counts["extern_calls"]) for row in ours] == [(1, 0), (2, 2)]
    theirs = [row for row in made.rows if row.backend == "inductor"]
    assert [(row.counts["launches"], row.counts["extern_calls"]) for row in theirs] == [(1, 0), (2, 2)]
    compiled = [(row.warm_compile_seconds or 0, row.cold_compile_seconds or 0) for row in ours]
    assert all(0 < warm < cold for warm, cold in compiled), "warm finds its kernels"
    for row in [*ours, *theirs]:
        assert sum(row.cold_phases.values()) == pytest.approx(row.cold_compile_seconds, rel=0.05, abs=0.02)
        assert sum(row.warm_phases.values()) == pytest.approx(row.warm_compile_seconds, rel=0.05, abs=0.02)
        assert row.cold_phases["compile"] > row.warm_phases["compile"], "machine code is in the cache"
        assert 0 < (row.guard_seconds or 0) < 0.1
    assert {row.data_bytes for row in made.rows if "softmax" in row.workload} == {2 * 16 * 40 * 4}
    before = result.read_text()
    assert cli.main(given) == 0
    assert records.from_json(before).rows == records.load(result).rows, "resumed: nothing was left to measure"


def test_a_failure_is_a_row():
    def broken(x):
        raise ValueError("broken on purpose")

    made = compare(broken, torch.ones(3), backends=("eager", "xpu_aten"), settings=Settings(counts_only=True))
    assert [row.error for row in made.rows] == ["ValueError: broken on purpose"] * 2


def test_an_interrupt_keeps_what_there_is():
    def interrupted() -> Case:
        raise KeyboardInterrupt

    workloads = [
        Workload("own", "sine", lambda: Case(torch.sin, ((torch.ones(8),),))),
        Workload("own", "interrupted", interrupted),
    ]
    settings = Settings(counts_only=True)
    chosen = named.parse(("eager", "xpu_aten"), again=False)
    made = runner.new_comparison(settings, chosen)
    saved: list[int] = []
    with pytest.raises(runner.Interrupted):
        runner.run(workloads, chosen, settings, made, lambda: saved.append(len(made.rows)))
    assert [row.workload for row in made.rows] == ["sine", "sine"]
    assert saved == [2, 2]


def test_training_and_dynamic():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8))

        def forward(self, x):
            return torch.tanh(x * self.weight)

    training = Workload("own", "training", lambda: Case(Layer(), ((torch.randn(4, 8),),), train=True))
    sizes = Workload("own", "sizes", lambda: Case(torch.sin, tuple((torch.randn(n),) for n in (3, 5, 9)), dynamic=True))
    settings = Settings(rounds=1)
    chosen = named.parse(("xpu_aten:prims",))
    made = runner.new_comparison(settings, chosen)
    runner.run([training, sizes], chosen, settings, made)
    assert [row.error for row in made.rows] == ["", ""]
    assert all((row.distance or 0) < 1e-6 for row in made.rows)
    assert made.rows[0].counts["launches"] >= 2, "forward and backward"
    assert made.rows[1].counts["kernels"] == 1, "one for all sizes"


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.parametrize("workload", generation.WORKLOADS, ids=lambda workload: workload.name)
def test_generation(workload):
    """Every run does the same, in float64 as well, and ours agrees."""
    case = workload.make()
    with torch.no_grad():
        first, second = (case.fn(*case.calls[0]) for _ in range(2))
    torch.testing.assert_close(first, second)
    settings = Settings(counts_only=True)
    chosen = named.parse(("eager", "xpu_aten"), again=False)
    made = runner.new_comparison(settings, chosen)
    runner.run([workload], chosen, settings, made)
    assert [row.error or row.note for row in made.rows] == ["", ""]
    assert all((row.distance or 0) < 1e-5 for row in made.rows)
    assert made.rows[1].counts["fallback_nodes"] == 0


def test_kernels_of_both_levels_side_by_side(tmp_path):
    """Softmax becomes the same kernel at both levels, each found and shown."""
    page = tmp_path / "levels.md"
    levels.write(page, [next(w for w in levels.chosen() if "softmax" in w.name)])
    text = page.read_text()
    assert "xpu_aten: 1 kernel; xpu_inductor: 1 kernel; 1 the same." in text
    assert "def amax_sub_exp_sum_div_" in text
