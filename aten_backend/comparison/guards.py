"""What Dynamo spends before compiled code runs: checking guards and finding the code."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from torch.autograd.profiler import profile

_RUNS = 3
_EVENT = "TorchDynamo Cache Lookup"  # recorded by Dynamo itself, in its C part


def seconds(run: Callable[[], Any]) -> float:
    """Seconds of guards in one run, all frames together: the mean of a few runs under torch's profiler."""
    profiler = profile(use_kineto=False)
    with _silent():
        profiler.__enter__()
    try:
        for _ in range(_RUNS):
            run()
    finally:
        with _silent():
            profiler.__exit__(None, None, None)
    return float(sum(event.cpu_time_total for event in profiler.key_averages() if event.key == _EVENT) * 1e-6 / _RUNS)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without standard error: the profiler tells there, whatever its log level, that it starts and stops."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
