"""Each backend in a process of its own: what dies is replaced, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from aten_backend.comparison import backends as named
from aten_backend.comparison import records, runner
from aten_backend.comparison.places import Apart
from aten_backend.comparison.runner import Settings
from aten_backend.comparison.workloads import of_target

TARGETS = """
import os, signal
import torch

def process():
    return (lambda x: x + os.getpid()), (torch.zeros(1, dtype=torch.int64),)

def dies():
    return (lambda x: os.kill(os.getpid(), signal.SIGKILL)), (torch.ones(3),)

def endless():
    import time
    return (lambda x: time.sleep(600)), (torch.ones(3),)
"""


@pytest.fixture
def target(tmp_path):
    (tmp_path / "own.py").write_text(TARGETS)
    return lambda name: of_target(f"{tmp_path / 'own.py'}:{name}")


def test_what_dies_is_a_row_and_is_replaced(target):
    settings, chosen = Settings(counts_only=True), named.parse(("eager",), again=False)
    made = runner.new_comparison(settings, chosen)
    runner.run([target("dies"), target("process")], chosen, settings, made)
    assert [row.error for row in made.rows] == ["the process of eager ended with SIGKILL", ""]
    assert made.rows[1].distance == 0


def test_a_process_ends_with_the_one_that_started_it():
    program = f"""
import os
from aten_backend.comparison.backends import Backend
from aten_backend.comparison.places import Apart
place = Apart(Backend("eager"))
place.ask("end")
print(place._process.pid, flush=True)
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment(), check=False)
    assert done.returncode == -signal.SIGKILL
    assert ends(int(done.stdout))


def test_closing_ends_it():
    place = Apart(named.Backend("eager"))
    process = place._process
    place.close()
    assert process is not None and process.returncode == 0, "by itself"


@pytest.mark.slow
def test_an_interrupt_ends_all_and_keeps_rows(tmp_path, target):
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "aten_backend.cli", "compare", target("process").name, target("endless").name]
    command += ["--backends", "eager", "--rounds", "1", "--json", str(result)]
    how: dict[str, Any] = {"env": environment(), "stdout": subprocess.DEVNULL, "preexec_fn": interruptible}
    with subprocess.Popen(command, **how) as process:
        while not (result.exists() and records.load(result).rows):
            time.sleep(0.2)
        started = children(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert len(started) == 2, "eager, and eager again"
    assert all(map(ends, started))
    assert [row.error for row in records.load(result).rows if "process" in row.workload] == ["", ""]


def interruptible() -> None:
    """What a shell starts in the background ignores interrupts, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(one) for one in text.split()]


def ends(pid: int, patience: float = 30.0) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":  # nobody waits for it: its parent is gone
            return True
        time.sleep(0.1)
    return False
