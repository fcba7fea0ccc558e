"""Running kernels of the CPU device on the threads on which ATen's ops run.

Left to itself, the CPU device has threads of TBB's, one for each core, beside those of OpenMP's on which ATen's ops
run. After an op libgomp has its threads spin for some milliseconds, and never yields, so a kernel that follows a matmul
would have the caller's core only. And submitting, waking threads and waiting cost more than most kernels do.

Intel's driver can do without its own threads (cl_intel_exec_by_local_thread): a command of such a queue runs on the
thread that enqueues it. So a launch opens a parallel region of ATen's OpenMP, in which each thread of the team enqueues
its share of the range. The launch is done when it returns. All of it is machine code (``host_stub``), with Python
behind it for what is not usual. docs/launching.md has what it gains.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import logging
import mmap
import os
import pathlib
import sys
import weakref
from typing import Any

import torch

from lowering.artifacts import KernelSource
from lowering.schedule import MAX_RANGE
from runtime import opencl
from runtime import share_layout as at
from runtime.compiler import CompiledKernel
from runtime.devices import Device
from runtime.errors import LaunchError
from runtime.launch import WORD, Launch, LaunchFunction, Number, forked, seen
from runtime.native import opencl_target

logger = logging.getLogger(__name__)

_ATEN = pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
_PYTHON = (
    *("PyLong_AsLongLong", "PyFloat_AsDouble", "PyErr_Occurred", "PyErr_Clear"),
    *("PyEval_SaveThread", "PyEval_RestoreThread", "PyObject_Vectorcall"),
)
_NAME = sys.intern("alone")
_OPENMP = ("omp_get_thread_num", "omp_get_num_threads")
_OPENCL = ("clSetKernelArgSVMPointer", "clSetKernelArg", "clEnqueueNDRangeKernel")


@dataclasses.dataclass(frozen=True, eq=False)
class Team:
    """The threads that run kernels of a device: ``queues`` has the handle of one for each."""

    run: Any
    """``GOMP_parallel(function, data, threads, flags)``; all threads that ATen would use if ``threads`` is zero."""
    share_out: int
    """The address of the function that they run."""
    functions: tuple[int, ...]
    """The addresses that the first words of a block have."""
    queues: tuple[int, ...]


@functools.cache
def team_of(device: Device, share_out: bytes) -> Team | None:
    """The team for ``device`` that runs the machine code ``share_out``; None where that is empty or not allowed, the
    device is no CPU, its driver cannot run commands on the caller, or ATen's threads are not OpenMP's."""
    target = opencl_target(device) if device.traits.is_cpu and device.traits.shared_system_usm else None
    if not share_out or target is None or not opencl.runs_on_caller(target):
        return None
    try:
        library = ctypes.CDLL(str(_ATEN), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        run = library.GOMP_parallel  # of the library that ATen itself was linked with
        openmp = [opencl.address_of(getattr(library, name)) for name in _OPENMP]
    except (OSError, AttributeError) as error:
        logger.debug("kernels run on the driver's own threads: %s", error)
        return None
    run.restype = None
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    code = executable(share_out)
    if code is None:
        return None
    functions = (*map(opencl.function_address, _OPENCL), *openmp)
    return Team(run, code, functions, tuple(opencl.caller_queue(target) for _ in range(device.traits.compute_units)))


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
    """Along which dimension a range is shared by ``threads``, into how many pieces it can be cut, and how many
    work-items long each is: along the slowest that is enough for all, or else the one with the most."""
    pieces = [n // m for n, m in zip(size, local_size or (1,) * len(size), strict=True)]
    place = next((p for p, n in enumerate(pieces) if n >= threads), pieces.index(max(pieces)))
    return place, pieces[place], size[place] // pieces[place]


class _Memory(bytearray):
    """Words, and what has to live as long as they do."""

    kept: tuple[Any, ...] = ()


_KINDS = {("scalar", "int64"): at.INTEGER, ("scalar", "float64"): at.FLOAT, ("counter", "int32"): at.OWN}


class TeamLaunch(Launch):
    """Launches that return when the kernel is done. Each block has an OpenCL kernel for each thread, as the arguments
    are a kernel's state. The range that is launched first gets a block of its own and a function of machine code."""

    SUBMISSION = """
run(*(arguments[alone]))
if words[STATUS]:
    raise failed(words, global_size)  # the block is not used again: some threads may have run their share
return_block(block)
"""

    def __init__(
        self, source: KernelSource, device: Device, team: Team, program: int, compiled: CompiledKernel
    ) -> None:
        """``program`` is the handle of ``compiled`` as an OpenCL program."""
        self._team, self._program, self._entry = team, program, compiled.entry
        self._bound = [place for place, param in enumerate(source.params) if param.kind != "local"]
        self._unsized: list[tuple[_Memory, memoryview]] = []
        super().__init__(source, device)
        code = executable(compiled.launch) if compiled.launch and _knows_python() else None
        if code is not None:
            self.launch = self._in_machine_code(code)

    def names(self) -> dict[str, Any]:
        return {"run": self._team.run, "STATUS": at.STATUS, "failed": self._failed}

    def _failed(self, words: memoryview, size: tuple[int, ...]) -> LaunchError:
        return self.refused(size, f"OpenCL's error is {words[at.STATUS] - (1 << 32)}")

    def cell(self, place: int) -> int:
        return at.ARGUMENTS + self._bound.index(place) * at.ARGUMENT + 2

    def new_block(self) -> list[Any]:
        memory, words = self._laid_out()
        start = _start(memory)
        calls = tuple(
            (ctypes.c_void_p(self._team.share_out), ctypes.c_void_p(start), ctypes.c_uint(threads), ctypes.c_uint(0))
            for threads in (0, 1)
        )
        return [*seen(words), calls, ()]

    def _laid_out(self) -> tuple[_Memory, memoryview]:
        """New words as ``share_layout`` has them, with the counters and the work-group's size behind."""
        team, source, count = self._team, self.source, len(self._bound)
        shares = at.ARGUMENTS + count * at.ARGUMENT
        counters = shares + len(team.queues) * (at.SHARE + count)
        local_size = counters + len(source.params)
        memory = _Memory(WORD * (local_size + MAX_RANGE))
        words, start = memoryview(memory).cast("Q"), _start(memory)
        for place, function in enumerate(team.functions):
            words[place] = function
        words[at.SHARES], words[at.DIMENSIONS], words[at.COUNT] = len(team.queues), source.ndim, count
        if source.local_size is not None:
            words[at.LOCAL] = start + local_size * WORD
            for place, extent in enumerate(source.local_size, start=local_size):
                words[place] = extent
        for place in self._bound:
            value, param = self.cell(place), source.params[place]
            words[value - 2], words[value - 1] = place, _KINDS.get((param.kind, param.dtype), at.POINTER)
            if param.kind == "counter":
                words[value] = start + (counters + place) * WORD
        for number, queue in enumerate(team.queues):
            share = shares + number * (at.SHARE + count)
            words[share + at.QUEUE], words[share + at.KERNEL] = queue, self._new_kernel(memory)
        return memory, words

    def _new_kernel(self, owner: _Memory) -> int:
        """A kernel of OpenCL's that goes when ``owner`` does."""
        local = [(place, p.nbytes) for place, p in enumerate(self.source.params) if p.kind == "local"]
        kernel = opencl.create_kernel(self._program, self._entry, local)
        weakref.finalize(owner, opencl.release_kernel, kernel).atexit = False
        return kernel

    def _in_machine_code(self, code: int) -> LaunchFunction:
        """The function at the address ``code``, which asks ``self.launch`` until the first range is known, and for
        others than that."""
        memory, words = self._laid_out()
        given = sum(self.source.params[place].kind != "counter" for place in self._bound)
        words[at.PARALLEL], words[at.SHARE_OUT] = opencl.address_of(self._team.run), self._team.share_out
        for place, name in enumerate(_PYTHON, start=at.AS_INTEGER):
            words[place] = opencl.address_of(getattr(ctypes.pythonapi, name))
        words[at.TUPLE], words[at.TRUE], words[at.NONE] = id(tuple), id(True), id(None)
        words[at.NAME] = id(_NAME)
        words[at.GIVEN], words[at.FORKED] = given, ctypes.addressof(forked)

        def fail(args: tuple[Number, ...], global_size: tuple[int, ...], alone: bool = False) -> None:
            words[at.SIZE_OBJECT] = 0  # no more launches from here
            raise self._failed(words, global_size)

        words[at.OTHERWISE], words[at.FAILED] = id(self.launch), id(fail)
        memory.kept = (self.launch, fail)
        self._unsized.append((memory, words))
        function: LaunchFunction = _new_function(ctypes.byref(_definition(code)), memory, None)
        return function

    def set_range(self, words: Any, size: tuple[int, ...]) -> None:
        words[at.CUT], words[at.PIECES], words[at.PIECE] = cut(size, self.source.local_size, len(self._team.queues))
        for dimension, extent in enumerate(size):
            words[at.RANGE + dimension] = extent
        try:
            memory, first = self._unsized.pop()
        except IndexError:  # there is none, or it knows its range
            return
        self.set_range(first, size)
        memory.kept = (*memory.kept, size)
        first[at.SIZE_OBJECT] = id(size)  # from now on it launches


def _start(memory: _Memory) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class _Definition(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_FASTCALL, _KEYWORDS = 0x80, 0x2  # METH_FASTCALL, METH_KEYWORDS

_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


@functools.cache
def _definition(code: int) -> _Definition:
    """What makes machine code a function of Python's; kept, as functions refer to it."""
    return _Definition(b"launch", code, _FASTCALL | _KEYWORDS, b"Launch a kernel (a launch.LaunchFunction).")


@functools.cache
def _knows_python() -> bool:
    """Whether this Python's objects are as ``share_layout`` says."""

    def word(thing: object, place: int) -> int:
        return int(ctypes.c_uint64.from_address(id(thing) + place * WORD).value)

    memory = _Memory(WORD)
    references = word(memory, 0)
    pair = (memory, memory)
    return (
        sys.implementation.name == "cpython"
        and word(memory, 0) == references + len(pair)
        and (word(memory, at.CONTENT), word(pair, at.TYPE)) == (_start(memory), id(tuple))
        and (word(pair, at.LENGTH), word(pair, at.ITEMS)) == (2, id(memory))
    )
