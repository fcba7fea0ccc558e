"""What Dynamo spends before compiled code runs: checking guards and finding the code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile

_RUNS = 5
_EVENT = "TorchDynamo Cache Lookup"  # recorded by Dynamo itself, in its C part


def seconds(run: Callable[[], Any]) -> float:
    """Seconds of guards in one run, all frames together: the mean of a few runs under torch's profiler."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(_RUNS):
            run()
    return sum(event.cpu_time_total for event in profiler.key_averages() if event.key == _EVENT) * 1e-6 / _RUNS
