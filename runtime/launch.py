"""Launching a kernel: argument blocks that are filled, and foreign calls.

A launch fills an argument block that was allocated once, one for each thread that launches the kernel at the same time.
``Launch`` is what every way to launch shares; ``QueuedLaunch`` submits to a SYCL queue through dpctl's C interface,
``team.TeamLaunch`` has ATen's threads run the kernel.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import types
from collections.abc import Callable
from os import register_at_fork
from typing import Any, Protocol

from lowering.artifacts import KernelSource, Param
from runtime.devices import Device
from runtime.errors import LaunchError
from runtime.libraries import import_dpctl, syclinterface

Number = int | float

INDEX_LIMIT = 2**31
"""numba-dpex tells LLVM that every index is below this, so larger ranges would be miscompiled."""

WORD = 8
"""Bytes of an address, of an int64 and of a float64, which is all that arguments are."""


class LaunchFunction(Protocol):
    """``args`` is a tuple of addresses and numbers in the order of the parameters, local memory left out;
    ``global_size`` counts work-items, slowest dimension first, and a size of zero launches nothing. ``alone``: the
    kernel is too small to be worth more than one thread."""

    def __call__(self, args: tuple[Number, ...], global_size: tuple[int, ...], alone: bool = False) -> None: ...


# DPCTLKernelArgType in dpctl_sycl_enum_types.h
_ARGUMENT_TYPES = (
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float32", "float64"),
)
_ARGUMENT_CODES = {name: code for code, name in enumerate(_ARGUMENT_TYPES)}
_POINTER, _LOCAL = 10, 11
_CELLS = {"int64": "integers", "float64": "floats"}


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


forked = ctypes.c_uint64(0)
"""Not 0 in a forked child of a process that may have built kernels."""


def _after_fork() -> None:
    forked.value = 1


register_at_fork(after_in_child=_after_fork)


_LAUNCH = """
def launch(args, global_size, alone=False):
    if forked.value:
        check_process()
    try:
        block = take_block()
    except IndexError:  # other threads have them all
        block = new_block()
    words, integers, floats, arguments, current = block
    try:
        {targets} = args
    except (TypeError, ValueError) as error:
        raise miscalled(args, error) from error
    if global_size is not current and global_size != current and not resize(block, global_size):
        return_block(block)
        return
    {submission}
"""
"""What a launch does. Written out for each list of parameters, with everything in reach as a global, without a lock
and without asking the system for the process's id: each of these takes a noticeable part of the time that the foreign
calls take (`benchmarks/launch.py`)."""


@functools.cache
def _launch_code(targets: str, submission: str) -> types.CodeType:
    text = _LAUNCH.format(targets=targets, submission=submission.strip().replace("\n", "\n    "))
    return compile(text, "<xpu_aten launch>", "exec")


class Launch:
    """A kernel with argument blocks. ``launch`` is a LaunchFunction, raises LaunchError, and needs the memory that it
    is given alive until the device has been waited for."""

    SUBMISSION: str
    """What is done with a filled block, as text that ends with giving the block back."""

    def __init__(self, source: KernelSource, device: Device) -> None:
        self.source, self.device = source, device
        blocks = [self.new_block()]
        scope = {
            "forked": forked,
            "check_process": device.check_process,
            "take_block": blocks.pop,
            "return_block": blocks.append,
            "new_block": self.new_block,
            "resize": self.resize,
            "miscalled": self._miscalled,
            "refused": self.refused,
            **self.names(),
        }
        exec(_launch_code(self._targets(), self.SUBMISSION), scope)
        self.launch: LaunchFunction = scope["launch"]

    def names(self) -> dict[str, Any]:
        """What SUBMISSION uses beside the block's parts."""
        raise NotImplementedError

    def cell(self, place: int) -> int:
        """The word of a block that takes argument ``place``."""
        raise NotImplementedError

    def set_range(self, words: Any, size: tuple[int, ...]) -> None:
        """Write a range that is not empty into a block's words."""
        raise NotImplementedError

    def new_block(self) -> list[Any]:
        """A new argument block: one memory seen as addresses, as integers and as floats; what else SUBMISSION needs;
        the range that is set."""
        raise NotImplementedError

    def _targets(self) -> str:
        """Where the arguments go in a block."""
        targets = []
        for place, param in enumerate(self.source.params):
            if param.kind in ("pointer", "scalar"):
                view = "words" if param.kind == "pointer" else _CELLS[param.dtype]
                targets.append(f"{view}[{self.cell(place)}], ")
        return "".join(targets) or "()"

    def resize(self, block: list[Any], given: tuple[int, ...]) -> bool:
        """Set a block's range; False if there is nothing to launch."""
        name, local_size = self.source.name, self.source.local_size
        try:
            size = tuple(map(operator.index, given))
        except TypeError as error:
            raise LaunchError(f"kernel {name}: {given!r} is no range: {error}") from error
        if len(size) != self.source.ndim:
            raise LaunchError(f"kernel {name} has {self.source.ndim} dimensions, not {len(size)}")
        if any(not 0 <= extent < INDEX_LIMIT for extent in size):
            raise LaunchError(f"kernel {name}: a range of {size} has a dimension outside [0, {INDEX_LIMIT})")
        if local_size is not None and any(extent % group for extent, group in zip(size, local_size, strict=True)):
            raise LaunchError(f"kernel {name}: {size} is no multiple of the work-group {local_size}")
        if 0 in size:
            block[-1] = ()
            return False
        size = given if type(given) is tuple else size  # the same object again is not looked at
        self.set_range(block[0], size)
        block[-1] = size
        return True

    def _miscalled(self, args: tuple[Number, ...], reason: object) -> LaunchError:
        return LaunchError(f"kernel {self.source.name} does not take the arguments {args}: {reason}")

    def refused(self, size: tuple[int, ...], reason: str = "the reason is on stderr") -> LaunchError:
        """The error for a launch that the driver does not take."""
        self.device.check_process()
        return LaunchError(
            f"the driver refused to launch kernel {self.source.name} over {size} work-items in groups of "
            f"{self.source.local_size} on {self.device.name}; {reason}."
        )


