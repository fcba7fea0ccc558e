"""Arithmetic of integers: division by tensors and by zero, powers; and a number taken apart."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import pytest
import torch

from support import backend, check, lowered

pytestmark = pytest.mark.device

IRS = ("aten", "prims")
DIVISIONS: dict[str, Callable[..., torch.Tensor]] = {
    "floor": operator.floordiv,
    "remainder": operator.mod,
    "fmod": torch.fmod,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}


@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_division(name, dtype, ir):
    x, y = torch.arange(-12, 12).to(dtype), torch.tensor([1, 2, 3, -1, -2, -7] * 4).to(dtype)
    check(DIVISIONS[name], x, y, ir=ir)
    (one,) = lowered(DIVISIONS[name], x, y, ir=ir)
    assert one.plan.extern_calls == 0


@pytest.mark.parametrize("name", DIVISIONS)
def test_division_by_zero_raises_as_in_eager(name):
    divide = DIVISIONS[name]
    x, y = torch.arange(-12, 12).view(4, 6), torch.arange(24).view(4, 6)
    for f in (divide, lambda x, y: divide(x, y).sum(-1), lambda x, y: torch.where(y == 0, 0, divide(x, y))):
        torch._dynamo.reset()
        compiled = torch.compile(f, backend=backend())
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            f(x, y)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compiled(x, y)
        torch.testing.assert_close(compiled(x, y + 1), f(x, y + 1))


def test_division_by_zero_of_floats_raises_nothing():
    check(lambda x, y: (x // y, x % y), torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.0, 2.0, 0.0]))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8], ids=str)
def test_power(dtype):
    x = torch.tensor([0, 1, 2, 3, -1, -2, 5, -1, 1, 2]).to(dtype)
    y = torch.tensor([0, 5, 9, 40, 3, 5, 2, -2, -3, -1]).to(dtype)
    check(torch.pow, x, y)
    check(lambda y: 3**y, y.abs())
    assert lowered(torch.pow, x, y)[0].plan.extern_calls == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_fraction_and_exponent(dtype):
    edges = [0.0, -0.0, 1.0, 0.5, 0.25, -3.0, 4.0, 2.0**-14, 65504.0, 0.99951171875, 6e-8, 1.5e-5]
    x = torch.cat([torch.tensor(edges), torch.randn(100) * 50, torch.exp2(torch.arange(-14.0, 15.0))]).to(dtype)
    check(lambda x: torch.frexp(x * 1), x)
    assert lowered(torch.frexp, x)[0].plan.extern_calls == 0


def test_angle_and_running_logarithm():
    x = torch.tensor([1.0, -2.0, 0.0, -0.0, math.inf, -math.inf, math.nan])
    check(torch.angle, x)
    check(torch.angle, torch.arange(-3, 3))
    y = torch.tensor([[-math.inf, -math.inf, 1.0, 700.0, -3.0], [1.0, math.inf, 2.0, math.inf, math.nan]])
    check(lambda y: torch.logcumsumexp(y, 1), y)
    check(lambda y: torch.logcumsumexp(y * 2, 0) + 1, torch.randn(50, 7))
