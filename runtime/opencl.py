"""OpenCL's own interface to programs: a kernel's machine code is taken out of one process and put into another.

SYCL and dpctl know SPIR-V only, which the driver compiles anew in each process. Loading machine code takes a
twentieth of that. Loaded by file path inside the compiler processes too: standard library only.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_SUCCESS = 0
_DEVICE_TYPE_CPU = 2
_DEVICE_NAME, _DRIVER_VERSION, _DEVICE_EXTENSIONS = 0x102B, 0x102D, 0x1030
_BUILD_LOG = 0x1183
_BINARY_SIZES, _BINARIES = 0x1165, 0x1166
_ON_CALLER, _OUT_OF_ORDER = 1 << 31, 1
"""Properties of a queue: its commands run on the thread that enqueues them, before the call returns (the extension
cl_intel_exec_by_local_thread); they do not wait for each other."""

_CPU_TRAITS = re.compile(r"^(?:vendor_id|cpu family|model|stepping|flags)\s*:.*$", re.MULTILINE)


class OpenCLError(Exception):
    """The driver refuses; the text has its reason."""


class Target(NamedTuple):
    """An OpenCL device within a context, by their handles. Machine code fits where ``identity`` is the same."""

    context: int
    device: int
    identity: str


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libOpenCL.so.1")
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
    for name, result, arguments in (
        ("clGetPlatformIDs", ctypes.c_int, (number, pointer, pointer)),
        ("clGetDeviceIDs", ctypes.c_int, (pointer, ctypes.c_uint64, number, pointer, pointer)),
        ("clGetDeviceInfo", ctypes.c_int, (pointer, number, size, pointer, pointer)),
        ("clCreateContext", pointer, (pointer, number, pointer, pointer, pointer, pointer)),
        ("clCreateProgramWithIL", pointer, (pointer, ctypes.c_char_p, size, pointer)),
        ("clCreateProgramWithBinary", pointer, (pointer, number, pointer, pointer, pointer, pointer, pointer)),
        ("clBuildProgram", ctypes.c_int, (pointer, number, pointer, ctypes.c_char_p, pointer, pointer)),
        ("clGetProgramInfo", ctypes.c_int, (pointer, number, size, pointer, pointer)),
        ("clGetProgramBuildInfo", ctypes.c_int, (pointer, pointer, number, size, pointer, pointer)),
        ("clReleaseProgram", ctypes.c_int, (pointer,)),
        ("clCreateCommandQueue", pointer, (pointer, pointer, ctypes.c_uint64, pointer)),
        ("clCreateKernel", pointer, (pointer, ctypes.c_char_p, pointer)),
        ("clReleaseKernel", ctypes.c_int, (pointer,)),
        ("clSetKernelArg", ctypes.c_int, (pointer, number, size, pointer)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _check(code: int, what: str) -> None:
    if code != _SUCCESS:
        raise OpenCLError(f"{what} returned {code}")


@functools.cache
def host_identity() -> str:
    """A hash of what the processor can do and of the driver's own settings, which decide the machine code it makes."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            first = file.read().partition("\n\n")[0]
    except OSError:
        first = ""
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("CL_CONFIG_"))
    return hashlib.sha256("\n".join([*_CPU_TRAITS.findall(first), *settings]).encode()).hexdigest()[:16]


def _device_text(device: int, what: int) -> str:
    text = ctypes.create_string_buffer(1 << 14)
    _check(_library().clGetDeviceInfo(device, what, len(text), text, None), "clGetDeviceInfo")
    return text.value.decode().strip()


def target(context: int, device: int) -> Target:
    """The target with these OpenCL handles."""
    described = (_device_text(device, _DEVICE_NAME), _device_text(device, _DRIVER_VERSION), host_identity())
    return Target(context, device, " | ".join(described))


