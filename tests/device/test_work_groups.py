"""Ranges that no work-group divides: every element is computed, and nothing beyond."""

from __future__ import annotations

import pytest
import torch

from lowering.index import Axis, index
from lowering.schedule import Mapping, Schedule, in_work_groups
from lowering.target import GENERIC
from support import lowered

pytestmark = pytest.mark.device

SHAPES = [(1,), (65,), (10007,), (3, 100_003), (1009, 64), (64, 1009), (7, 11, 13), (2, 3, 5, 4099)]


def pointwise(x):
    return torch.tanh(x) * x


def columns(x):
    return x.square().sum(0)


@pytest.mark.parametrize("dynamic", (False, True), ids=("static", "dynamic"))
@pytest.mark.parametrize("function", (pointwise, columns))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_odd_extents(function, shape, dynamic):
    torch._dynamo.reset()
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    beyond = torch.cat((x.flatten(), torch.full((4096,), torch.nan)))  # what a work-item too many would read
    x = beyond[: x.numel()].view(shape)
    compiled = torch.compile(function, backend="xpu_aten", dynamic=dynamic, options={"fallback": "error"})
    torch.testing.assert_close(compiled(x), function(x))
    assert beyond[x.numel() :].isnan().all()


def test_an_in_place_result_leaves_its_surroundings():
    memory = torch.zeros(3000)
    part = memory[1000:2009]
    torch.compile(lambda x: x.add_(1), backend="xpu_aten")(part)
    assert memory.sum() == 1009 and bool((part == 1).all())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_work_groups_are_as_large_as_the_work_allows(shape):
    (one,) = lowered(pointwise, torch.empty(shape))
    (kernel,) = one.plan.kernels
    sizes = [n.constant or 0 for n in kernel.global_size]
    group = kernel.source.local_size
    assert group is not None and all(n % m == 0 for n, m in zip(sizes, group, strict=True))
    work, items = torch.empty(shape).numel(), torch.Size(sizes).numel()
    assert work <= items < 2 * work + GENERIC.max_work_group_size
    assert torch.Size(group).numel() <= GENERIC.max_work_group_size


def test_a_range_near_the_limit_is_left_to_the_driver():
    whole = Schedule(Mapping.FLAT, ((Axis("i0", index(2**31 - 5)),),), ())
    assert in_work_groups(whole, GENERIC) == whole
