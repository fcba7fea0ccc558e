"""Which matmuls are given to oneDNN's inner product, and that what it is given is what they were."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from lowering.passes import onednn_linear
from support import interpret, lowered, traced

LINEAR = torch.ops.mkldnn._linear_pointwise.default
pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


@pytest.fixture(autouse=True)
def slow_blas(monkeypatch):
    """Whatever the processor is."""
    monkeypatch.setattr(onednn_linear, "blas_is_faster", lambda: False)


def matrix(rows: int, cols: int, **how) -> torch.Tensor:
    return torch.randn(rows, cols, generator=torch.Generator().manual_seed(rows), **how)


X, W, B = matrix(512, 512), matrix(512, 512) / 20, torch.randn(512)
TAKEN: dict[str, tuple[Any, ...]] = {
    "linear": (torch.nn.functional.linear, X, W, B),
    "without a bias": (torch.nn.functional.linear, X, W),
    "an input's gradient": (torch.mm, X, W),
    "a transposed weight": (lambda x, w: torch.mm(x, torch.permute(w, (-1, -2))), X, W),
    "a permutation that leaves it": (lambda x, w: torch.mm(x, torch.permute(w, (-2, -1))), X, W),
    "transposed twice": (lambda x, w: torch.mm(x, w.t().t()), X, W),
    "three dimensions": (torch.nn.functional.linear, X.view(4, 128, 512), W, B),
}
LEFT: dict[str, tuple[Any, ...]] = {
    "a weight's gradient": (lambda x, w: torch.mm(x.t(), w), X, W),
    "small": (torch.mm, X[:8], W),
    "a small one with ReLU": (lambda x, w: torch.mm(x, w).relu(), X[:8], W),
    "float64": (torch.mm, X.double(), W.double()),
    "half": (torch.mm, X.bfloat16(), W.bfloat16()),
    "scaled": (lambda b, x, w: torch.addmm(b, x, w, beta=2), B, X, W),
    "a bias for each row": (torch.addmm, B.view(512, 1), X, W),
    "expanded rows": (torch.mm, X[:1].expand(512, 512), W),
    "every other column": (torch.mm, matrix(512, 1024)[:, ::2], W),
}


def test_plain_products_stay_where_the_blas_is_faster(monkeypatch):
    def targets(fn, *args):
        (one,) = lowered(fn, *args)
        return {n.target for n in one.partition.gm.graph.nodes}

    activated = lambda x, w, b: torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b))  # noqa: E731
    assert LINEAR in targets(torch.nn.functional.linear, X, W, B) and LINEAR in targets(activated, X, W, B)
    monkeypatch.setattr(onednn_linear, "blas_is_faster", lambda: True)
    assert LINEAR not in targets(torch.nn.functional.linear, X, W, B) and LINEAR in targets(activated, X, W, B)


@pytest.mark.parametrize("name", TAKEN)
def test_what_it_takes_it_computes(name):
    function, *inputs = TAKEN[name]
    gm = traced(function, *inputs)
    expected = gm(*inputs)
    assert onednn_linear.run(gm) == 1
    gm.recompile()
    assert LINEAR in [node.target for node in gm.graph.nodes]
    torch.testing.assert_close(gm(*inputs), expected, atol=1e-4, rtol=1e-4)
    for node in gm.graph.nodes:
        if node.target is LINEAR:
            assert node.meta["val"].stride() == (512, 1)


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("dynamic", (False, True), ids=("static", "dynamic"))
def test_its_plan_computes_the_same(name, dynamic):
    function, *inputs = TAKEN[name]
    found = interpret(function, *inputs, dynamic=dynamic)
    torch.testing.assert_close(found, function(*inputs), atol=1e-4, rtol=1e-4)


F = torch.nn.functional


def linear(x, w, b):
    return F.linear(x, w, b)


def tanh_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def erf_gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def read_twice(x, w, b):
    y = linear(x, w, b)
    return F.gelu(y), y


ABSORBED: dict[str, tuple[Any, ...]] = {
    "gelu": (lambda x, w, b: F.gelu(linear(x, w, b)), 1),
    "tanh gelu": (lambda x, w, b: F.gelu(linear(x, w, b), approximate="tanh"), 1),
    "tanh gelu, written out": (lambda x, w, b: tanh_gelu(linear(x, w, b)), 1),
    "silu": (lambda x, w, b: F.silu(linear(x, w, b)), 1),
    "sigmoid": (lambda x, w, b: linear(x, w, b).sigmoid(), 1),
    "tanh": (lambda x, w, b: linear(x, w, b).tanh(), 1),
    "over views": (lambda x, w, b: F.gelu(linear(x, w, b).view(2, 4, 512).transpose(0, 1)).flatten(), 1),
    "gated": (lambda x, w, b: F.silu(linear(x, w, b)) * F.linear(x, w), 2),
    "gated, the other way round": (lambda x, w, b: F.linear(x, w) * F.silu(linear(x, w, b)), 2),
    "gated, over views": (lambda x, w, b: F.gelu(linear(x, w, b).view(2, 4, -1)) * F.linear(x, w).view(2, 4, -1), 2),
}
KEPT: dict[str, Any] = {
    "gelu by erf, written out": lambda x, w, b: erf_gelu(linear(x, w, b)),
    "relu": lambda x, w, b: linear(x, w, b).relu(),
    "read twice": read_twice,
    "a gate that lies otherwise": lambda x, w, b: F.gelu(linear(w, w, b)).t() * F.linear(w, w),
    "a gate of another shape": lambda x, w, b: F.gelu(linear(x[:1], w, b)) * F.linear(x, w),
    "a gate that is part of more": lambda x, w, b: F.gelu(linear(x, w, b))[:4] * F.linear(x[:4], w),
    "part of more, gated": lambda x, w, b: F.gelu(linear(x[:4], w, b)) * F.linear(x, w)[:4],
    "a part": lambda x, w, b: F.gelu(linear(x, w, b)[1:]),
    "some columns": lambda x, w, b: F.gelu(linear(x, w, b)[:, :256]),
    "expanded": lambda x, w, b: F.gelu(linear(x, w, b).expand(2, 8, 512)),
}
SPECIAL = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, 1e-40, 3e38, -3e38, 90.0, -90.0, -5.5, 5.5])


def nodes(fn, *inputs):
    (one,) = lowered(fn, *inputs)
    return [str(node.target) for node in one.partition.gm.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("name", ABSORBED)
@pytest.mark.parametrize("dynamic", (False, True), ids=("static", "dynamic"))
def test_an_activation_becomes_part_of_it(name, dynamic):
    fn, count = ABSORBED[name]
    x = X[:8]
    if not dynamic:
        found = nodes(fn, x, W, B)
        assert sum("linear_pointwise" in target for target in found) == count
        assert not [t for t in found if any(a in t for a in ("gelu", "silu", "sigmoid", "tanh", "erf", "mul", "pow"))]
    torch.testing.assert_close(interpret(fn, x, W, B, dynamic=dynamic), fn(x, W, B), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", KEPT)
def test_what_is_no_part_of_it(name):
    found = nodes(KEPT[name], X[:8], W, B)
    assert [t for t in found if any(a in t for a in ("gelu", "relu", "mul"))]
    for ours, eager in zip(
        tree_leaves(interpret(KEPT[name], X[:8], W, B)), tree_leaves(KEPT[name](X[:8], W, B)), strict=True
    ):
        torch.testing.assert_close(ours, eager, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in ABSORBED if "gated" not in name and "views" not in name])
def test_infinities_and_nan_are_eagers(name):
    """The bias brings them in behind a product that is zero."""
    fn = ABSORBED[name][0]
    given = torch.zeros(64, 256), torch.zeros(256, 256), SPECIAL.repeat(256)[:256]
    torch.testing.assert_close(interpret(fn, *given), fn(*given), equal_nan=True, atol=1e-6, rtol=1e-5)


def test_its_step_names_what_it_stands_for():
    (one,) = lowered(ABSORBED["gelu"][0], X[:8], W, B)
    (step,) = one.plan.steps
    assert step.nodes == ("addmm", "gelu")


def test_what_was_written_out_is_named():
    (one,) = lowered(ABSORBED["tanh gelu, written out"][0], X[:8], W, B)
    (step,) = one.plan.steps
    assert {"addmm", "tanh", "mul", "mul_1"} <= set(step.nodes) and not {"view", "arg0_1"} & set(step.nodes)


def test_half_types_stay_as_they_are_written():
    assert "aten.tanh.default" in nodes(tanh_gelu, X.bfloat16())


def test_gradients():
    def loss(x, w, b):
        return torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)).square().sum()

    given = [t.clone().requires_grad_() for t in (X, W, B)]
    expected = torch.autograd.grad(loss(*given), given)
    found = torch.autograd.grad(interpret(loss, *given), given)
    for ours, eager in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, eager, atol=1e-2, rtol=1e-4)


@pytest.mark.parametrize("name", LEFT)
def test_what_it_leaves(name):
    function, *inputs = LEFT[name]
    assert onednn_linear.run(traced(function, *inputs)) == 0


def test_nothing_where_the_user_switched_onednn_off():
    with torch.backends.mkldnn.flags(enabled=False):
        assert onednn_linear.run(traced(torch.mm, X, W)) == 0


@pytest.mark.parametrize("name, value", [("OMP_THREAD_LIMIT", "1"), ("OMP_DYNAMIC", "TRUE")])
def test_nothing_where_openmp_may_give_it_fewer_threads(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert onednn_linear.run(traced(torch.mm, X, W)) == 0
