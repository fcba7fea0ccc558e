"""What a row of a pointwise group has in common is computed once a row, where that is worth a loop."""

from __future__ import annotations

import pytest
import torch

from support import interpret, lowered


def normalise(x, mean, var):
    return torch.relu((x - mean[:, None]) / torch.sqrt(var[:, None] + 1e-5))


def given(channels: int, points: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return torch.randn(3, channels, points), torch.randn(channels), torch.rand(channels)


def text(function, *inputs) -> str:
    (one,) = lowered(function, *inputs)
    (kernel,) = one.distinct.values()
    return kernel.source.text


def test_common_work_stands_before_the_loop():
    found = text(normalise, *given(5, 300))
    assert found.index("sqrt(") < found.index("for base in range(")


@pytest.mark.parametrize(
    "function, inputs",
    [
        (normalise, given(300, 5)),  # short rows
        (lambda x, mean, var: x - mean[:, None] + var[:, None], given(5, 300)),  # next to nothing in common
        (lambda x, mean, var: x / torch.sqrt(var), given(300, 300)),  # differs along memory
    ],
    ids=("short", "cheap", "along memory"),
)
def test_elsewhere_each_work_item_has_a_point(function, inputs):
    assert "for base in range(" not in text(function, *inputs)


@pytest.mark.parametrize("points", (256, 300, 3136))
@pytest.mark.parametrize("dynamic", (False, True), ids=("static", "dynamic"))
def test_the_numbers_are_those_of_eager(points, dynamic):
    inputs = given(5, points)
    torch.testing.assert_close(interpret(normalise, *inputs, dynamic=dynamic), normalise(*inputs))
