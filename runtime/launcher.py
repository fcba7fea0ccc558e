"""Building kernels from SPIR-V and launching them through dpctl's C interface.

A launch fills argument blocks that were allocated once and makes two foreign calls. SYCL copies the arguments while a
kernel is submitted, so a block is free again as soon as the call returns.
"""

from __future__ import annotations

import ctypes
import dataclasses
import logging
import math
import threading
from collections.abc import Sequence
from os import getpid, register_at_fork
from typing import Any

from lowering.artifacts import KernelSource, Param
from runtime.compiler import CompiledKernel
from runtime.devices import Device, mark_used
from runtime.errors import LaunchError
from runtime.libraries import import_dpctl, syclinterface

logger = logging.getLogger(__name__)

Number = int | float

# DPCTLKernelArgType in dpctl_sycl_enum_types.h
_ARGUMENT_TYPES = (
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float32", "float64"),
)
_ARGUMENT_CODES = {name: code for code, name in enumerate(_ARGUMENT_TYPES)}
_POINTER, _LOCAL = 10, 11
_SCALARS: dict[str, type[Any]] = {"int64": ctypes.c_int64, "float64": ctypes.c_double}
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


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel built for one device."""

    name: str
    device: Device
    source: KernelSource
    sycl_kernel: Any

    def bind(self) -> Launch:
        """New argument blocks for this kernel; make one per place in a plan that launches it."""
        return Launch(self)


class Launch:
    """A kernel with its argument blocks. Calls from several threads are taken one after the other."""

    def __init__(self, kernel: Kernel) -> None:
        params, ndim = kernel.source.params, kernel.source.ndim
        count = len(params)
        self.kernel = kernel
        self._device = kernel.device
        self._pid = kernel.device.pid
        self._lock = threading.Lock()
        self._values = (ctypes.c_void_p * count)()
        self._codes = (ctypes.c_int * count)()
        self._keep: list[Any] = []
        self._pointers: list[tuple[int, int]] = []  # (place in the arguments given, place in the block)
        self._scalars: list[tuple[int, Any]] = []
        for place, param in enumerate(params):
            self._add(place, param)
        self._expected = len(self._pointers) + len(self._scalars)
        self._global_size: tuple[int, ...] = ()
        self._global_range = (ctypes.c_size_t * ndim)()
        self._empty = True
        self._submit, self._arguments = self._prepare(kernel, count, ndim)
        self._delete_event = syclinterface().DPCTLEvent_Delete

    def _add(self, place: int, param: Param) -> None:
        given = len(self._pointers) + len(self._scalars)
        if param.kind == "pointer":
            self._codes[place] = _POINTER
            self._pointers.append((given, place))
            return
        cell: Any
        if param.kind == "counter":
            self._codes[place] = _POINTER
            self._keep.append(counter := ctypes.c_int64(0))
            self._values[place] = ctypes.addressof(counter)
            return
        if param.kind == "local":
            self._codes[place] = _LOCAL
            cell = _LocalAccessor(1, _ARGUMENT_CODES[param.dtype], param.extent, 1, 1)
        else:
            self._codes[place] = _ARGUMENT_CODES[param.dtype]
            cell = _SCALARS[param.dtype]()
            self._scalars.append((given, cell))
        self._keep.append(cell)
        self._values[place] = ctypes.addressof(cell)

    def _prepare(self, kernel: Kernel, count: int, ndim: int) -> tuple[Any, tuple[Any, ...]]:
        library = syclinterface()
        block = (
            kernel.sycl_kernel.addressof_ref(),
            kernel.device.queue_address,
            ctypes.addressof(self._values),
            ctypes.addressof(self._codes),
            count,
            ctypes.addressof(self._global_range),
        )
        local_size = kernel.source.local_size
        if local_size is None:
            return library.DPCTLQueue_SubmitRange, (*block, ndim, None, 0)
        # dimension 0 is the slowest for numba-dpex and the fastest for dpctl
        local_range = (ctypes.c_size_t * ndim)(*local_size[::-1])
        self._keep.append(local_range)
        return library.DPCTLQueue_SubmitNDRange, (*block, ctypes.addressof(local_range), ndim, None, 0)

    def _set_global_size(self, size: tuple[int, ...]) -> None:
        local_size = self.kernel.source.local_size
        if len(size) != self.kernel.source.ndim:
            raise LaunchError(f"kernel {self.kernel.name} has {self.kernel.source.ndim} dimensions, not {len(size)}")
        if any(not 0 <= extent < INDEX_LIMIT for extent in size):
            raise LaunchError(
                f"kernel {self.kernel.name}: a range of {size} has a dimension outside [0, {INDEX_LIMIT})"
            )
        if local_size is not None and any(extent % group for extent, group in zip(size, local_size, strict=True)):
            raise LaunchError(f"kernel {self.kernel.name}: {size} is no multiple of the work-group {local_size}")
        self._global_range[:] = list(size[::-1])
        self._empty = math.prod(size) == 0
        self._global_size = size

    def launch(self, args: Sequence[Number], global_size: tuple[int, ...]) -> None:
        """Submit the kernel; ``args`` are addresses and numbers in the order of the parameters, local memory left out.

        ``global_size`` counts work-items, slowest dimension first. A size of zero launches nothing. Returns when the
        kernel is queued: the memory must stay alive until ``Device.wait``.
        """
        if len(args) != self._expected:
            raise LaunchError(f"kernel {self.kernel.name} takes {self._expected} arguments, not {len(args)}")
        if getpid() != self._pid:
            self._device.check_process()
        with self._lock:
            if global_size != self._global_size:
                self._set_global_size(global_size)
            if self._empty:
                return
            values = self._values
            for given, place in self._pointers:
                values[place] = args[given]  # type: ignore[assignment]
            for given, cell in self._scalars:
                cell.value = args[given]
            event = self._submit(*self._arguments)
        if not event:
            self._refused()
        self._delete_event(event)

    def _refused(self) -> None:
        self._device.check_process()
        raise LaunchError(
            f"SYCL refused to launch kernel {self.kernel.name} over {self._global_size} work-items in groups of "
            f"{self.kernel.source.local_size} on {self._device.name}; the reason is on stderr."
        )


class _Built:
    """The kernels this process has built, by device and name."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kernels: dict[tuple[int, str], Kernel] = {}

    def after_fork(self) -> None:
        self.lock = threading.Lock()  # another thread may have held it; the kernels refuse to launch by themselves


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
    """Build the SPIR-V for ``device``, once per device and kernel name."""
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
    program = import_dpctl().program
    try:
        bundle = program.create_program_from_spirv(device.queue, compiled.spirv)
        if not bundle.has_sycl_kernel(compiled.entry):
            raise ValueError(f"the binary has no entry point {compiled.entry}")
        sycl_kernel = bundle.get_sycl_kernel(compiled.entry)
    except (program.SyclProgramCompilationError, ValueError) as error:
        raise LaunchError(f"the driver of {device.name} does not build kernel {source.name}: {error}") from error
    return Kernel(source.name, device, source, sycl_kernel)
