"""Running kernels of the CPU device on the threads on which ATen's ops run.

Left to itself, the CPU device has threads of TBB's, one for each core, beside those of OpenMP's on which ATen's ops
run. After an op libgomp has its threads spin for some milliseconds, and never yields, so a kernel that follows a matmul
would have the caller's core only. And submitting, waking threads and waiting cost more than most kernels do.

Intel's driver can do without its own threads (cl_intel_exec_by_local_thread): a command of such a queue runs on the
thread that enqueues it. So a launch opens a parallel region of ATen's OpenMP, in which each thread of the team enqueues
its share of the range, through machine code that knows nothing of Python (``host_stub``). The launch is done when it
returns. docs/launching.md has what it gains.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import logging
import mmap
import os
import pathlib
import weakref
from typing import Any

import torch

from lowering.artifacts import KernelSource
from runtime import opencl
from runtime import share_layout as at
from runtime.devices import Device
from runtime.launch import WORD, Launch, seen
from runtime.native import opencl_target

logger = logging.getLogger(__name__)

_ATEN = pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
_OPENMP = ("omp_get_thread_num", "omp_get_num_threads")
_OPENCL = ("clSetKernelArgSVMPointer", "clSetKernelArg", "clEnqueueNDRangeKernel")


@dataclasses.dataclass(frozen=True, eq=False)
class Team:
    """The threads that run kernels of a device: ``queues`` has the handle of one for each."""

    run: Any
    """``GOMP_parallel(function, data, threads, flags)``; all threads that ATen would use if ``threads`` is zero."""
    functions: tuple[int, ...]
    """The addresses that the first words of a block have."""
    queues: tuple[int, ...]


@functools.cache
def team_of(device: Device) -> Team | None:
    """The team for ``device``; None where it is no CPU, its driver cannot run commands on the caller, or ATen's threads
    are not OpenMP's."""
    target = opencl_target(device) if device.traits.is_cpu and device.traits.shared_system_usm else None
    if target is None or not opencl.runs_on_caller(target):
        return None
    try:
        library = ctypes.CDLL(str(_ATEN), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        run = library.GOMP_parallel  # of the library that ATen itself was linked with
        openmp = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _OPENMP]
    except (OSError, AttributeError) as error:
        logger.debug("kernels run on the driver's own threads: %s", error)
        return None
    run.restype = None
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    functions = (*map(opencl.function_address, _OPENCL), *openmp)
    return Team(run, functions, tuple(opencl.caller_queue(target) for _ in range(device.traits.compute_units)))


@functools.cache
def executable(code: bytes) -> int | None:
    """The address of machine code, once and for this process; None where the system does not allow that."""
    try:
        memory = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError as error:
        logger.debug("no memory for machine code: %s", error)
        return None
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pages = -(-len(code) // mmap.PAGESIZE) * mmap.PAGESIZE
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(pages), mmap.PROT_READ | mmap.PROT_EXEC):
        logger.debug("the system does not allow this process to run code that it has brought along")
        return None
    _kept.append(memory)
    return address


_kept: list[mmap.mmap] = []


def cut(size: tuple[int, ...], local_size: tuple[int, ...] | None, threads: int) -> tuple[int, int, int]:
    """Along which dimension a range is shared by ``threads``, into how many pieces it can be cut,
    and how many work-items long each is: along the slowest that is enough for all, or else the one with the most."""
    pieces = [n // m for n, m in zip(size, local_size or (1,) * len(size), strict=True)]
    place = next((p for p, n in enumerate(pieces) if n >= threads), pieces.index(max(pieces)))
    return place, pieces[place], size[place] // pieces[place]


class TeamLaunch(Launch):
    """Launches that return when the kernel is done. Each block has an OpenCL kernel for each thread, as the arguments
    are a kernel's state."""

    SUBMISSION = """
run(*(arguments[alone]))
status = words[STATUS]
if status:
    words[STATUS] = 0
    return_block(block)
    raise refused(global_size, f"OpenCL's error is {status - (1 << 32)}")
return_block(block)
"""

    def __init__(self, source: KernelSource, device: Device, team: Team, program: int, entry: str, stub: int) -> None:
        """``program`` is the handle of an OpenCL program, ``stub`` the address of the function that threads run."""
        self._team, self._program, self._entry, self._stub = team, program, entry, stub
        self._bound = [place for place, param in enumerate(source.params) if param.kind != "local"]
        super().__init__(source, device)

    def names(self) -> dict[str, Any]:
        return {"run": self._team.run, "STATUS": at.STATUS}

    def cell(self, place: int) -> int:
        return at.ARGUMENTS + self._bound.index(place) * at.ARGUMENT + 2

    def new_block(self) -> list[Any]:
        """The memory is laid out by ``share_layout``, with the counters and the work-group's size behind."""
        team, source = self._team, self.source
        shares = at.ARGUMENTS + len(self._bound) * at.ARGUMENT
        counters = shares + len(team.queues) * at.SHARE
        local_size = counters + len(source.params)
        words = (ctypes.c_uint64 * (local_size + 3))()
        start = ctypes.addressof(words)
        for place, function in enumerate(team.functions):
            words[place] = function
        words[at.SHARES], words[at.DIMENSIONS], words[at.COUNT] = len(team.queues), source.ndim, len(self._bound)
        if source.local_size is not None:
            words[at.LOCAL] = start + local_size * WORD
            for place, extent in enumerate(source.local_size, start=local_size):
                words[place] = extent
        for place in self._bound:
            value, kind = self.cell(place), source.params[place].kind
            words[value - 2], words[value - 1] = place, WORD if kind == "scalar" else 0
            if kind == "counter":
                words[value] = start + (counters + place) * WORD
        for number, queue in enumerate(team.queues):
            share = shares + number * at.SHARE
            words[share + at.QUEUE], words[share + at.KERNEL] = queue, self._new_kernel(words)
        calls = tuple(
            (ctypes.c_void_p(self._stub), ctypes.c_void_p(start), ctypes.c_uint(threads), ctypes.c_uint(0))
            for threads in (0, 1)
        )
        return [*seen(words), calls, ()]

    def _new_kernel(self, owner: Any) -> int:
        """A kernel of OpenCL's that goes when ``owner`` does."""
        params = self.source.params
        local = [(place, p.nbytes) for place, p in enumerate(params) if p.kind == "local"]
        kernel = opencl.create_kernel(self._program, self._entry, local)
        weakref.finalize(owner, opencl.release_kernel, kernel).atexit = False
        return kernel

    def set_range(self, words: Any, size: tuple[int, ...]) -> None:
        words[at.CUT], words[at.PIECES], words[at.PIECE] = cut(size, self.source.local_size, len(self._team.queues))
        for dimension, extent in enumerate(size):
            words[at.RANGE + dimension] = extent

