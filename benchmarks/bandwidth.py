"""Arrays beyond the caches: how much of the bandwidth of a triad kernels reach.

Run it: ``python benchmarks/bandwidth.py``. It needs 3 GiB of memory and a quiet machine. docs/performance.md has the
results.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

SHAPE = (16384, 8192)
"""512 MiB of float32."""

ROUNDS = 7

# what is computed from two arrays, and how many of that size it reads and writes
CASES: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], int]] = {
    "x*2+y": (lambda x, y: x * 2 + y, 3),
    "gelu(x)*y": (lambda x, y: F.gelu(x) * y, 3),
    "sum of squares of rows": (lambda x, y: (x * x).sum(-1), 1),
    "sum of squares of columns": (lambda x, y: (x * x).sum(0), 1),
    "softmax over rows": (lambda x, y: torch.softmax(x, -1), 2),
}


def seconds(call: Callable[[], object]) -> float:
    """The time of one call; its result is given up within it."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """One table."""
    x, y, out = torch.randn(SHAPE), torch.randn(SHAPE), torch.empty(SHAPE)
    calls: dict[str, tuple[Callable[[], object], int]] = {"triad": (lambda: torch.add(x, y, alpha=2.0, out=out), 3)}
    for name, (function, arrays) in CASES.items():
        compiled = torch.compile(function, backend="xpu_aten", dynamic=False)
        calls[name] = (lambda compiled=compiled: compiled(x, y), arrays)  # type: ignore[misc]
    taken: dict[str, list[float]] = {name: [] for name in calls}
    with torch.no_grad():
        for turn in range(ROUNDS + 1):
            for name, (call, _) in calls.items():
                found = seconds(call)
                if turn:  # the first compiles
                    taken[name].append(found)
    rates = {name: calls[name][1] * x.nbytes / statistics.median(times) / 1e9 for name, times in taken.items()}
    for name, rate in rates.items():
        print(f"{name:26} {rate:6.1f} GB/s  {rate / rates['triad']:.2f} of the triad")


if __name__ == "__main__":
    main()
