"""Kernels on ATen's threads: every work-item once, whoever runs it, and what happens where that cannot be."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from device.runtime_harness import compiler, source
from lowering.artifacts import Param
from runtime import devices, launcher, team
from runtime import share_layout as at
from runtime.errors import LaunchError
from runtime.launcher import build_kernel
from runtime.team import TeamLaunch, cut
from support import check

pytestmark = pytest.mark.device


@pytest.fixture
def threads() -> Iterator[None]:
    """Puts the number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def counting(ndim: int, local_size: tuple[int, ...] | None) -> TeamLaunch:
    """A kernel that adds one to its work-item's element."""
    which = "id" if local_size is None else "global_id"
    place = " + ".join(f"item.get_{which}({d})*s{d}" for d in range(ndim))
    params = (Param("x", "pointer", "int64"), *(Param(f"s{d}", "scalar", "int64") for d in range(ndim)))
    kernel = source(f"i = np.int64({place})\nx[i] = x[i] + 1", params, ndim, local_size)
    launch = build_kernel(devices.resolve(), compiler().submit(kernel).result(), kernel).bind()
    assert isinstance(launch, TeamLaunch)
    return launch


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("size", "local_size"),
    [
        *(((n,), None) for n in (1, 2, 3, 7, 1000)),
        ((1, 9), None), ((2, 3, 5), None), ((1, 1, 3), None), ((64, 1, 1), None),
        ((16,), (16,)), ((48,), (16,)), ((1, 64), (1, 16)), ((5, 32), (1, 32)), ((2, 3, 32), (2, 1, 16)),
    ],
)  # fmt: skip
def test_every_work_item_runs_once(size, local_size, alone, count, threads):
    torch.set_num_threads(count)
    launch, x = counting(len(size), local_size), torch.zeros(size, dtype=torch.int64)
    for _ in range(3):
        launch.launch((x.data_ptr(), *x.stride()), size, alone)
    assert torch.equal(x, torch.full(size, 3))


