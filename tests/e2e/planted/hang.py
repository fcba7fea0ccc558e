"""A fault that never ends: the launch of a kernel that computes gelu."""

from __future__ import annotations

import time

from runtime.launch import Launch
from runtime.launcher import Kernel

bind = Kernel.bind


def wrong(self: Kernel, by_team: bool = True) -> Launch:
    """The kernel, or one whose launch does not return."""
    found = bind(self, by_team)
    if "gelu" in self.name:
        found.launch = lambda args, global_size, alone=False: time.sleep(3600)
    return found


Kernel.bind = wrong  # type: ignore[method-assign]
