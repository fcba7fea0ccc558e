"""A fault that shows in the time alone: the launch of a kernel that computes gelu is late by half a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from runtime.launcher import Kernel, Launch

bind = Kernel.bind


def wrong(self: Kernel, submitted: Callable[[int], None] | None = None) -> Launch:
    """The kernel, late."""
    found = bind(self, submitted)
    launch = found.launch

    def late(args: Any, global_size: Any) -> Any:
        time.sleep(0.5)
        return launch(args, global_size)

    if "gelu" in self.name:
        found.launch = late
    return found


Kernel.bind = wrong  # type: ignore[method-assign]
