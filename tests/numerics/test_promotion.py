"""Type promotion, overflow, and what half types round, in one compiled function a type: results must be eager's."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from aten_backend.backend import xpu_aten
from aten_backend.numerics.policy import compare, work_of

pytestmark = pytest.mark.device

Formula = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)

ANY: dict[str, Formula] = {
    "float scalar": lambda x, y: x * 2.5,
    "float scalar on the left": lambda x, y: 1.5 - x,
    "int scalar": lambda x, y: x + 3,
    "bool scalar": lambda x, y: x + True,
    "0-d tensor of a wider type": lambda x, y: x * torch.tensor(3, dtype=torch.int64),
    "0-d float64 tensor": lambda x, y: x * torch.tensor(2.5, dtype=torch.float64),
    "compare with a float": lambda x, y: x > 1.5,
    "compare with a fraction": lambda x, y: x == 0.1,
    "compare with bool": lambda x, y: x == True,  # noqa: E712
    "compare below the range": lambda x, y: x >= -1.0,
    "int8 beside": lambda x, y: x + y.to(torch.int8),
    "int64 beside": lambda x, y: x + y.to(torch.int64),
    "float32 beside": lambda x, y: x + y.to(torch.float32) / 3,
    "bool beside": lambda x, y: x * (y > 0),
    "clamp by floats": lambda x, y: x.clamp(0.5, 2.5),
    "clamp by ints": lambda x, y: x.clamp(1, 2),
    "clamp by tensors": lambda x, y: x.clamp(y, torch.maximum(y, x)),
    "where with a scalar": lambda x, y: torch.where(x > y, x, 0.5),
    "true division": lambda x, y: x / (y.abs() + 1),
    "sum": lambda x, y: x.sum(),
    "sum in float64": lambda x, y: x.sum(dtype=torch.float64),
    "square": lambda x, y: x**2,
    "cube": lambda x, y: x**3,
    "float power": lambda x, y: x.abs() ** 0.5,
    "sign": lambda x, y: x.sign(),
    "to bool": lambda x, y: x.bool(),
    "logical and": torch.logical_and,
    "constant and cast": lambda x, y: torch.full((1,), 0.1, dtype=torch.float32).to(torch.float64) * x,
}
WHOLE: dict[str, Formula] = {
    "wraparound": lambda x, y: x * x * x + y,
    "wraparound below zero": lambda x, y: y - x - 100,
    "negate": lambda x, y: -x,
    "shift left": lambda x, y: x << 3,
    "shift right": lambda x, y: x >> 1,
    "shift by a tensor": lambda x, y: x << y.clamp(0, 6),
    "shift out": lambda x, y: (x >> 7) + (x << 7),
    "floor division": lambda x, y: x // 3,
    "floor division by a negative": lambda x, y: torch.div(x.to(torch.int64), -3, rounding_mode="floor"),
    "truncated division": lambda x, y: torch.div(x, 3, rounding_mode="trunc"),
    "remainder": lambda x, y: x % 5,
    "remainder by a float": lambda x, y: x % 2.5,
    "fmod": lambda x, y: torch.fmod(x, 3),
    "fifth power": lambda x, y: x**5,
    "not": lambda x, y: ~x,
    "xor": lambda x, y: x ^ y,
    "product": lambda x, y: x.prod(),
    "mean in float32": lambda x, y: x.mean(dtype=torch.float32),
    "exp": lambda x, y: (x.clamp(0, 5)).exp(),
    "to float16 and back": lambda x, y: x.to(torch.float16).to(torch.int32),
}
BOOLS: dict[str, Formula] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "add an int": lambda x, y: x + 2,
    "multiply by a float": lambda x, y: x * 0.5,
    "xor": lambda x, y: x ^ y,
    "not": lambda x, y: ~x,
    "compare": lambda x, y: x < y,
    "compare with an int": lambda x, y: x == 1,
    "count": lambda x, y: x.sum(),
    "mean": lambda x, y: x.float().mean(),
    "maximum": torch.maximum,
    "to int8": lambda x, y: x.to(torch.int8) - y.to(torch.int8),
}
ROUNDED: dict[str, Formula] = {
    "ties of a product": lambda x, y: (x * y).argmax(),
    "equal to the largest": lambda x, y: (x * y) == (x * y).max(),
    "compare after arithmetic": lambda x, y: (x * 3 / 3) == x,
    "to int after a product": lambda x, y: (x * 100).to(torch.int32),
    "truth after underflow": lambda x, y: (x * 1e-8 * 1e-8).bool(),
    "overflow is infinite": lambda x, y: (x * 60000 * 60000).isinf(),
    "largest with its place": lambda x, y: torch.max(x * y, dim=-1).indices,
}


def _agree(formulas: dict[str, Formula], x: torch.Tensor, y: torch.Tensor) -> None:
    def all_of(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [f(x, y) for f in formulas.values()]

    eager, ours = all_of(x, y), torch.compile(all_of, backend=xpu_aten)(x, y)
    wide = (lambda t: t.double()) if x.dtype.is_floating_point else (lambda t: t)
    exact = all_of(wide(x), wide(y))
    work = dataclasses.replace(work_of([x, y], pointwise=False), magnitude=1.0)
    faults = {n: compare([o], [e], [r], work) for n, o, e, r in zip(formulas, ours, eager, exact, strict=True)}
    assert not {n: f for n, f in faults.items() if f}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype: torch.dtype) -> None:
    low, high = (0, 255) if dtype is torch.uint8 else (-128, 127)
    x = torch.cat([torch.tensor([low, high, 0, 1, 2]), torch.randint(low, high, (59,))]).to(dtype)
    y = torch.randint(low, high, (64,)).to(dtype)
    _agree({**ANY, **WHOLE}, x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats(dtype: torch.dtype) -> None:
    x = torch.cat([torch.tensor([0.0, -0.0, 0.1, 1.0, 1.5, 2.5, -1.0]), torch.randn(57)]).to(dtype)
    _agree(ANY, x, torch.randn(64).to(dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_exact_results_of_half_types(dtype: torch.dtype) -> None:
    x = (torch.rand(8, 512) + 1).to(dtype)
    _agree(ROUNDED, x, (torch.rand(8, 512) + 1).to(dtype))


def test_bools() -> None:
    x, y = torch.randn(64) > 0, torch.randn(64) > 0
    _agree(BOOLS, x, y)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_special_values(dtype: torch.dtype) -> None:
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, math.inf, -math.inf, math.nan], dtype=dtype)
    x, y = (t.reshape(-1) for t in torch.meshgrid(special, special, indexing="ij"))
    names = (
        "maximum minimum fmax fmin remainder fmod floor_divide pow atan2 copysign xlogy hypot logaddexp nextafter "
        "true_divide eq lt ge heaviside"
    )
    formulas: dict[str, Formula] = {name: getattr(torch, name) for name in names.split()}
    for power in (0.5, -0.5, 2, 3, -1, -2, 0, 1, math.inf):
        formulas[f"power {power}"] = lambda x, y, power=power: x**power  # type: ignore[misc]
    formulas |= {
        "argmax": lambda x, y: x.reshape(9, 9).t().argmax(-1),
        "amax": lambda x, y: y.reshape(9, 9).amax(0),
        "any": lambda x, y: x.reshape(9, 9).any(-1),
        "softmax": lambda x, y: y.reshape(9, 9)[:, :6].softmax(-1),
        "clamp": lambda x, y: x.clamp(-1, 2),
        "sign": lambda x, y: x.sign(),
        "relu": lambda x, y: x.relu(),
        "round": lambda x, y: x.round(),
        "isfinite": lambda x, y: x.isfinite(),
        "nan_to_num": lambda x, y: x.nan_to_num(),
    }
    _agree(formulas, x, y)
