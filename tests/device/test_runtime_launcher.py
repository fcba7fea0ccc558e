"""Launching: arguments, ranges, errors, threads, forks, and devices."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import pytest
import torch

from device.runtime_harness import compiler, run, source
from lowering.artifacts import Param
from runtime import devices, opencl
from runtime.compiler import CompiledKernel
from runtime.errors import DeviceNotFoundError, LaunchError
from runtime.launch import Launch
from runtime.launcher import _build, build_kernel
from runtime.native import load_program
from runtime.team import TeamLaunch

pytestmark = pytest.mark.device
ROOT = pathlib.Path(__file__).parents[2]


class Bind:
    """Makes launches, all of one kind."""

    def __init__(self, by_team: bool) -> None:
        self.by_team = by_team

    def __call__(
        self, body: str, params: tuple[Param, ...], ndim: int = 1, local_size: tuple[int, ...] | None = None
    ) -> Launch:
        kernel = source(body, params, ndim, local_size)
        launch = build_kernel(devices.resolve(), compiler().submit(kernel).result(), kernel).bind(self.by_team)
        assert isinstance(launch, TeamLaunch) is self.by_team
        return launch


@pytest.fixture(params=[True, False], ids=["team", "queue"])
def bound(request: pytest.FixtureRequest) -> Bind:
    return Bind(request.param)


ADD = (Param("x", "pointer", "float32"), Param("a", "scalar", "float64"), Param("n", "scalar", "int64"))
ADD_BODY = "i = item.get_id(0)\nx[i] = x[i] + cast_float32(a) + cast_float32(n)"


def test_arguments_and_sizes_may_change_from_launch_to_launch(bound: Bind) -> None:
    launch = bound(ADD_BODY, ADD)
    tensors = [torch.zeros(size) for size in (5, 7, 5)]
    for number, tensor in enumerate(tensors):
        launch.launch((tensor.data_ptr(), number + 0.5, 2**31), (tensor.numel(),))
    devices.resolve().wait()
    for number, tensor in enumerate(tensors):
        assert torch.equal(tensor, torch.full_like(tensor, 2.0**31 + number + 0.5))


def test_dimension_zero_is_the_slowest() -> None:
    shape = (3, 4, 5)
    out = torch.zeros(shape, dtype=torch.int64)
    ids = "item.get_id(0) * 100 + item.get_id(1) * 10 + item.get_id(2)"
    run(f"out[(item.get_id(0) * 4 + item.get_id(1)) * 5 + item.get_id(2)] = {ids}", {"out": out}, shape)
    i, j, k = torch.meshgrid(*map(torch.arange, shape), indexing="ij")
    assert torch.equal(out, i * 100 + j * 10 + k)


def test_dimensions_of_an_nd_range() -> None:
    out = torch.zeros((4, 32), dtype=torch.int64)
    body = """i = item.get_global_id(0)
