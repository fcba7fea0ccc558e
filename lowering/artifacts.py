"""Frozen records handed from one stage of the pipeline to the next."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Param:
    """One flat kernel argument.

    ``pointer`` is a global-memory address of elements of ``dtype``; ``scalar`` is passed by value
    (int64 or float64); ``local`` is work-group memory of ``extent`` elements of ``dtype``; ``counter`` is the address
    of one element that the launcher keeps, which is zero before and after each launch.
    Storage types only: half types travel as ``uint16``, bool as ``uint8``.
    """

    name: str
    kind: Literal["pointer", "scalar", "local", "counter"]
    dtype: str
    extent: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of work-group memory that it takes."""
        return self.extent * int(self.dtype.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


@dataclasses.dataclass(frozen=True)
class KernelSource:
    """A SYCL kernel as numba-dpex Python text.

    ``text`` defines one function ``name(item, *params)``. With ``local_size`` None the kernel runs over a
    plain range of ``ndim`` dimensions (``item`` is an Item, the driver chooses the work-groups); otherwise
    ``item`` is an NdItem and ``local_size`` has ``ndim`` entries. Dimension 0 is the slowest.
    ``name`` ends in a hash of everything that changes the binary, so that equal names mean equal kernels.
    """

    name: str
    text: str
    params: tuple[Param, ...]
    ndim: int
    local_size: tuple[int, ...] | None = None
