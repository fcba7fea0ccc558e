"""The work-group operations of the kernel language."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from device.runtime_harness import run

pytestmark = pytest.mark.device

FLOATS = (torch.float32, torch.float64)
GROUP_TYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint32, torch.uint64)
GROUP_BODY = """i = item.get_global_id(0)
lane = item.get_local_id(0)
v = x[i]
add[i] = group_add(v)
max_[i] = group_max(v)
min_[i] = group_min(v)
sum_[i] = group_scan_inclusive_add(v)
before[i] = group_scan_exclusive_add(v)
run_max[i] = group_scan_inclusive_max(v)
run_min[i] = group_scan_inclusive_min(v)
first[i] = group_broadcast(v, 3)
buffer[lane] = v
barrier()
turned[i] = buffer[item.get_local_range(0) - 1 - lane]"""


@pytest.mark.parametrize(("dtype", "lanes"), list(itertools.product(GROUP_TYPES, (16, 64))))
def test_group_operations(dtype: torch.dtype, lanes: int) -> None:
    groups = 5
    x = torch.randint(0, 100, (groups, lanes)).to(dtype)
    if dtype not in (torch.uint32, torch.uint64):
        x = x - 50
    names = ("add", "max_", "min_", "sum_", "before", "run_max", "run_min", "first", "turned")
    outputs = {name: torch.zeros_like(x) for name in names}
    local = {"buffer": (str(dtype)[6:], lanes)}
    run(GROUP_BODY, {"x": x, **outputs}, (groups * lanes,), (lanes,), local=local)
    wide = x.to(torch.int64)
    total = wide.sum(1, keepdim=True)
    expected = {
        "add": total.expand_as(x),
        "max_": wide.amax(1, keepdim=True).expand_as(x),
        "min_": wide.amin(1, keepdim=True).expand_as(x),
        "sum_": wide.cumsum(1),
        "before": wide.cumsum(1) - wide,
        "run_max": wide.cummax(1).values,
        "run_min": wide.cummin(1).values,
        "first": wide[:, 3:4].expand_as(x),
        "turned": wide.flip(1),
    }
    wrong = [name for name, value in expected.items() if not torch.equal(outputs[name].to(torch.int64), value)]
    assert not wrong


@pytest.mark.parametrize("dtype", FLOATS)
def test_group_maximum_and_nan(dtype: torch.dtype) -> None:
    x = torch.randn(4, 16, dtype=dtype)
    x[1, 3], x[2, 5], x[3, 0] = math.nan, math.inf, -math.inf
    outputs = {name: torch.zeros_like(x) for name in ("group_max", "group_min", "group_max_nan", "group_min_nan")}
    stores = "\n".join(f"{name}_o[i] = {name}(x[i])" for name in outputs)
    run(f"i = item.get_global_id(0)\n{stores}", {"x": x, **{f"{n}_o": t for n, t in outputs.items()}}, (64,), (16,))
    torch.testing.assert_close(outputs["group_max_nan"][:, 0], x.amax(1), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(outputs["group_min_nan"][:, 15], x.amin(1), rtol=0, atol=0, equal_nan=True)
    quiet = x.nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf)
    torch.testing.assert_close(outputs["group_max"][:, 0], quiet.amax(1), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(outputs["group_min"][:, 0], quiet.amin(1), rtol=0, atol=0, equal_nan=True)
