"""Peak memory of training steps: resident memory at its peak over that before the step.

Run it: ``python benchmarks/memory.py``. Each backend has a process of its own, and what earlier steps have left in the
C library's hands is given back before each step. Linux only. docs/performance.md has the results.
"""

from __future__ import annotations

import ctypes
import gc
import pathlib
import statistics
import subprocess
import sys

import torch

from aten_backend.comparison.memory import peak_growth
from aten_backend.comparison.suites import training
from aten_backend.profiling import run_once

BACKENDS = ("eager", "xpu_aten", "inductor")
WARM_UP, STEPS = 4, 5


def measure(name: str, backend: str) -> float:
    """Megabytes that a step of the workload takes beside what was there, the median of a few."""
    torch.manual_seed(0)
    case = next(w for w in training.WORKLOADS if w.name == name).make()
    fn = case.fn if backend == "eager" else torch.compile(case.fn, backend=backend, dynamic=case.dynamic)

    def step() -> None:
        for args in case.calls:
            run_once(lambda *given: fn(*given, **case.kwargs), args)

    for _ in range(WARM_UP):
        step()
    grown = []
    for _ in range(STEPS):
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        grown.append((peak_growth(step) or 0) / 1e6)
    return statistics.median(grown)


def main() -> None:
    """One line a workload; with a workload and a backend, one number."""
    if len(sys.argv) == 3:
        print(measure(*sys.argv[1:]))
        return
    print(f"{'MB':30} " + " ".join(f"{backend:>10}" for backend in BACKENDS))
    for workload in training.WORKLOADS:
        found = []
        for backend in BACKENDS:
            command = [sys.executable, str(pathlib.Path(__file__)), workload.name, backend]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            found.append(float(done.stdout.split()[-1]))
        print(f"{workload.name:30} " + " ".join(f"{megabytes:10.1f}" for megabytes in found), flush=True)


if __name__ == "__main__":
    main()
