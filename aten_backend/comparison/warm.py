"""How long a training script takes to the end of its first step in a process of its own, with cold and warm caches."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from aten_backend.comparison.stats import Interval, median

PROGRAM = "aten_backend.comparison.first_step"
ROOT = Path(__file__).resolve().parents[2]


class StartError(RuntimeError):
    """The training script failed under a backend."""


@dataclasses.dataclass(frozen=True)
class Start:
    """One process: seconds from its start to the end of its first step, and what it did meanwhile. ``graphs_traced``
    counts graphs that AOTAutograd traced, ``graphs_found`` those in its cache, ``kernels_compiled`` kernels (for
    Inductor graphs) that were compiled."""

    backend: str
    seconds: float
    loss: float
    graphs_traced: int
    graphs_found: int
    kernels_compiled: int


@dataclasses.dataclass(frozen=True)
class Starts:
    """A backend's first process, which found empty caches, and the later ones."""

    cold: Start
    warm: tuple[Start, ...]

    @property
    def seconds(self) -> Interval:
        """Of a warm process, the median."""
        return median([s.seconds for s in self.warm])

    @property
    def compiles(self) -> int:
        """Graphs traced and kernels compiled by all warm processes."""
        return sum(s.graphs_traced + s.kernels_compiled for s in self.warm)


def measure(backends: Sequence[str], rounds: int, tell: Callable[[str], None] = lambda text: None) -> dict[str, Starts]:
    """Start the script with empty caches once for each backend, then ``rounds`` times for each, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = {}, {backend: list[Start]() for backend in backends}
        for backend in backends:
            tell(f"{backend}, cold")
            cold[backend] = start(backend, Path(folder) / backend)
        for number in range(rounds):
            for backend in backends:
                tell(f"{backend}, warm start {number + 1} of {rounds}")
                warm[backend].append(start(backend, Path(folder) / backend))
    return {backend: Starts(cold[backend], tuple(warm[backend])) for backend in backends}


def start(backend: str, caches: Path) -> Start:
    """Run the script once; its caches are in ``caches``. Raises StartError with what it printed when it fails."""
    environment = {**os.environ, "XPU_ATEN_CACHE_DIR": str(caches / "kernels")}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(caches / "torch")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", PROGRAM, backend, repr(time.time())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StartError(f"The training script fails under {backend}:\n{done.stderr[-2000:]}")
    return Start(**json.loads(done.stdout.splitlines()[-1]))
