"""How far the resident memory of this process grows over a call, at its peak. Linux tells; elsewhere None."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PROCESS = Path("/proc/self")
_RESET_PEAK = "5"


def peak_growth(run: Callable[[], Any]) -> int | None:
    """Bytes between the resident memory before ``run()`` and the peak during it."""
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
