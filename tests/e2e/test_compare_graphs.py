"""One trace for all, for real: captured graphs through both compilers, timed in parts and aligned."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

from aten_backend.comparison import align, reconcile, runner
from aten_backend.comparison import backends as named
from aten_backend.comparison.graphs.capture import capture
from aten_backend.comparison.graphs.measure import Traced
from aten_backend.comparison.graphs.ours import compile_ours
from aten_backend.comparison.runner import Settings
from aten_backend.comparison.workloads import Case, Workload
from aten_backend.loop_level import graphs as loop_graphs
from lowering.decompose import decompositions

pytestmark = pytest.mark.device


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return torch.softmax(self.norm(self.linear(x).relu()) * 2, -1).square()


def layer(train: bool, rows: int, width: int) -> Case:
    return Case(Layer(width), ((torch.randn(rows, width),),), train=train)


def measured(
    backends: tuple[str, ...], train: bool, isolated: bool = False, rows: int = 8, width: int = 16, rounds: int = 6
):
    workload = Workload("own", "layer", functools.partial(layer, train, rows, width))
    settings = Settings(rounds=rounds, seconds=1, graphs=True, isolated=isolated)
    chosen = named.parse(backends)
    made = runner.new_comparison(settings, chosen)
    runner.run([workload], chosen, settings, made)
    assert not [row.error for row in made.rows if row.error]
    assert not [row.error for row in made.graphs if row.error]
    return made


@pytest.mark.slow
def test_a_training_step_is_aligned_kernel_by_kernel():
    made = measured(("eager", "xpu_aten", "inductor"), train=True, isolated=True)
    assert [(row.graph, row.compiler) for row in made.graphs] == [
        (graph, compiler) for graph in ("0 forward", "1 backward") for compiler in ("eager", "xpu_aten", "inductor")
    ]
    digests = {(row.graph, row.digest) for row in made.graphs}
    assert len(digests) == 2, "three processes have traced the same"
    found = align.alignments(made)
    assert [one.ours.graph for one in found] == ["0 forward", "1 backward"]
    for one in found:
        for row, side in ((one.ours, "ours"), (one.theirs, "theirs")):
            steps = [id(step) for block in one.blocks for step in getattr(block, side)]
            assert sorted(steps) == sorted(map(id, row.steps)), "each step once"
            assert {step.name for step in row.steps if step.kind == "kernel"} == set(row.codes)
            assert all(step.seconds for step in row.steps)
    assert not [block for one in found for block in one.blocks if not block.ours], "ours computes all of Inductor's"
    ours = [one for one in made.graphs if one.compiler == "xpu_aten"]
    (row,) = [row for row in made.rows if row.backend == "xpu_aten"]
    launches = sum(step.kind == "kernel" for one in ours for step in one.steps)
    assert launches == row.counts["launches"], "the graphs launch what torch.compile's program does"
    assert sum(step.kind == "aten" for one in ours for step in one.steps) == row.counts["extern_calls"]


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True])
def test_the_parts_add_up_to_the_whole(train):
    """What is measured in different runs differs, on a busy machine much; a kernel too many or too few, by more."""
    made = measured(("xpu_aten", "inductor"), train, isolated=True, rows=2048, width=512, rounds=10)
    found = reconcile.accounts(made)
    assert [one.backend for one in found] == ["xpu_aten", "inductor"]
    for one in found:
        assert 0.5 < one.explained < 1.5, one
        assert one.graphs < one.whole
    for row in made.graphs:
        assert sum(row.parts.values()) == pytest.approx(row.clocked_seconds)


def test_parts_and_account_of_ours():
    made = measured(("eager", "xpu_aten"), train=False)
    eager, ours = made.graphs
    assert (eager.compiler, ours.compiler) == ("eager", "xpu_aten")
    assert set(ours.parts) == {"kernels", "aten", "host"}
    assert sum(ours.parts.values()) == pytest.approx(ours.clocked_seconds)
    (account,) = reconcile.accounts(made)
    assert 0 < account.graphs < account.whole and account.end_to_end
    assert sum(account.parts.values()) == pytest.approx(account.whole)
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
    assert sum(theirs.parts.values()) == pytest.approx(theirs.clocked_seconds)
    (one,) = align.alignments(made)
    assert one.theirs is theirs and not [block for block in one.blocks if not block.ours or not block.theirs]


COMPILERS = pytest.mark.parametrize(
    ("compiler", "table"),
    [
        (compile_ours, decompositions("aten")),
        (loop_graphs.compile_twin, loop_graphs.trace_table()),
        (loop_graphs.compile_inductor, loop_graphs.trace_table()),
    ],
    ids=["xpu_aten", "xpu_inductor", "inductor"],
)


@COMPILERS
@pytest.mark.parametrize("rows", [8, 4096], ids=["small", "large"])
def test_timed_code_computes_the_same(compiler, table, rows):
    model, x = Layer(128), torch.randn(rows, 128)
    with torch.no_grad():
        run, graphs = capture(model, compiler, table)
        expected = model(x)
        torch.testing.assert_close(run(x), expected)
        (graph,) = graphs
        built = graph.built
        assert graph.error is None and built.timed is not None and built.alone is not None and built.clock is not None
        for call in (built.timed, built.alone):
            graph.call = call
            torch.testing.assert_close(run(x), expected)
    keys = {step.key for step in built.steps}
    assert keys <= set(built.clock.seconds)
    assert sum(built.clock.seconds.values()) < graph.seconds
    assert {step.kind for step in built.steps} == {"kernel", "aten"}


@COMPILERS
def test_results_that_alias_lie_as_eager_s(compiler, table):
    """AOTAutograd makes a view of a result by the strides that eager's has."""

    def program(x, w):
        y = torch.nn.functional.conv2d(x, w, padding=1)
        return y, y.transpose(1, 3)[0], (y * 2).permute(2, 0, 1, 3)

    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    w = torch.randn(4, 3, 3, 3, requires_grad=True)
    found = []
    for run in (program, capture(program, compiler, table)[0]):
        w.grad = None
        results = run(x, w)
        sum(result.square().sum() for result in results).backward()
        found.append([*results, w.grad])
    for mine, eager in zip(*reversed(found), strict=True):
        torch.testing.assert_close(mine, eager, atol=1e-3, rtol=1e-4)
        assert mine.stride() == eager.stride()


