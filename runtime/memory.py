"""Memory for results: large storages are handed out again as soon as nobody else holds them.

The C library gives memory of this size back to the system when it is freed, so a fresh result costs a page fault every
4 KiB, which takes longer than most kernels do.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from os import register_at_fork

import torch
from torch import Tensor, UntypedStorage

POOLED = 2**24
"""Bytes from which storages are pooled: glibc's threshold is at most twice that."""

LIMIT = 2**30
"""Bytes that a pool keeps at most while nobody uses them."""


class StoragePool:
    """Storages of at least ``POOLED`` bytes. One is free when the pool's is the only reference to it, from C++ and from
    Python. Safe to use from several threads."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._storages: list[tuple[int, UntypedStorage]] = []  # with their size, longest unused first

    def take(self, size: int) -> UntypedStorage:
        """A storage of ``size`` bytes, with whatever its last user left in it."""
        with self._lock:
            found = next((i for i, s in self._free() if s.nbytes() == size), None)
            storage = UntypedStorage(size, device="cpu") if found is None else self._storages.pop(found)[1]
            self._storages.append((size, storage))
            self._trim()
            return storage

    def clear(self) -> None:
        """Forget every storage; memory in use lives on with its users."""
        with self._lock:
            self._storages.clear()

    @property
    def idle(self) -> int:
        """Bytes that are kept and not in use."""
        with self._lock:
            return sum(s.nbytes() for _, s in self._free())

    def _free(self) -> list[tuple[int, UntypedStorage]]:
        """Storages that only the pool holds, by position. What its user resized or shared with another process is no
        longer the pool's."""
        self._storages = [(n, s) for n, s in self._storages if s.nbytes() == n and not s.is_shared()]
        counts = _references(self._storages)
        return [
            (i, s)
            for i, (_, s) in enumerate(self._storages)
            if counts[i] == _ALONE and torch._C._storage_Use_Count(s._cdata) == 1
        ]

    def _trim(self) -> None:
        free = self._free()
        excess = sum(s.nbytes() for _, s in free) - self.limit
        dropped = set()
        for i, storage in free:
            if excess > 0:
                excess -= storage.nbytes()
                dropped.add(i)
        if dropped:
            self._storages = [entry for i, entry in enumerate(self._storages) if i not in dropped]


def _references(storages: Sequence[tuple[int, UntypedStorage]]) -> list[int]:
    """Python's references to each: a tensor does not count, but an object that ``untyped_storage`` returned does."""
    return [sys.getrefcount(s) for _, s in storages]


_ALONE = _references([(0, UntypedStorage(0))])[0]

pool = StoragePool()


def _after_fork() -> None:
    pool._lock = threading.Lock()  # another thread may have held it


register_at_fork(after_in_child=_after_fork)


def allocate(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An uninitialised tensor, as ``torch.empty_strided``; from the pool where it is large."""
    if 0 in shape:
        return torch.empty_strided(shape, strides, dtype=dtype)
    size = (1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))) * dtype.itemsize
    if size < POOLED:
        return torch.empty_strided(shape, strides, dtype=dtype)
    return torch.empty(0, dtype=dtype, device="cpu").set_(pool.take(size), 0, shape, strides)