@functools.cache
def open_cpu() -> Target | None:
    """The first CPU device, in a context of its own; None if there is none."""
    try:
        library = _library()
    except OSError:
        return None
    count = ctypes.c_uint()
    if library.clGetPlatformIDs(0, None, ctypes.byref(count)) != _SUCCESS:
        return None  # the loader has no driver at all
    platforms = (ctypes.c_void_p * count.value)()
    _check(library.clGetPlatformIDs(count, platforms, None), "clGetPlatformIDs")
    device = ctypes.c_void_p()
    for platform in platforms:
        if library.clGetDeviceIDs(platform, _DEVICE_TYPE_CPU, 1, ctypes.byref(device), None) == _SUCCESS:
            code = ctypes.c_int()
            context = library.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(code))
            _check(code.value, "clCreateContext")
            return target(context, device.value or 0)
    return None


def _build(where: Target, program: int) -> None:
    library = _library()
    device = ctypes.c_void_p(where.device)
    code = library.clBuildProgram(program, 1, ctypes.byref(device), b"", None, None)
    if code != _SUCCESS:
        log = ctypes.create_string_buffer(1 << 16)
        library.clGetProgramBuildInfo(program, device, _BUILD_LOG, len(log), log, None)
        library.clReleaseProgram(program)
        raise OpenCLError(f"clBuildProgram returned {code}: {log.value.decode(errors='replace').strip()}")


def compile_spirv(where: Target, spirv: bytes) -> bytes:
    """Machine code for ``where``; OpenCLError with the driver's log if it refuses."""
    library = _library()
    code = ctypes.c_int()
    program = library.clCreateProgramWithIL(where.context, spirv, len(spirv), ctypes.byref(code))
    _check(code.value, "clCreateProgramWithIL")
    _build(where, program)
    size = ctypes.c_size_t()
    _check(library.clGetProgramInfo(program, _BINARY_SIZES, 8, ctypes.byref(size), None), "clGetProgramInfo")
    binary = ctypes.create_string_buffer(size.value)
    place = ctypes.c_void_p(ctypes.addressof(binary))
    _check(library.clGetProgramInfo(program, _BINARIES, 8, ctypes.byref(place), None), "clGetProgramInfo")
    library.clReleaseProgram(program)
    return binary.raw


def load_binary(where: Target, binary: bytes) -> int:
    """The handle of a program made of machine code, ready to use; OpenCLError if it does not fit."""
    library = _library()
    code, status = ctypes.c_int(), ctypes.c_int()
    device, size = ctypes.c_void_p(where.device), ctypes.c_size_t(len(binary))
    content = ctypes.c_char_p(binary)
    program: int = library.clCreateProgramWithBinary(
        *(where.context, 1, ctypes.byref(device), ctypes.byref(size)),
        *(ctypes.byref(content), ctypes.byref(status), ctypes.byref(code)),
    )
    _check(code.value or status.value, "clCreateProgramWithBinary")
    _build(where, program)
    return program


def runs_on_caller(where: Target) -> bool:
    """Whether a queue of the device can run its commands on the threads that enqueue them."""
    return "cl_intel_exec_by_local_thread" in _device_text(where.device, _DEVICE_EXTENSIONS).split()


def caller_queue(where: Target) -> int:
    """The handle of a queue whose commands run on the thread that enqueues them, before the call returns."""
    code = ctypes.c_int()
    queue: int = _library().clCreateCommandQueue(
        where.context, where.device, _ON_CALLER | _OUT_OF_ORDER, ctypes.byref(code)
    )
    _check(code.value, "clCreateCommandQueue")
    return queue


def create_kernel(program: int, entry: str, local: Sequence[tuple[int, int]] = ()) -> int:
    """The handle of a kernel that has its own arguments. ``local`` has the places of those that are work-group memory,
    with its bytes. OpenCLError if the program has no such kernel."""
    code = ctypes.c_int()
    kernel: int = _library().clCreateKernel(program, entry.encode(), ctypes.byref(code))
    _check(code.value, f"clCreateKernel for {entry}")
    for place, size in local:
        _check(_library().clSetKernelArg(kernel, place, size, None), "clSetKernelArg")
    return kernel


def release_kernel(kernel: int) -> None:
    """Give a kernel back."""
    _library().clReleaseKernel(kernel)


def address_of(function: Any) -> int:
    """Where a foreign function is in this process."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def function_address(name: str) -> int:
    """Where OpenCL's function ``name`` is in this process."""
    return address_of(getattr(_library(), name))
