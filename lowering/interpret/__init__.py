"""An interpreter for kernels: runs emitted text over NumPy arrays and finds what no run on a device would show.

It needs no device and no compiler, and shares no code with either.
"""

from __future__ import annotations

from .faults import (
    ArithmeticFault,
    DataRaceError,
    DivergentBarrierError,
    KernelFault,
    KernelTypeError,
    OutOfBoundsError,
    UninitialisedReadError,
)
from .machine import run_kernel
from .memory import Memory, Pointer, host_values

__all__ = [
    "ArithmeticFault",
    "DataRaceError",
    "DivergentBarrierError",
    "KernelFault",
    "KernelTypeError",
    "Memory",
    "OutOfBoundsError",
    "Pointer",
    "UninitialisedReadError",
    "host_values",
    "run_kernel",
]
