"""Which matmuls are given to oneDNN's inner product, and that what it is given is what they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lowering.passes import onednn_linear
from support import interpret, traced

LINEAR = torch.ops.mkldnn._linear_pointwise.default
pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


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
    "float64": (torch.mm, X.double(), W.double()),
    "half": (torch.mm, X.bfloat16(), W.bfloat16()),
    "scaled": (lambda b, x, w: torch.addmm(b, x, w, beta=2), B, X, W),
    "a bias for each row": (torch.addmm, B.view(512, 1), X, W),
    "expanded rows": (torch.mm, X[:1].expand(512, 512), W),
    "every other column": (torch.mm, matrix(512, 1024)[:, ::2], W),
}


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
