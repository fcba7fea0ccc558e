"""Operations of a workload, counted by hand and by the tool."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from aten_backend.comparison import flops

X, W = torch.randn(8, 16), torch.randn(16, 4, requires_grad=True)

Q = torch.randn(1, 2, 5, 4)
"""Batch, heads, positions, width."""


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda: X @ W, 2 * 8 * 16 * 4),
        (lambda: X + 1, 8 * 16),
        (lambda: torch.sum(X * 2), 2 * 8 * 16),
        (lambda: X.t().clone().t(), 0),
        (lambda: F.embedding(torch.arange(3), X), 0),
        (lambda: torch.zeros(100), 0),
        (lambda: F.scaled_dot_product_attention(Q, Q, Q), 2 * 2 * 5 * 5 * 4 * 2),
        (lambda: F.conv1d(torch.ones(1, 2, 10), torch.ones(3, 2, 3)), 2 * 8 * 3 * 2 * 3),
    ],
    ids=["product", "pointwise", "sum", "moves", "table", "factory", "attention", "convolution"],
)
def test_counts(run, expected):
    with torch.no_grad():
        assert flops.count(run) == expected


def test_a_backward_pass_counts_too():
    def step():
        W.grad = None
        (X @ W).sum().backward()

    product, total = 2 * 8 * 16 * 4, flops.count(step)
    assert 2 * product < total < 2 * product + 200, "the product, the one of its gradient, and little more"


def test_attention_backward():
    queries = Q.clone().requires_grad_()
    forward = flops.count(lambda: F.scaled_dot_product_attention(Q, Q, Q))
    both = flops.count(lambda: F.scaled_dot_product_attention(queries, Q, Q).sum().backward())
    assert both >= forward + 2 * forward


def test_peaks_are_of_this_machine():
    found = flops.peaks()
    assert 1e8 < found["bytes_per_second"] < 1e13
    assert 1e8 < found["flops_per_second"] < 1e15
