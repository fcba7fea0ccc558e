"""Reductions along columns of memory, several columns for each work-item."""

from __future__ import annotations

import pytest
import torch

from support import check, lowered


def r(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.testing.make_tensor(*shape, dtype=dtype, device="cpu", low=-3, high=3)


CASES = {
    "sum": lambda x, w, b: x.sum(0),
    "product and extremes": lambda x, w, b: ((x / 3).prod(0), x.amax(0), x.amin(0)),
    "with a weight for each column": lambda x, w, b: (x * w.exp() + b).square().mean(0) * w + b,
    "what is in common, too": lambda x, w, b: ((x + b.sum()) * w).sum(0) - b.sum(),
    "several, and what they reduce": lambda x, w, b: (x.sin(), x.sin().sum(0), (x.cos() * w).sum(0)),
    "any and all": lambda x, w, b: ((x > w).any(0), (x > 0).all(0), (x > b).sum(0)),
}


@pytest.mark.parametrize("columns", (256, 512, 768, 2048))
@pytest.mark.parametrize("name", CASES)
def test_columns(name, columns):
    check(CASES[name], r(77, columns), r(columns), r(columns), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "dtype", (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.int32, torch.bool), ids=str
)
def test_types(dtype):
    check(lambda x: (x.sum(0), x.amax(0)), r(300, 512, dtype=dtype))


@pytest.mark.parametrize("shape", ((3, 500, 256), (7, 33, 512), (2, 5, 40, 256)), ids=str)
def test_columns_of_several_matrices(shape):
    check(lambda x: (x.sum(-2), (x * 2).amax(-2), x.sum(0)), r(*shape), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", (1, 2, 128, 129, 5000))
def test_long_and_short_columns(rows):
    check(lambda x: x.sum(0), r(rows, 512), rtol=1e-4, atol=1e-3)


def test_nan_wins():
    x = r(64, 512)
    x[3, 5], x[60, 300], x[0, 17] = float("nan"), float("inf"), -float("inf")
    check(lambda t: (t.amax(0), t.amin(0), t.sum(0)), x)


def test_gradients_of_a_layer_norm():
    def loss(x, w, b):
        return (torch.nn.functional.layer_norm(x, (512,), w, b).sin() * x).sum()

    given = [t.requires_grad_() for t in (r(300, 512), r(512), r(512))]
    expected = torch.autograd.grad(loss(*given), given)
    found = torch.autograd.grad(torch.compile(loss, backend="xpu_aten")(*given), given)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def schedules(fn, x):
    return [str(p.schedule) for one in lowered(fn, x) for k in one.plan.kernels for p in k.phases]


def test_which_columns_are_taken_together():
    assert "8 rows a work-item" in schedules(lambda x: x.sum(0), r(300, 2048))[0]
    for fn, columns in (
        (lambda x: x.sum(0), 2047),  # not whole
        (lambda x: x.sum(0), 64),  # too few
        (lambda x: x.argmax(0), 2048),
        (lambda x: x.var(0), 2048),  # two loops
        (lambda x: x.cumsum(0), 2048),
    ):
        assert not any("a work-item" in s for s in schedules(fn, r(300, columns)))
