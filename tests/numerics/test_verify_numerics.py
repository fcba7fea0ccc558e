"""``verify="numerics"``: right programs pass; a wrong row is found with its node and element, lost memory by name."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from aten_backend.backend import xpu_aten
from aten_backend.numerics.check import MemoryChangedError, NumericsError
from aten_backend.numerics.reference import eager_values, exact_values
from golden.cases import cases
from lowering.ops import TABLE
from runtime.plan import Planner
from support import graphs_of, lowered

pytestmark = pytest.mark.device
aten = torch.ops.aten


def run(fn, *args, dynamic=False, **options):
    torch._dynamo.reset()
    return torch.compile(fn, backend=xpu_aten, options={"verify": "numerics", **options}, dynamic=dynamic)(*args)


@pytest.mark.parametrize("ir", ("aten", "prims"))
@pytest.mark.parametrize("name", cases())
def test_what_is_right_passes(name, ir):
    function, args = cases()[name]
    run(function, *args, ir=ir)


def test_training_and_dynamic_sizes_pass():
    model: Any = torch.nn.Sequential(
        torch.nn.Linear(12, 20), torch.nn.GELU(), torch.nn.LayerNorm(20), torch.nn.Linear(20, 5)
    )
    x, target = torch.randn(7, 12), torch.randint(0, 5, (7,))
    for dynamic in (False, True):
        loss = run(lambda x: F.cross_entropy(model(x), target), x, dynamic=dynamic)
        torch.autograd.backward(loss)


def test_infinite_masks_do_not_hide_errors(monkeypatch):
    plant(monkeypatch, aten.tanh.default)
    x, mask = torch.randn(8, 16), torch.where(torch.rand(8, 16) > 0.7, -3e38, 0.0)
    with pytest.raises(NumericsError, match=r"first bad node: tanh \(aten.tanh.default\)"):
        run(lambda x, mask: torch.softmax(torch.tanh(x) + mask, -1), x, mask)


def test_references_begin_from_the_same_contents():
    """Eager's run of a group that adds to an input must not be what float64's run adds to."""
    (gm,) = graphs_of(
        lambda cache, at, x: cache.index_add_(0, at, x), torch.ones(4, 2), torch.tensor([1]), torch.ones(1, 2)
    )
    inputs = [torch.ones(4, 2), torch.tensor([1]), torch.ones(1, 2)]
    eager, exact = eager_values(gm, inputs), exact_values(gm, inputs)
    assert exact is not None
    for name, value in eager.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(exact[name], value, check_dtype=False)
    assert bool((inputs[0] == 1).all()), "what was given is as it was"
    first = next(iter(gm.graph.nodes)).name
    assert bool((eager[first] == 1).all()), "and is kept as it was given"


def plant(monkeypatch, op, factor=1.001):
    """Make the row of ``op`` wrong."""
    row = TABLE[op]
    lower = row.lower
    assert lower is not None
    wrong = dataclasses.replace(row, lower=lambda scope, node, coords: lower(scope, node, coords) * factor)
    monkeypatch.setitem(TABLE, op, wrong)


@pytest.mark.parametrize("dynamic", (False, True), ids=("static", "dynamic"))
def test_the_node_the_element_and_its_inputs_are_named(monkeypatch, dynamic):
    plant(monkeypatch, aten.sigmoid.default)
    x, y = torch.randn(6, 10), torch.randn(10)
    with pytest.raises(NumericsError) as caught:
        run(lambda x, y: torch.softmax(torch.sigmoid(x + y) * 2, -1), x, y, dynamic=dynamic)
    report = caught.value.reports[-1]
    assert report.node is not None
    assert report.node.op == "aten.sigmoid.default"
    assert "torch.sigmoid(x + y)" in report.node.source
    assert report.node.index == (0, 0)
    ((name, value),) = report.node.inputs
    assert name == "add"
    assert value == pytest.approx(float(x[0, 0] + y[0]))
    assert report.node.values[0] == pytest.approx(1.001 * report.node.values[1])
    assert report.ours is not None and report.eager is not None and report.ours > 1e-5 > report.eager
    assert "xpu-aten bisect" in str(caught.value)


def test_groups_before_the_wrong_one_are_reported_as_right(monkeypatch):
    plant(monkeypatch, aten.tanh.default)
    x = torch.randn(8, 8)
    with pytest.raises(NumericsError) as caught:
        run(lambda x: torch.tanh((x.exp() @ x).relu() @ x), x)
    first, second, third = caught.value.reports
    assert first.fault is None
    assert second.fault is None
    assert third.fault is not None


def test_memory_given_away_too_early(monkeypatch):
    allocate = Planner._allocate
    known: dict[tuple, str] = {}

    def wrong(self, name, layout):
        if (earlier := known.setdefault(layout, name)) != name:
            self.lines.append(f"{name} = {earlier}")
        else:
            allocate(self, name, layout)

    monkeypatch.setattr(Planner, "_allocate", wrong)
    monkeypatch.setattr(Planner, "_in_place", lambda self, node, kernel: None)

    def program(x):
        y = torch.softmax(x, -1)
        return (y @ x).relu() @ x + y

    x = torch.randn(8, 8)
    with pytest.raises(MemoryChangedError, match=r"the memory of div was changed .* group 2"):
        run(program, x)


def test_the_plan_is_the_usual_one_where_nothing_is_checked():
    function, args = cases()["attention_scores"]

    def text(verify):
        (one,) = lowered(function, *args, options={"verify": verify})
        return one.plan.text

    def computing(plan):
        """The lines that compute: memory is given back later, and kernels are waited for earlier, where one checks."""
        return {line for line in plan.splitlines() if not line.strip().startswith(("wait()", "del "))}

    assert text("off") == text("artifacts")
    usual, checked = computing(text("off")), computing(text("numerics"))
    assert usual < checked
    added = re.compile(r"scratch\d+_(run|given)|reinterpret")
    assert all(added.search(line) for line in checked - usual)
