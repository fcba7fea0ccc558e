"""Where kernels share their cores with OpenMP's threads, these sleep between ATen's ops instead of spinning."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from support import ROOT

SPENT = """
import statistics, time, torch
from runtime import openmp
{start}
x = torch.zeros(2**18)
spent = []
for _ in range(15):
    x.add_(1)
    begin = time.process_time()
    time.sleep(0.03)
    spent.append(time.process_time() - begin)
print(statistics.median(spent))
"""


def spent(start: str = "", **environment: str) -> float:
    """Seconds of processor time (which a busy machine does not change) after an op of ATen is over."""
    done = subprocess.run(
        [sys.executable, "-c", SPENT.format(start=start)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout)


@pytest.mark.skipif("OpenMP" not in torch.__config__.parallel_info(), reason="this torch has no OpenMP")
@pytest.mark.skipif(torch.get_num_threads() == 1, reason="one thread waits for nobody")
def test_a_parked_team_ends_the_spinning():
    assert spent("openmp.stop_spinning()") < 0.5e-3 < spent()


def test_the_environment_decides_first():
    assert spent("openmp.stop_spinning(); assert openmp._state.parked is None", GOMP_SPINCOUNT="0") < 0.5e-3


def test_a_team_is_parked_once_a_process():
    code = """
import threading, torch
def f(x): return (x * 2).sum(-1)
before = threading.active_count()
for rows in (3, 4):
    torch._dynamo.reset()
    torch.compile(f, backend="xpu_aten")(torch.ones(rows, 5))
print(sum("parked" in t.name for t in threading.enumerate()))
"""
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == (torch.get_num_threads() > 1)