@pytest.mark.parametrize("threads_wanted", [1, 2, 7, 64])
@pytest.mark.parametrize("size", [(1,), (640,), (3, 32), (128, 32), (1, 1, 32), (4, 5, 64)])
@pytest.mark.parametrize("group", [None, 16])
def test_pieces_are_whole_work_groups(size, group, threads_wanted):
    local_size = None if group is None or size[-1] % group else (*(1 for _ in size[1:]), group)
    dimension, pieces, piece = cut(size, local_size, threads_wanted)
    assert pieces * piece == size[dimension] and piece == (local_size or (1,) * len(size))[dimension]
    groups = [n // m for n, m in zip(size, local_size or (1,) * len(size), strict=True)]
    assert pieces >= min(threads_wanted, max(groups))


def test_work_groups_know_their_place_in_the_whole_range():
    kernel = source(
        "i = item.get_global_id(0)*n + item.get_global_id(1)\n"
        "x[i] = work_group_1(np.int64(16)) + work_group_0(np.int64(2))*100",
        (Param("x", "pointer", "int64"), Param("n", "scalar", "int64")), 2, (2, 16),
    )  # fmt: skip
    launch = build_kernel(devices.resolve(), compiler().submit(kernel).result(), kernel).bind()
    for size in ((2, 160), (20, 16), (12, 48)):
        x = torch.zeros(size, dtype=torch.int64)
        launch.launch((x.data_ptr(), size[1]), size)
        i, j = torch.meshgrid(*map(torch.arange, size), indexing="ij")
        assert torch.equal(x, j // 16 + i // 2 * 100)


@pytest.mark.parametrize("machine_code", [True, False])
def test_an_error_of_opencl_is_raised_once(machine_code, monkeypatch):
    """The share of the second thread fails: nothing is launched twice, before and after."""
    monkeypatch.setattr(team, "_knows_python", lambda: machine_code)
    blocks: list[Any] = []
    make = TeamLaunch._laid_out

    def made(self: TeamLaunch) -> Any:
        blocks.append(make(self))
        return blocks[-1]

    monkeypatch.setattr(TeamLaunch, "_laid_out", made)
    launch, x, size = counting(1, (16,)), torch.zeros(48, dtype=torch.int64), (48,)
    args = (x.data_ptr(), 1)
    launch.launch(args, size)
    for _, words in blocks:
        count = words[at.COUNT]
        words[at.ARGUMENTS + count * at.ARGUMENT + at.SHARE + count + at.QUEUE] = 0
    x.zero_()
    with pytest.raises(LaunchError, match=r"kernel kernel_\w+ over \(48,\) .*OpenCL's error is -36"):
        launch.launch(args, size)
    assert int(x.max()) <= 1
    if machine_code:  # the other block is broken as well
        with pytest.raises(LaunchError, match="-36"):
            launch.launch(args, size)
    x.zero_()
    for _ in range(3):
        launch.launch(args, size)
    assert torch.equal(x, torch.full_like(x, 3))


@pytest.fixture
def unknown_kernels(monkeypatch):
    monkeypatch.setattr(launcher, "_built", launcher._Built())
    team.team_of.cache_clear()
    yield
    team.team_of.cache_clear()


@pytest.mark.parametrize(
    ("where", "nothing"),
    [
        ("runtime.opencl.runs_on_caller", lambda target: False),
        ("runtime.team.executable", lambda code: None),
        ("runtime.team._ATEN", "no library"),
    ],
    ids=["driver", "system", "OpenMP"],
)
def test_kernels_are_queued_where_no_team_can_run_them(where, nothing, unknown_kernels, monkeypatch):
    monkeypatch.setattr(where, nothing)
    x, w = torch.randn(64, 48), torch.randn(48, 48, requires_grad=True)
    check(lambda x, w: torch.softmax(x @ w, 1).cumsum(0) + x.mean(), x, w, rtol=1e-5, atol=1e-5)
    kernels = launcher._built.kernels.values()
    assert kernels and all(kernel.team is None for kernel in kernels)


def test_where_python_is_another_one_launches_are_python(unknown_kernels, monkeypatch):
    monkeypatch.setattr(team, "_knows_python", lambda: False)
    launch, x = counting(1, (16,)), torch.zeros(48, dtype=torch.int64)
    assert isinstance(launch.launch, types.FunctionType)
    launch.launch((x.data_ptr(), 1), (48,))
    assert torch.equal(x, torch.ones_like(x))


class TestMachineCode:
    """What the function of machine code leaves to Python, and what it does itself."""

    @pytest.fixture
    def launch(self):
        found = counting(1, (16,)).launch
        assert isinstance(found, types.BuiltinFunctionType)
        return found

    @pytest.fixture
    def x(self):
        return torch.zeros(48, dtype=torch.int64)

    def test_ways_to_call_it(self, launch, x):
        size, args = (48,), (x.data_ptr(), 1)
        launch(args, size)
        launch(args, size, True)
        launch(args, size, alone=True)
        launch(args, size, alone=False)
        launch(args, global_size=size)
        launch(args=args, global_size=size)
        launch([*args], [*size])
        launch(args, (32 + 16,))
        launch((x.data_ptr(), True), size)
        assert torch.equal(x, torch.full_like(x, 9))

    def test_wrong_calls_raise_and_leave_it_usable(self, launch, x):
        size, args = (48,), (x.data_ptr(), 1)
        launch(args, size)
        wrong_args: tuple[Any, ...] = (
            *((), args[:1], (*args, 2), (None, 1), (1.5, 1), ("", 1), (2**64, 1), (-8, 1), (x.data_ptr(), 2**63)),
        )
        for wrong in wrong_args:
            with pytest.raises(LaunchError, match="does not take the arguments"):
                launch(wrong, size)
        for wrong_size in (None, 48, (48.0,), ("48",), (None,)):
            with pytest.raises(LaunchError, match="is no range"):
                launch(args, wrong_size)
        for call in (
            launch,
            functools.partial(launch, args),
            functools.partial(launch, args, size, True, 1),
            functools.partial(launch, args, size, nonsense=True),
            functools.partial(launch, args, size, True, alone=True),
            functools.partial(launch, args, size, alone=True, nonsense=True),
        ):
            with pytest.raises(TypeError):
                call()
        launch(args, size)
        assert torch.equal(x, torch.full_like(x, 2))

    def test_a_conversion_that_launches(self, launch, x):
        size, y = (48,), torch.zeros_like(x)
        launch((x.data_ptr(), 1), size)

        class One:
            def __index__(self):
                launch((y.data_ptr(), 1), size)
                return 1

        launch((x.data_ptr(), One()), size)
        assert x.unique().tolist() == [2] and y.unique().tolist() == [1]

    def test_arguments_that_change_are_set_anew(self, launch):
        tensors = [torch.zeros(48, dtype=torch.int64) for _ in range(3)]
        for tensor in (*tensors, *tensors[:2], tensors[0], tensors[0]):
            launch((tensor.data_ptr(), 1), (48,))
        assert [t.unique().tolist() for t in tensors] == [[4], [2], [1]]

    def test_no_object_is_kept_or_lost(self, launch, x):
        size, args = (48,), (x.data_ptr(), 1)
        launch(args, size)
        before = [sys.getrefcount(thing) for thing in (size, args, None)]
        for _ in range(1000):
            assert launch(args, size) is None
        after = [sys.getrefcount(thing) for thing in (size, args, None)]
        assert all(abs(a - b) < 50 for a, b in zip(before, after, strict=True))

    def test_it_goes_with_its_memory_and_its_kernels(self, monkeypatch):
        released: list[int] = []
        monkeypatch.setattr("runtime.opencl.release_kernel", released.append)
        launch, x = counting(1, (16,)), torch.zeros(48, dtype=torch.int64)
        launch.launch((x.data_ptr(), 1), (48,))
        del launch
        gc.collect()
        assert len(set(released)) == len(released) == 2 * devices.resolve().traits.compute_units
