"""Errors that only data can cause: kernels note them and go on, the host raises eager's exception after the kernel."""

from __future__ import annotations

import dataclasses

_BOUNDS = "index {index} is out of bounds for dimension {dim} with size {size}"


@dataclasses.dataclass(frozen=True)
class Fault:
    """Eager's exception and message, in which ``{index}``, ``{dim}`` and ``{size}`` are filled in. With ``wraps`` the
    size has been added to negative indexes before they were looked at."""

    kind: type[Exception]
    message: str
    wraps: bool = False

    def error(self, index: int, dim: int, size: int) -> Exception:
        """The exception for an ``index`` that is not in [0, size)."""
        given = index - size if self.wraps and index < 0 else index
        return self.kind(self.message.format(index=given, dim=dim, size=size))


SUBSCRIPT = Fault(IndexError, _BOUNDS, wraps=True)
FLAT = Fault(IndexError, "out of range: tried to access index {index} on a tensor of {size} elements.", wraps=True)
PLACE = Fault(IndexError, _BOUNDS)
ALONG = Fault(RuntimeError, _BOUNDS)
ROW = Fault(IndexError, "index out of range in self")
DIVISION = Fault(RuntimeError, "ZeroDivisionError")

FAULTS = (SUBSCRIPT, FLAT, PLACE, ALONG, ROW, DIVISION)
"""All of them, by code."""

SITE_BITS = 20
"""What a kernel writes is the index, shifted by so many bits, and the number of the check among those of its plan."""
