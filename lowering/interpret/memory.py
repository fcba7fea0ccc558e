"""Memory as the interpreter sees it: bounds, what has been written, and who touched an element since the last barrier.

A race is two work-items that touch one element, at least one of them writing, unless both are of one work-group and a
barrier stands between. For that, each element remembers its last writer, its last reader, and after how many barriers.
Accesses of many work-items at once are judged by scattering their numbers and gathering them again: what comes back
changed was touched twice.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from ..dtypes import NAMES, storage_name

Array = np.ndarray[Any, Any]

NOBODY, SEVERAL = -1, -2


@dataclasses.dataclass(frozen=True)
class Accesses:
    """One statement's accesses: for each, the work-item (numbered over the whole range), its work-group, and how many
    barriers that group has passed."""

    items: Array
    groups: Array
    epochs: Array


class Shadow:
    """For each of ``count`` elements, who touched it last in the launch that is under way."""

    def __init__(self, count: int) -> None:
        def filled() -> Array:
            return np.full(count, NOBODY, np.int64)

        self.writer, self.writer_group, self.write_epoch = filled(), filled(), filled()
        self.reader, self.reader_group, self.read_epoch = filled(), filled(), filled()

    def read(self, places: Array, by: Accesses) -> Array:
        """Note reads; True for each that races with a write."""
        race = self._after_write(places, by)
        same = (self.reader_group[places] == by.groups) & (self.read_epoch[places] == by.epochs)
        others = same & (self.reader[places] != by.items)
        before = self.reader_group[places]
        foreign = (before != NOBODY) & (before != by.groups)
        self.reader[places], self.reader_group[places], self.read_epoch[places] = by.items, by.groups, by.epochs
        others |= self.reader[places] != by.items
        foreign |= self.reader_group[places] != by.groups
        self.reader[places[others]] = SEVERAL
        self.reader_group[places[foreign]] = SEVERAL
        return race

    def write(self, places: Array, by: Accesses) -> Array:
        """Note writes; True for each that races with a read or another write."""
        group = self.reader_group[places]
        ordered = (group == by.groups) & (self.read_epoch[places] != by.epochs)
        race = (group != NOBODY) & ~ordered & ((group != by.groups) | (self.reader[places] != by.items))
        race |= self._after_write(places, by)
        self.writer[places], self.writer_group[places], self.write_epoch[places] = by.items, by.groups, by.epochs
        twice: Array = self.writer[places] != by.items
        return race | twice

    def _after_write(self, places: Array, by: Accesses) -> Array:
        ordered = (self.writer_group[places] == by.groups) & (self.write_epoch[places] != by.epochs)
        result: Array = (self.writer[places] != NOBODY) & (self.writer[places] != by.items) & ~ordered
        return result


class Memory:
    """Elements of one type that kernels read and write, the host's own memory included. ``initialised`` has a flag for
    each; None where all are, and stay so."""

    def __init__(self, values: Array, initialised: bool = True) -> None:
        self.values = values
        self.initialised: Array | None = None if initialised else np.zeros(values.size, bool)
        self.shadow: Shadow | None = None

    def watch(self) -> None:
        """Begin a launch that writes here: forget who touched what."""
        self.shadow = Shadow(self.values.size)

    def unwatch(self) -> None:
        """End it."""
        self.shadow = None


@dataclasses.dataclass(frozen=True)
class Pointer:
    """A kernel's pointer: element ``offset`` of ``memory``."""

    memory: Memory
    offset: int = 0


def host_values(tensor: torch.Tensor) -> Array:
    """All elements of the storage behind ``tensor`` in the type in which kernels see them, sharing its memory."""
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    bits = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.bool: torch.uint8}.get(tensor.dtype)
    array: Array = (whole if bits is None else whole.view(bits)).numpy()
    return array.view(storage_name(NAMES[tensor.dtype]))
