"""Axes are cut where masks change, so that neighbours agree on them."""

from __future__ import annotations

import pytest
import torch

from support import interpret, lowered


def halves(x):
    middle = x.shape[-1] // 2
    return torch.cat((-x[..., middle:], x[..., :middle]), -1) * x


def thirds(x):
    one, two, three = x.chunk(3, -1)
    return torch.cat((three, one * 2, two), -1) + x


def uneven(x):
    return torch.cat((x[..., 7:], x[..., :7]), -1) + x


def axes(function, x) -> set[str]:
    (one,) = lowered(function, x)
    return {a.name for kernel in one.plan.kernels for dim in kernel.schedule.dims for a in dim}


@pytest.mark.parametrize("function, x", [(halves, torch.randn(3, 5, 64)), (thirds, torch.randn(4, 96))])
def test_equal_parts_become_an_axis(function, x):
    assert any(name.endswith("_part") for name in axes(function, x))


@pytest.mark.parametrize("function, x", [(uneven, torch.randn(3, 64)), (halves, torch.randn(3, 6))])
def test_uneven_and_short_parts_stay(function, x):
    assert not any(name.endswith("_part") for name in axes(function, x))


@pytest.mark.parametrize("dynamic", (False, True), ids=("static", "dynamic"))
@pytest.mark.parametrize("function", (halves, thirds, uneven))
@pytest.mark.parametrize("shape", [(3, 5, 96), (2, 4, 30), (96,)])
def test_the_numbers_are_those_of_eager(function, shape, dynamic):
    x = torch.randn(shape)
    torch.testing.assert_close(interpret(function, x, dynamic=dynamic), function(x))


def test_a_position_that_is_used_as_a_number_too_is_not_cut():
    def function(x):
        place = torch.arange(64)
        return torch.where(place < 32, x, -x) + place

    x = torch.randn(5, 64)
    torch.testing.assert_close(interpret(function, x), function(x))
