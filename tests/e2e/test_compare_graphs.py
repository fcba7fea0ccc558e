"""One trace for all, for real: captured graphs through both compilers, timed in parts and aligned."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from aten_backend.comparison import align, reconcile, runner
from aten_backend.comparison import backends as named
from aten_backend.comparison.graphs.capture import capture
from aten_backend.comparison.graphs.ours import compile_ours
from aten_backend.comparison.runner import Settings
from aten_backend.comparison.workloads import Case, Workload
from aten_backend.loop_level import graphs as loop_graphs
from lowering.decompose import decompositions

pytestmark = pytest.mark.device


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 24)
        self.norm = nn.LayerNorm(24)

    def forward(self, x):
        return torch.softmax(self.norm(self.linear(x).relu()) * 2, -1).square()


def measured(backends: tuple[str, ...], train: bool):
    workload = Workload("own", "layer", lambda: Case(Layer(), ((torch.randn(8, 16),),), train=train))
    settings = Settings(rounds=6, seconds=1, graphs=True, isolated=False)
    chosen = named.parse(backends)
    made = runner.new_comparison(settings, chosen)
    runner.run([workload], chosen, settings, made)
    assert not [row.error for row in made.rows if row.error]
    assert not [row.error for row in made.graphs if row.error]
    return made


@pytest.mark.slow
def test_a_training_step_is_aligned_kernel_by_kernel():
    made = measured(("eager", "xpu_aten", "inductor"), train=True)
    assert [(row.graph, row.compiler) for row in made.graphs] == [
        (graph, compiler) for graph in ("0 forward", "1 backward") for compiler in ("eager", "xpu_aten", "inductor")
    ]
    found = align.alignments(made)
    assert [one.ours.graph for one in found] == ["0 forward", "1 backward"]
    for one in found:
        for row, side in ((one.ours, "ours"), (one.theirs, "theirs")):
            steps = [id(step) for block in one.blocks for step in getattr(block, side)]
            assert sorted(steps) == sorted(map(id, row.steps)), "each step once"
            assert {step.name for step in row.steps if step.kind == "kernel"} == set(row.codes)
            assert all(step.seconds is not None for step in row.steps if step.kind == "kernel")
    assert not [block for one in found for block in one.blocks if not block.ours], "ours computes all of Inductor's"
    ours = [one for one in made.graphs if one.compiler == "xpu_aten"]
    (row,) = [row for row in made.rows if row.backend == "xpu_aten"]
    launches = sum(step.kind == "kernel" for one in ours for step in one.steps)
    assert launches == row.counts["launches"], "the graphs alone launch what the whole does"


def test_parts_and_account_of_ours():
    made = measured(("eager", "xpu_aten"), train=False)
    eager, ours = made.graphs
    assert (eager.compiler, ours.compiler) == ("eager", "xpu_aten")
    assert set(ours.parts) == {"kernels", "aten", "host"}
    assert sum(ours.parts.values()) == pytest.approx(ours.clocked_seconds or 0, rel=0.5)
    (account,) = reconcile.accounts(made)
    assert account.explained >= 0.999
    assert 0 < account.parts["guards"] < 0.1


def test_the_loop_level_takes_part():
    """Its launches, waits and allocations stand in Inductor's wrapper; a long reduction is two launches of one node."""
    x = torch.randn(2**17)

    def program(x):
        return x.sum() + 1, (x[: 2**10].view(32, 32) @ x[: 2**10].view(32, 32)).relu()

    workload = Workload("own", "program", lambda: Case(program, ((x,),)))
    settings = Settings(rounds=1, graphs=True, isolated=False)
    chosen = named.parse(("eager", "xpu_aten", "xpu_inductor"))
    made = runner.new_comparison(settings, chosen)
    runner.run([workload], chosen, settings, made)
    assert not [row.error for row in made.rows if row.error] + [row.error for row in made.graphs if row.error]
    (theirs,) = [row for row in made.graphs if row.compiler == "xpu_inductor"]
    (row,) = [row for row in made.rows if row.backend == "xpu_inductor"]
    kernels = [step for step in theirs.steps if step.kind == "kernel"]
    assert len(kernels) == row.counts["launches"] and {step.name for step in kernels} == set(theirs.codes)
    assert len(theirs.steps) - len(kernels) == row.counts["extern_calls"] == 1
    assert all(step.seconds and step.nodes for step in theirs.steps)
    assert sum(theirs.parts.values()) == pytest.approx(theirs.clocked_seconds or 0, rel=0.5)
    (one,) = align.alignments(made)
    assert one.theirs is theirs and not [block for block in one.blocks if not block.ours or not block.theirs]


@pytest.mark.parametrize(
    ("compiler", "table"),
    [(compile_ours, decompositions("aten")), (loop_graphs.compile_twin, loop_graphs.trace_table())],
    ids=["xpu_aten", "xpu_inductor"],
)
def test_timed_code_computes_the_same(compiler, table):
    model, x = Layer(), torch.randn(8, 16)
    with torch.no_grad():
        (graph,) = capture(model, lambda run: run(x), {"ours": compiler}, table)
        assert not graph.errors and graph.inputs is not None
        built = graph.built["ours"]
        assert built.timed is not None and built.alone is not None and built.clock is not None
        expected = graph.gm(*graph.inputs)
        for call in (built.run, built.timed, built.alone):
            torch.testing.assert_close(list(call(list(graph.inputs))), list(expected))
    keys = {step.key for step in built.steps}
    assert keys <= set(built.clock.seconds)
    assert {step.kind for step in built.steps} == {"kernel", "aten"}


def test_a_compiler_that_fails_is_told_and_the_program_runs():
    def broken(gm, inputs, kind):
        raise ValueError("broken on purpose")

    x = torch.randn(4)
    results = []
    (graph,) = capture(
        lambda x: torch.sin(x) * 2, lambda run: results.append(run(x)), {"broken": broken}, decompositions("aten")
    )
    assert str(graph.errors["broken"]) == "broken on purpose"
    torch.testing.assert_close(results[0], torch.sin(x) * 2)
