"""What a generated wrapper calls: its kernels' compilation, their launches, and the waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch._dynamo.utils import dynamo_timed

from aten_backend.loop_level.switch import chosen_options
from aten_backend.pipeline import compiler_for
from lowering.artifacts import KernelSource, Param
from runtime import devices
from runtime.devices import Device
from runtime.errors import DeviceNotFoundError
from runtime.executor import waiting
from runtime.launch_plan import check_error, no_error
from runtime.launcher import bind_all, build_kernel


def _addressing_host_memory(device: Device) -> Device:
    """``device``, unless its kernels cannot read tensors where Inductor's wrapper has them."""
    if not device.traits.shared_system_usm:
        raise DeviceNotFoundError(
            f"{device.name} cannot address the host's memory (it has no shared system USM), and xpu_inductor does not "
            "stage tensors as xpu_aten does. Use the option device='cpu', or backend='xpu_aten'."
        )
    return device


Param4 = tuple[str, Any, str, int]


class Definition:
    """A kernel that is being compiled."""

    def __init__(self, source: KernelSource, future: Any) -> None:
        self.source, self.future = source, future


class Kernels:
    """The kernels of one wrapper module, on one device."""

    def __init__(self, device: str) -> None:
        self._filter = device
        self._device: Any = None
        self._wait: Callable[[], None] = waiting((), None)
        self._cells = threading.local()

    def define(
        self, name: str, params: Sequence[Param4], ndim: int, local_size: tuple[int, ...] | None, text: str
    ) -> Definition:
        """Start to compile a kernel."""
        source = KernelSource(name, text.strip() + "\n", tuple(Param(*p) for p in params), ndim, local_size)
        return Definition(source, compiler_for(chosen_options()).submit(source))

    def ready(self, names: dict[str, Any]) -> None:
        """Wait for the kernels defined in a module, and put their launches in their places.

        Raises the named errors of the compiler and of the device.
        """
        defined = {name: value for name, value in names.items() if isinstance(value, Definition)}
        if defined:
            self._device = _addressing_host_memory(devices.resolve(self._filter))
        with dynamo_timed("async_compile.wait"):  # torch's name for it, by which compile times are told apart
            kernels = [build_kernel(self._device, d.future.result(), d.source) for d in defined.values()]
        self._wait = waiting(kernels, self._device)
        names.update(zip(defined, (launch.launch for launch in bind_all(kernels)), strict=True))

    def noting(self, checks: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
        """For a kernel that makes ``checks`` (code, dimension, size): the address where kernels of this thread report
        what failed, and the number of the first of its checks."""
        cell = getattr(self._cells, "cell", None)
        if cell is None:
            cell = self._cells.cell = no_error()
            self._cells.checks = []
        first = len(self._cells.checks) + 1
        self._cells.checks += checks
        return int(cell.data_ptr()), first

    def wait(self) -> None:
        """Wait for all kernels; raise what they report, as eager would."""
        self._wait()
        cell = getattr(self._cells, "cell", None)
        if cell is not None:
            self._cells.cell = None
            check_error(cell, self._cells.checks)
