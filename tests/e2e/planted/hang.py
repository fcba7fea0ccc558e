"""A fault that never ends: the launch of a kernel that computes gelu."""

from __future__ import annotations

import time
from collections.abc import Callable

from runtime.launcher import Kernel, Launch

bind = Kernel.bind


def wrong(self: Kernel, submitted: Callable[[int], None] | None = None) -> Launch:
    """The kernel, or one whose launch does not return."""
    found = bind(self, submitted)
    if "gelu" in self.name:
        found.launch = lambda args, global_size: time.sleep(3600)
    return found


Kernel.bind = wrong  # type: ignore[method-assign]