def test_a_compiler_that_fails_is_told_and_the_program_runs():
    def broken(gm, inputs, kind):
        raise ValueError("broken on purpose")

    x = torch.randn(4)
    run, graphs = capture(lambda x: torch.sin(x) * 2, broken, decompositions("aten"))
    torch.testing.assert_close(run(x), torch.sin(x) * 2)
    (graph,) = graphs
    assert str(graph.error) == "broken on purpose"


def test_a_compiler_that_fails_is_the_error_of_its_graphs(monkeypatch):
    def broken(gm, inputs, kind):
        raise ValueError("broken on purpose")

    monkeypatch.setattr("aten_backend.comparison.graphs.measure.compile_ours", broken)
    workload = Workload("own", "layer", functools.partial(layer, False, 8, 16))
    settings = Settings(rounds=1, graphs=True, isolated=False)
    chosen = named.parse(("eager", "xpu_aten"))
    made = runner.new_comparison(settings, chosen)
    runner.run([workload], chosen, settings, made)
    assert [(row.compiler, row.error, bool(row.samples)) for row in made.graphs] == [
        ("eager", "", True),
        ("xpu_aten", "ValueError: broken on purpose", False),
    ]
    assert not [row.error for row in made.rows if row.error] and not reconcile.accounts(made)


def test_a_graph_counts_in_each_run_that_calls_it():
    """Two calls of one graph in a run; nothing of the untimed runs before."""
    case = Case(torch.sin, ((torch.ones(8),), (torch.zeros(8),)))
    traced = Traced(Workload("own", "sine", lambda: case), case, named.Backend("eager"), ())
    with torch.no_grad():
        traced.settle(3)
        traced.sample()
    (row,) = traced.graph_rows()
    assert len(row.samples) == 1 and row.samples[0] < traced.row.samples[0]
    assert (row.compile_seconds, row.parts, row.nodes) == (None, {}, 1)
