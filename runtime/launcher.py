"""Kernels of a device: built once from machine code or SPIR-V, and bound wherever they are launched."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
from collections.abc import Callable, Sequence
from os import register_at_fork
from typing import Any

from lowering.artifacts import KernelSource
from runtime import native
from runtime.compiler import CompiledKernel
from runtime.devices import Device, mark_used
from runtime.errors import LaunchError
from runtime.launch import Launch, QueuedLaunch
from runtime.libraries import import_dpctl
from runtime.team import Team, TeamLaunch, team_of


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel built for one device. ``program`` is the handle of an OpenCL program that lives as long as this process;
    None where the kernel was built from SPIR-V, as ``bundled``."""

    name: str
    device: Device
    source: KernelSource
    compiled: CompiledKernel
    program: int | None
    bundled: Any = None

    @functools.cached_property
    def address(self) -> int:
        """Of a ``sycl::kernel``, made when it is first asked for."""
        if self.program is None:
            return int(self.bundled.addressof_ref())
        return native.sycl_kernel(self.device, self.program, self.compiled.entry)

    @functools.cached_property
    def team(self) -> Team | None:
        """The threads that can run it; None if there are none."""
        return team_of(self.device, self.compiled.share_out) if self.program is not None else None

    def bind(self, by_team: bool = True) -> Launch:
        """New argument blocks for this kernel; make one per place in a plan that launches it. With ``by_team``, its
        launches are done when they return if it has a team; others are queued."""
        if self.team is None or not by_team:
            return self.by_queue()
        assert self.program is not None
        return TeamLaunch(self.source, self.device, self.team, self.program, self.compiled)

    def by_queue(self, submitted: Callable[[int], None] | None = None) -> QueuedLaunch:
        """Launches that return when they are queued; ``submitted`` is given the address of each one's event, and owns
        it."""
        return QueuedLaunch(self.source, self.device, self.address, self.bundled, submitted)


def have_team(kernels: Sequence[Kernel]) -> bool:
    """Whether a team runs ``kernels``: all of them, as those of a queue are not done when the next one starts."""
    return bool(kernels) and all(kernel.team is not None for kernel in kernels)


def bind_all(kernels: Sequence[Kernel]) -> list[Launch]:
    """Launches of kernels that read what others of them write."""
    together = have_team(kernels)
    return [kernel.bind(together) for kernel in kernels]


class _Built:
    """The kernels this process has built, by device and name."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kernels: dict[tuple[int, str], Kernel] = {}

    def after_fork(self) -> None:
        self.lock = threading.Lock()  # another thread may have held it; the kernels refuse to launch by themselves


_built = _Built()
register_at_fork(after_in_child=_built.after_fork)


def _check_limits(device: Device, source: KernelSource) -> None:
    traits = device.traits
    if 8 * len(source.params) > traits.max_parameter_size:
        raise LaunchError(
            f"kernel {source.name} has {len(source.params)} parameters; "
            f"{device.name} takes {traits.max_parameter_size // 8}"
        )
    group = math.prod(source.local_size or (1,))
    if group > traits.max_work_group_size:
        raise LaunchError(
            f"kernel {source.name}: work-groups of {group}; {device.name} allows {traits.max_work_group_size}"
        )
    memory = sum(param.nbytes for param in source.params if param.kind == "local")
    if memory > traits.local_memory_size:
        raise LaunchError(
            f"kernel {source.name} needs {memory} bytes of local memory; {device.name} has {traits.local_memory_size}"
        )


def build_kernel(device: Device, compiled: CompiledKernel, source: KernelSource) -> Kernel:
    """Make ``compiled`` a kernel of ``device``, from machine code or SPIR-V, once per device and kernel name."""
    key = (device.queue_address, source.name)
    with _built.lock:  # two builds at once in one process are slower than one after the other
        kernel = _built.kernels.get(key)
        if kernel is None:
            kernel = _built.kernels[key] = _build(device, compiled, source)
        return kernel


def _build(device: Device, compiled: CompiledKernel, source: KernelSource) -> Kernel:
    device.check_process()
    _check_limits(device, source)
    mark_used()
    program = native.load_program(device, compiled)
    kept = dataclasses.replace(compiled, spirv=b"", llvm="", native=b"")  # what is left is small
    if program is not None:
        return Kernel(source.name, device, source, kept, program)
    dpctl_program = import_dpctl().program
    try:
        bundle = dpctl_program.create_program_from_spirv(device.queue, compiled.spirv)
        if not bundle.has_sycl_kernel(compiled.entry):
            raise ValueError(f"the binary has no entry point {compiled.entry}")
        bundled = bundle.get_sycl_kernel(compiled.entry)
    except (dpctl_program.SyclProgramCompilationError, ValueError) as error:
        raise LaunchError(f"the driver of {device.name} does not build kernel {source.name}: {error}") from error
    return Kernel(source.name, device, source, kept, None, bundled)