def seen(words: Any) -> list[Any]:
    """One ctypes array of words as addresses, as integers and as floats."""
    content = memoryview(words).cast("B")
    return [content.cast("Q"), content.cast("q"), content.cast("d")]


class QueuedLaunch(Launch):
    """Launches by submitting to the device's queue. They return when the kernel is queued: SYCL copies the arguments
    meanwhile, so that a block is free again as soon as the call returns."""

    SUBMISSION = """
event = submit(*arguments)
return_block(block)
if not event:
    raise refused(global_size)
delete_event(event)
"""

    def __init__(
        self,
        source: KernelSource,
        device: Device,
        address: int,
        owner: Any = None,
        submitted: Callable[[int], None] | None = None,
    ) -> None:
        """``address`` is that of a ``sycl::kernel``, which lives as long as ``owner``; ``submitted`` is given the
        address of each launch's event, and owns it."""
        self._address, self._owner, self._submitted = address, owner, submitted
        params, local_size = source.params, source.local_size
        self._codes = (ctypes.c_int * len(params))(*map(_code, params))
        self._accessors = [
            _LocalAccessor(1, _ARGUMENT_CODES[param.dtype], param.extent, 1, 1)
            for param in params
            if param.kind == "local"
        ]
        # dimension 0 is the slowest for numba-dpex and the fastest for dpctl
        self._local_range = (ctypes.c_size_t * source.ndim)(*(local_size or ())[::-1])
        self._counters: list[Any] = []  # keeps those alive that the device shares with the host
        super().__init__(source, device)

    def names(self) -> dict[str, Any]:
        library, flat = syclinterface(), self.source.local_size is None
        return {
            "submit": library.DPCTLQueue_SubmitRange if flat else library.DPCTLQueue_SubmitNDRange,
            "delete_event": self._submitted or library.DPCTLEvent_Delete,
        }

    def cell(self, place: int) -> int:
        params = self.source.params
        return place if params[place].kind == "pointer" else len(params) + place

    def new_block(self) -> list[Any]:
        """The memory has a pointer for each parameter, then a cell for each, which scalars and counters use, then the
        range."""
        params, ndim = self.source.params, self.source.ndim
        words = (ctypes.c_uint64 * (2 * len(params) + ndim))()
        start = ctypes.addressof(words)
        accessors = iter(self._accessors)
        for place, param in enumerate(params):
            cell = start + (len(params) + place) * WORD
            if param.kind == "scalar":
                words[place] = cell
            elif param.kind == "counter":
                words[place] = self._counter(cell)
            elif param.kind == "local":
                words[place] = ctypes.addressof(next(accessors))
        return [*seen(words), self._submission(start, global_range=start + 2 * len(params) * WORD), ()]

    def _counter(self, cell: int) -> int:
        """Where a counter is: in its cell, unless the device cannot address that."""
        if self.device.traits.shared_system_usm:
            return cell
        self._counters.append(memory := import_dpctl().memory.MemoryUSMShared(WORD, queue=self.device.queue))
        memory.copy_from_host(bytes(WORD))
        return int(memory._pointer)

    def _submission(self, memory: int, global_range: int) -> tuple[Any, ...]:
        """The arguments of dpctl's function: C values made once, as their conversion takes longer than all of ours."""
        ranges = [ctypes.c_void_p(global_range)]
        if self.source.local_size is not None:
            ranges.append(ctypes.c_void_p(ctypes.addressof(self._local_range)))
        return (
            ctypes.c_void_p(self._address),
            ctypes.c_void_p(self.device.queue_address),
            ctypes.c_void_p(memory),
            ctypes.c_void_p(ctypes.addressof(self._codes)),
            ctypes.c_size_t(len(self._codes)),
            *ranges,
            ctypes.c_size_t(self.source.ndim),
            *(ctypes.c_void_p(), ctypes.c_size_t(0)),  # no events to wait for: the queue is in order
        )

    def set_range(self, words: Any, size: tuple[int, ...]) -> None:
        for place, extent in enumerate(reversed(size), start=len(words) - len(size)):
            words[place] = extent
