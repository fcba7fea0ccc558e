"""A fault that shows in the time alone: the launch of a kernel that computes gelu is late by half a second."""

from __future__ import annotations

import time
from typing import Any

from runtime.launch import Launch
from runtime.launcher import Kernel

bind = Kernel.bind


def wrong(self: Kernel, by_team: bool = True) -> Launch:
    """The kernel, late."""
    found = bind(self, by_team)
    launch = found.launch

    def late(args: Any, global_size: Any, alone: bool = False) -> None:
        time.sleep(0.5)
        launch(args, global_size, alone)

    if "gelu" in self.name:
        found.launch = late
    return found


Kernel.bind = wrong  # type: ignore[method-assign]
