"""A slowdown for `xpu-aten compare --baseline` to find. Python imports this at its start where it is on PYTHONPATH.

``SLOWDOWN=xpu_aten:1.1`` makes each run of a workload on xpu_aten take 1.1 times as long, in the processes of a
comparison and nowhere else. With ``SLOWDOWN=xpu_aten:1`` nothing is to be found::

    xpu-aten compare --suite fusion --json before.json
    PYTHONPATH=benchmarks/slowdown SLOWDOWN=xpu_aten:1.1 xpu-aten compare --suite fusion --baseline before.json
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any


def plant(backend: str, factor: float) -> None:
    """Let every run of ``backend`` spin until it has taken ``factor`` times as long."""
    from aten_backend.comparison.subject import Subject

    run = Subject.run

    def slower(self: Subject) -> Any:
        started = time.perf_counter()
        result = run(self)
        if self.backend.name == backend:
            end = started + factor * (time.perf_counter() - started)
            while time.perf_counter() < end:
                pass
        return result

    Subject.run = slower  # type: ignore[method-assign]


if "aten_backend.comparison.child" in sys.orig_argv and "SLOWDOWN" in os.environ:
    name, _, number = os.environ["SLOWDOWN"].rpartition(":")
    plant(name, float(number))
