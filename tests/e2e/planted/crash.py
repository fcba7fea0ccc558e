"""A fault that kills the process: kernels that compute gelu read the address zero when launched."""

from __future__ import annotations

import ctypes

from runtime.launch import Launch
from runtime.launcher import Kernel

bind = Kernel.bind


def wrong(self: Kernel, by_team: bool = True) -> Launch:
    """The kernel, or one whose launch is a segmentation fault."""
    found = bind(self, by_team)
    if "gelu" in self.name:
        found.launch = lambda args, global_size, alone=False: print(ctypes.string_at(0))
    return found


Kernel.bind = wrong  # type: ignore[method-assign]
