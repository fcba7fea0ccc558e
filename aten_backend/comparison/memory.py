"""The memory that a workload touches, and how far the resident memory of this process grows over a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

_PROCESS = Path("/proc/self")
_RESET_PEAK = "5"


def peak_growth(run: Callable[[], Any]) -> int | None:
    """Bytes between the resident memory before ``run()`` and the peak during it. Linux tells; elsewhere None."""
    try:
        (_PROCESS / "clear_refs").write_text(_RESET_PEAK)
        before = _status("VmRSS")
        run()
        return max(0, _status("VmHWM") - before)
    except (OSError, LookupError):
        return None


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", (_PROCESS / "status").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise LookupError(name)
    return int(found.group(1)) * 1024


def data_bytes(values: Any) -> int:
    """Bytes of the tensors in ``values``, parameters and buffers of modules included; what shares memory counts once.

    Of arguments and results together, it is what a program must at least move, unless it gathers from a table.
    """
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in _tensors(values)}
    return sum(storages.values())


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, torch.nn.Module):
            yield from leaf.parameters()
            yield from leaf.buffers()
