"""Building kernels from SPIR-V and launching them through dpctl's C interface.

A launch fills argument blocks that were allocated once and makes two foreign calls. SYCL copies the arguments while a
kernel is submitted, so a block is free again as soon as the call returns.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import logging
import math
import threading
import types
from collections.abc import Callable
from os import register_at_fork
from typing import Any

from lowering.artifacts import KernelSource, Param
from runtime.compiler import CompiledKernel
from runtime.devices import Device, mark_used
from runtime.errors import LaunchError
from runtime.libraries import import_dpctl, syclinterface
from runtime.native import load_kernel

logger = logging.getLogger(__name__)

Number = int | float
LaunchFunction = Callable[[tuple[Number, ...], tuple[int, ...]], None]

# DPCTLKernelArgType in dpctl_sycl_enum_types.h
_ARGUMENT_TYPES = (
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float32", "float64"),
)
_ARGUMENT_CODES = {name: code for code, name in enumerate(_ARGUMENT_TYPES)}
_POINTER, _LOCAL = 10, 11
_WITH_CELL = ("scalar", "counter")
_CELLS = {"int64": "integers", "float64": "floats"}
_ITEM_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}

# numba-dpex tells LLVM that every index is below this, so larger ranges would be miscompiled.
INDEX_LIMIT = 2**31


class _LocalAccessor(ctypes.Structure):
    """``MDLocalAccessor`` of dpctl's queue interface."""

    _fields_ = [
        ("ndim", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("dim0", ctypes.c_size_t),
        ("dim1", ctypes.c_size_t),
        ("dim2", ctypes.c_size_t),
    ]


def _code(param: Param) -> int:
    fixed = {"pointer": _POINTER, "counter": _POINTER, "local": _LOCAL}
    return fixed[param.kind] if param.kind in fixed else _ARGUMENT_CODES[param.dtype]


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel built for one device."""

    name: str
    device: Device
    source: KernelSource
    address: int
    """Of a ``sycl::kernel``."""
    owner: Any = None
    """What keeps it alive; None if that is the process."""

    def bind(self, submitted: Callable[[int], None] | None = None) -> Launch:
        """New argument blocks for this kernel; make one per place in a plan that launches it. ``submitted`` is given
        the address of each launch's event, and owns it."""
        return Launch(self, submitted)


_LAUNCH = """
def launch(args, global_size):
    if built.forked:
        check_process()
    try:
        block = take_block()
    except IndexError:  # other threads have them all
        block = new_block()
    addresses, integers, floats, arguments, current = block
    try:
        {targets} = args
    except (TypeError, ValueError) as error:
        raise miscalled(args, error) from error
    if global_size is not current and global_size != current and not resize(block, global_size):
        return_block(block)
        return
    event = submit(*arguments)
    return_block(block)
    if not event:
        refused(global_size)
    delete_event(event)
"""
"""What a launch does. Written out for each list of parameters, with everything in reach as a global, without a lock
and without asking the system for the process's id: each of these takes a noticeable part of the time that SYCL takes
(`benchmarks/launch.py`)."""


@functools.cache
def _launch_code(targets: str) -> types.CodeType:
    return compile(_LAUNCH.format(targets=targets), "<xpu_aten launch>", "exec")


class Launch:
    """A kernel with argument blocks, one for each thread that launches it at the same time.

    ``launch(args, global_size)`` submits the kernel. ``args`` is a tuple of addresses and numbers in the order of the
    parameters, local memory left out; ``global_size`` counts work-items, slowest dimension first, and a size of zero
    launches nothing. It returns when the kernel is queued: the memory must stay alive until ``Device.wait``.
    """

    def __init__(self, kernel: Kernel, submitted: Callable[[int], None] | None = None) -> None:
        self.kernel = kernel
        params, local_size = kernel.source.params, kernel.source.local_size
        self._codes = (ctypes.c_int * len(params))(*map(_code, params))
        self._accessors = [
            _LocalAccessor(1, _ARGUMENT_CODES[param.dtype], param.extent, 1, 1)
            for param in params
            if param.kind == "local"
        ]
        # dimension 0 is the slowest for numba-dpex and the fastest for dpctl
        self._local_range = (ctypes.c_size_t * kernel.source.ndim)(*(local_size or ())[::-1])
        self._counters: list[Any] = []  # keeps those alive that the device shares with the host
        library, flat = syclinterface(), local_size is None
        blocks = [self._new_block()]
        scope = {
            "built": _built,
            "check_process": kernel.device.check_process,
            "take_block": blocks.pop,
            "return_block": blocks.append,
            "new_block": self._new_block,
            "resize": self._resize,
            "miscalled": self._miscalled,
            "refused": self._refused,
            "submit": library.DPCTLQueue_SubmitRange if flat else library.DPCTLQueue_SubmitNDRange,
            "delete_event": submitted or library.DPCTLEvent_Delete,
        }
        exec(_launch_code(self._targets()), scope)
        self.launch: LaunchFunction = scope["launch"]  # type: ignore[assignment]

    def _targets(self) -> str:
        """Where the arguments go in a block: addresses by the parameter's place, scalars into their cells."""
        params = self.kernel.source.params
        cell = len(params)
        targets = []
        for place, param in enumerate(params):
            if param.kind == "pointer":
                targets.append(f"addresses[{place}], ")
            elif param.kind == "scalar":
                targets.append(f"{_CELLS[param.dtype]}[{cell}], ")
            cell += param.kind in _WITH_CELL
        return "".join(targets) or "()"

    def _new_block(self) -> list[Any]:
        """One memory seen as addresses, integers and floats; what is submitted from it; the range that is set.

        The memory has a pointer for each parameter, then the cells of scalars and counters, then the range.
        """
        params, ndim = self.kernel.source.params, self.kernel.source.ndim
        cells = sum(param.kind in _WITH_CELL for param in params)
        memory = (ctypes.c_uint64 * (len(params) + cells + ndim))()
        cell = ctypes.addressof(memory) + len(params) * ctypes.sizeof(ctypes.c_uint64)
        accessors = iter(self._accessors)
        for place, param in enumerate(params):
            if param.kind in _WITH_CELL:
                memory[place] = cell if param.kind == "scalar" else self._counter(cell)
                cell += ctypes.sizeof(ctypes.c_uint64)
            elif param.kind == "local":
                memory[place] = ctypes.addressof(next(accessors))
        content = memoryview(memory).cast("B")
        submission = self._submission(ctypes.addressof(memory), global_range=cell)
        return [content.cast("Q"), content.cast("q"), content.cast("d"), submission, ()]

    def _counter(self, cell: int) -> int:
        """Where a counter is: in its cell, unless the device cannot address that."""
        device = self.kernel.device
        if device.traits.shared_system_usm:
            return cell
        self._counters.append(memory := import_dpctl().memory.MemoryUSMShared(8, queue=device.queue))
        memory.copy_from_host(bytes(8))
        return int(memory._pointer)

    def _submission(self, memory: int, global_range: int) -> tuple[Any, ...]:
        """The arguments of dpctl's function: C values made once, as their conversion takes longer than all of ours."""
        kernel, ranges = self.kernel, [ctypes.c_void_p(global_range)]
        if kernel.source.local_size is not None:
            ranges.append(ctypes.c_void_p(ctypes.addressof(self._local_range)))
        return (
            ctypes.c_void_p(kernel.address),
            ctypes.c_void_p(kernel.device.queue_address),
            ctypes.c_void_p(memory),
            ctypes.c_void_p(ctypes.addressof(self._codes)),
            ctypes.c_size_t(len(self._codes)),
            *ranges,
            ctypes.c_size_t(kernel.source.ndim),
            *(ctypes.c_void_p(), ctypes.c_size_t(0)),  # no events to wait for: the queue is in order
        )

    def _resize(self, block: list[Any], size: tuple[int, ...]) -> bool:
        """Set a block's range; False if there is nothing to launch."""
        local_size = self.kernel.source.local_size
        if len(size) != self.kernel.source.ndim:
            raise LaunchError(f"kernel {self.kernel.name} has {self.kernel.source.ndim} dimensions, not {len(size)}")
        if any(not 0 <= extent < INDEX_LIMIT for extent in size):
            raise LaunchError(
                f"kernel {self.kernel.name}: a range of {size} has a dimension outside [0, {INDEX_LIMIT})"
            )
        if local_size is not None and any(extent % group for extent, group in zip(size, local_size, strict=True)):
            raise LaunchError(f"kernel {self.kernel.name}: {size} is no multiple of the work-group {local_size}")
        addresses = block[0]
        for place, extent in enumerate(reversed(size), start=len(addresses) - len(size)):
            addresses[place] = extent
        block[-1] = () if 0 in size else size
        return 0 not in size

    def _miscalled(self, args: tuple[Number, ...], reason: object) -> LaunchError:
        return LaunchError(f"kernel {self.kernel.name} does not take the arguments {args}: {reason}")

    def _refused(self, size: tuple[int, ...]) -> None:
        self.kernel.device.check_process()
        raise LaunchError(
            f"SYCL refused to launch kernel {self.kernel.name} over {size} work-items in groups of "
            f"{self.kernel.source.local_size} on {self.kernel.device.name}; the reason is on stderr."
        )


class _Built:
    """The kernels this process has built, by device and name."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kernels: dict[tuple[int, str], Kernel] = {}
        self.forked = False
        """Whether this process is a child of one that may have built some of them."""

    def after_fork(self) -> None:
        self.lock = threading.Lock()  # another thread may have held it; the kernels refuse to launch by themselves
        self.forked = True


_built = _Built()
register_at_fork(after_in_child=_built.after_fork)


def _item_size(dtype: str) -> int:
    return _ITEM_SIZES[dtype.lstrip("abcdefghijklmnopqrstuvwxyz")]


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
    memory = sum(param.extent * _item_size(param.dtype) for param in source.params if param.kind == "local")
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
    address = load_kernel(device, compiled)
    if address is not None:
        return Kernel(source.name, device, source, address)
    program = import_dpctl().program
    try:
        bundle = program.create_program_from_spirv(device.queue, compiled.spirv)
        if not bundle.has_sycl_kernel(compiled.entry):
            raise ValueError(f"the binary has no entry point {compiled.entry}")
        sycl_kernel = bundle.get_sycl_kernel(compiled.entry)
    except (program.SyclProgramCompilationError, ValueError) as error:
        raise LaunchError(f"the driver of {device.name} does not build kernel {source.name}: {error}") from error
    return Kernel(source.name, device, source, sycl_kernel.addressof_ref(), sycl_kernel)
