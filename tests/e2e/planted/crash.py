"""A fault that kills the process: kernels that compute gelu read the address zero when launched."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from runtime.launcher import Launch, Number

launch = Launch.launch


def wrong(self: Launch, args: Sequence[Number], global_size: tuple[int, ...]) -> None:
    """The launch, or a segmentation fault."""
    if "gelu" in self.kernel.name:
        ctypes.string_at(0)
    launch(self, args, global_size)


Launch.launch = wrong  # type: ignore[method-assign]
