"""Orders of loops against orders of positions, spaces without points, and integers at their ends."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from support import check

IRS = ("aten", "prims")
ORDERS = [(3, 1, 0, 2), (2, 0, 3, 1), (1, 0, 2, 3)]


@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("order", ORDERS)
def test_positions_are_those_of_the_permuted_tensor(order, ir):
    x = torch.randn(2, 3, 4, 5)
    check(lambda t: t.permute(order).argmax(), x, ir=ir)
    check(lambda t: t.permute(order).argmin(0), x, ir=ir)
    check(lambda t: (t.sin(), t.permute(order).flatten(1).cumsum(1)), x, ir=ir)
    check(lambda t: tuple(t.permute(order).flatten(0, 1).cummax(0)), x, ir=ir)


@pytest.mark.parametrize("fill", [1.0, float("nan")])
def test_the_first_of_equals_counts_whatever_order_memory_has(fill):
    check(lambda t: t.permute(2, 0, 1).argmax(), torch.full((3, 5, 4), fill))


@pytest.mark.parametrize("ir", IRS)
def test_what_does_not_vary_over_an_empty_axis_is_stored(ir):
    def beside_nothing(w, empty):
        y = w.exp().sin()
        return y, y + empty

    check(beside_nothing, torch.arange(4.0), torch.zeros(0, 4), ir=ir)

    def padded(x, empty):
        y = F.pad(x, (0, 1), value=1.0).exp()
        return y, y + empty

    check(padded, torch.zeros(0), torch.zeros(0), ir=ir)


@pytest.mark.parametrize("ir", IRS)
def test_reshapes_of_nothing(ir):
    check(lambda x: x.sin().flatten(), torch.randn(2, 2, 0), ir=ir)
    check(lambda x: torch.stack([x, x], 1) * 2, torch.randn(3, 0), ir=ir)
    check(lambda x: x.repeat(2, 2), torch.randn(2, 0), ir=ir)


def test_repeat_has_eagers_strides():
    check(lambda x: x.sin().repeat(1, 2), torch.ones(2, 1))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
@pytest.mark.parametrize("op", [torch.floor_divide, torch.remainder, torch.fmod], ids=lambda op: op.__name__)
def test_the_smallest_integer_by_minus_one(op, dtype):
    x = torch.tensor([torch.iinfo(dtype).min, 7, -7, 5], dtype=dtype)
    check(op, x, torch.tensor([-1, -1, 2, -3], dtype=dtype))


def test_a_correction_known_at_run_time_only():
    check(lambda x, c: x.var(1, correction=c), torch.randn(3, 4), 2, dynamic=True, fused=False)


@pytest.mark.parametrize("length", (16, 48, 256, 2048, 2304, 6144, 1000, 17, 1), ids=str)
@pytest.mark.parametrize(
    "dtype", (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int8, torch.bool), ids=str
)
def test_running_sums_of_contiguous_rows(length, dtype):
    """Lanes share a row where it is whole turns long, and take chunks of it where those are."""
    x = torch.testing.make_tensor(5, 7, length, dtype=dtype, device="cpu", low=-3, high=3)
    check(lambda t: (t.cumsum(-1), (t + t).cumsum(2).sum(1), t.t().cumsum(0) if t.dim() == 2 else t[0].cumsum(-1)), x)


@pytest.mark.parametrize("length", (256, 4096))
def test_running_sums_beside_what_is_read_before_and_after(length):
    x, y = torch.randn(5, length), torch.randn(5, length)
    check(lambda t, s: (t.sigmoid().cumsum(-1) * t + s).relu(), x, y)
    check(lambda t, s: torch.softmax(t.cumsum(-1), -1) + s, x, y, rtol=1e-5, atol=1e-5)  # made in each stage anew
    check(lambda t, s: t.cumsum(-1) + s.cumsum(-1), x, y, rtol=1e-5, atol=1e-4)  # two in one loop
    check(lambda t, s: t.cumsum(-1).cumsum(-1), x, y, rtol=1e-5, atol=1e-2)
    check(lambda t, s: (t + 1).cumsum_(-1) * s, x, y, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("length", (64, 512))
def test_running_sums_carry_infinities_and_nan_on(length):
    x = torch.randn(4, length)
    x[0, 20], x[1, 33], x[2, 3], x[2, 40] = float("inf"), float("nan"), float("inf"), -float("inf")
    check(lambda t: t.cumsum(-1), x)
