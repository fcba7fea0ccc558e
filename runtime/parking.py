"""Letting OpenMP's threads sleep while kernels run.

ATen's ops run on OpenMP's threads, kernels of the CPU device on TBB's, one of each on every core. After an op libgomp
has its threads spin for some milliseconds, and never yields; TBB's threads yield while they wait for work, and so get
no turn before the scheduler's next tick. A kernel that follows a matmul then has the caller's core only.

So the threads are given something to do that takes no time: a parallel region whose body waits for a semaphore. The
region is opened by the calls that compilers emitted for ``#pragma omp parallel`` before GCC 4.9, which libgomp keeps
for programs built then: ``GOMP_parallel_start`` returns to the caller at once, ``GOMP_parallel_end`` waits for the
others. docs/launching.md has what it gains.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import threading
from collections.abc import Callable

import torch

from .devices import Device

_LIBRARY = pathlib.Path(torch.__file__).parent / "lib" / "libgomp.so.1"
_SEMAPHORE_SIZE = 64
"""Bytes of a ``sem_t``, and more."""


class _Region(threading.local):
    """The calling thread's region; libgomp has a team of threads for each thread that calls it."""

    def __init__(self) -> None:
        self.open = False
        self.level = 0  # of nested regions, outside of it
        self.semaphore = ctypes.create_string_buffer(_SEMAPHORE_SIZE)
        _libc().sem_init(self.semaphore, 0, 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@functools.cache
def _libgomp() -> ctypes.CDLL | None:
    """The OpenMP library that ATen uses, if it is libgomp and loaded."""
    try:
        library = ctypes.CDLL(str(_LIBRARY), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        library.GOMP_parallel_start.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
        library.GOMP_parallel_end.argtypes = []
    except (OSError, AttributeError):
        return None
    return library


@functools.cache
def _region() -> _Region:
    return _Region()


def park() -> None:
    """Send the OpenMP threads of the calling thread to sleep until ``unpark``. Between the two, ATen's ops run on the
    calling thread alone. Does nothing where ATen has one thread, or another OpenMP library."""
    library, region = _libgomp(), _region()
    if library is None or torch.get_num_threads() == 1:
        return
    unpark()  # an interrupt may have kept the last one from it
    _libc().sem_init(region.semaphore, 0, 0)  # and left it with posts that nobody waited for
    region.level, region.open = library.omp_get_level(), True
    library.GOMP_parallel_start(ctypes.cast(_libc().sem_wait, ctypes.c_void_p), region.semaphore, 0)


def unpark() -> None:
    """Wake the threads that ``park`` has sent to sleep, if it has. An interrupt may come between any two lines of
    either: libgomp itself knows whether the region is open, and the next ``unpark`` does what is left."""
    region = _region()
    if not region.open:
        return
    library = _libgomp()
    assert library is not None
    if library.omp_get_level() > region.level:
        for _ in range(library.omp_get_num_threads() - 1):
            _libc().sem_post(region.semaphore)
        library.GOMP_parallel_end()
    region.open = False


def names(device: Device | None) -> dict[str, Callable[[], None]]:
    """What a plan for ``device`` calls; nothing in particular where kernels run elsewhere than ATen's ops."""
    return {"park": park, "unpark": unpark} if device is not None and device.traits.is_cpu else {}


def forget() -> None:
    """Start anew in a child of a fork, which has none of its parent's threads."""
    _region.cache_clear()


os.register_at_fork(after_in_child=forget)
