"""A fault that kills the process: kernels that compute gelu read the address zero when launched."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from runtime.launcher import Kernel, Launch

bind = Kernel.bind


def wrong(self: Kernel, submitted: Callable[[int], None] | None = None) -> Launch:
    """The kernel, or one whose launch is a segmentation fault."""
    found = bind(self, submitted)
    if "gelu" in self.name:
        found.launch = lambda args, global_size: print(ctypes.string_at(0))
    return found


Kernel.bind = wrong  # type: ignore[method-assign]