j = item.get_global_id(1)
out[i * 32 + j] = work_group_0(np.int64(2)) * 1000 + work_group_1(np.int64(16)) * 100 + item.get_local_id(1)"""
    run(body, {"out": out}, (4, 32), (2, 16))
    i, j = torch.meshgrid(torch.arange(4), torch.arange(32), indexing="ij")
    assert torch.equal(out, i // 2 * 1000 + j // 16 * 100 + j % 16)


def test_empty_range_launches_nothing(bound: Bind) -> None:
    launch = bound(ADD_BODY, ADD)
    x = torch.zeros(4)
    launch.launch((x.data_ptr(), 1.0, 0), (0,))
    launch.launch((0, 1.0, 0), (0,))
    launch.launch((x.data_ptr(), 1.0, 0), (4,))
    devices.resolve().wait()
    assert torch.equal(x, torch.ones(4))


def test_kernels_without_memory_or_parameters(bound: Bind) -> None:
    bound("pass", ()).launch((), (8,))
    bound("a = n + 1", (Param("n", "scalar", "int64"),)).launch((3,), (8,))
    bound("item.get_local_id(0)", (), 1, (8,)).launch((), (16,))
    devices.resolve().wait()


@pytest.mark.parametrize(
    ("args", "size"), [((0, 0.0), (1,)), ((0, 0.0, 0, 0), (1,)), ((0, 0.0, 0), (1, 1)), ((0, 0.0, 0), (2**31,))]
)
def test_wrong_calls_are_refused(bound: Bind, args: tuple[int | float, ...], size: tuple[int, ...]) -> None:
    launch = bound(ADD_BODY, ADD)
    with pytest.raises(LaunchError, match=launch.source.name):
        launch.launch(args, size)


def test_impossible_work_groups_are_refused(bound: Bind) -> None:
    launch = bound("x[item.get_global_id(0)] = np.float32(1)", ADD[:1], 1, (16,))
    with pytest.raises(LaunchError, match="multiple"):
        launch.launch((0,), (17,))
    with pytest.raises(LaunchError, match="work-groups of"):
        bound("x[item.get_global_id(0)] = np.float32(2)", ADD[:1], 1, (1 << 20,))
    with pytest.raises(LaunchError, match="local memory"):
        bound("b[0] = x[0]\nx[0] = b[1]", (ADD[0], Param("b", "local", "float32", 1 << 20)), 1, (16,))


def test_binary_that_the_driver_refuses() -> None:
    kernel = source("x[item.get_id(0)] = np.float32(77)", ADD[:1])
    with pytest.raises(LaunchError, match=kernel.name):
        build_kernel(devices.resolve(), CompiledKernel(kernel.name, "entry", b"\0" * 64, ""), kernel)
    good = compiler().submit(kernel).result()
    with pytest.raises(LaunchError, match=kernel.name):
        build_kernel(devices.resolve(), dataclasses.replace(good, entry="no_such_entry"), kernel)
    target = opencl.open_cpu()
    assert target is not None
    with pytest.raises(opencl.OpenCLError):
        opencl.compile_spirv(target, b"\0" * 64)


@pytest.mark.parametrize(
    ("changed", "from_machine_code", "warning"),
    [
        ({}, True, ""),
        ({"native": b""}, False, ""),
        ({"fits": "another processor"}, False, ""),
        ({"native": b"no machine code"}, False, "is refused"),
    ],
)
def test_machine_code_runs_where_it_fits(
    changed: dict[str, Any], from_machine_code: bool, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = source("x[item.get_id(0)] = np.float32(78)", ADD[:1])
    compiled = dataclasses.replace(compiler().submit(kernel).result(), **changed)
    device = devices.resolve()
    assert (load_program(device, compiled) is not None) is from_machine_code
    assert warning in caplog.text and bool(warning) is bool(caplog.text)
    x = torch.zeros(5)
    _build(device, compiled, kernel).bind().launch((x.data_ptr(),), (5,))
    device.wait()
    assert x.tolist() == [78] * 5


def test_kernels_are_built_once() -> None:
    kernel = source(ADD_BODY, ADD)
    compiled = compiler().submit(kernel).result()
    assert build_kernel(devices.resolve(), compiled, kernel) is build_kernel(devices.resolve("cpu"), compiled, kernel)


def test_threads_share_a_launch(bound: Bind) -> None:
    launch = bound(ADD_BODY, ADD)
    tensors = [torch.zeros(64) for _ in range(8)]

    def add(number: int) -> None:
        for _ in range(200):
            launch.launch((tensors[number].data_ptr(), float(number), 0), (64,))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    devices.resolve().wait()
    assert [tensor.unique().tolist() for tensor in tensors] == [[200.0 * number] for number in range(8)]


def test_devices() -> None:
    device = devices.resolve("auto")
    assert device is devices.resolve("cpu") is devices.resolve(device.filter)
    assert device.traits.is_cpu and device.traits.shared_system_usm and device.traits.compute_units >= 1
    with pytest.raises(DeviceNotFoundError, match=device.filter):
        devices.resolve("level_zero:gpu:7")
    with pytest.raises(DeviceNotFoundError, match="nonsense"):
        devices.resolve("nonsense")


HOSTILE = """
import sys
sys.path[:0] = [{root!r}, {root!r} + "/tests"]
import torch
from device.runtime_harness import run
x = torch.zeros(4)
run("x[item.get_id(0)] = exp(x[item.get_id(0)])", {{"x": x}}, (4,))
assert x.sum().item() == 4
"""


def test_foreign_oneapi_libraries_on_the_library_path(tmp_path: pathlib.Path) -> None:
    for name in ("libsycl.so.7", "libtbb.so.12", "libOpenCL.so.1", "libsvml.so", "libintlc.so.5", "libpi_opencl.so"):
        (tmp_path / name).write_text("not a library")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "ONEAPI_ROOT": "/nonexistent"}
    command = [sys.executable, "-c", HOSTILE.format(root=str(ROOT))]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


FORK = """
import os, sys
sys.path[:0] = [{root!r}, {root!r} + "/tests"]
import torch
from device.runtime_harness import run
from runtime import devices
from runtime.errors import LaunchError
def use():
    x = torch.zeros(4)
    run("x[item.get_id(0)] = np.float32(1)", {{"x": x}}, (4,))
    return x.sum().item()
{before}
if (child := os.fork()) == 0:
    {inside}
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert use() == 4
"""
WORKS = "assert use() == 4"
FAILS = """try:
        use()
    except LaunchError as error:
        assert "spawn" in str(error)
    else:
        os._exit(1)"""


@pytest.mark.parametrize(("before", "inside"), [("", WORKS), ("devices.resolve()", WORKS), ("use()", FAILS)])
def test_fork(before: str, inside: str) -> None:
    text = textwrap.dedent(FORK.format(root=str(ROOT), before=before, inside=inside))
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, check=False, text=True, timeout=60, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr) == (0, "")
