"""Where a backend is measured: in a process of its own, or in this one."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import types
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import torch

from aten_backend.comparison.backends import Backend
from aten_backend.comparison.bench import Bench
from aten_backend.comparison.workloads import Workload

_PATIENCE = 10.0
"""Seconds that a process may take to end by itself."""


class ProcessEndedError(RuntimeError):
    """The process of a backend ended while it was asked. The text says how."""


class Place(Protocol):
    """Somewhere with a ``Bench``."""

    def start(self, folder: Path) -> None:
        """Be ready to be asked. ``folder`` is for caches until there is a workload."""

    def ask(self, do: str, *given: Any) -> Any:
        """What the method ``do`` of the bench returns. ProcessEndedError where there is no answer."""

    def close(self, patience: float = _PATIENCE) -> None:
        """End."""


class Here:
    """This process."""

    def __init__(self, backend: Backend) -> None:
        self._bench = Bench(backend)
        self._started = False

    def start(self, folder: Path) -> None:
        if not self._started:
            self._started = True
            self._bench.warm_up(folder)

    def ask(self, do: str, *given: Any) -> Any:
        return getattr(self._bench, do)(*given)

    def close(self, patience: float = _PATIENCE) -> None:
        self._bench.end()


class Apart:
    """A process of its own. It sleeps unless it is asked, and one that died is replaced by ``start``."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ready = False
        self._process: subprocess.Popen[bytes] | None = None
        self._spawn()

    def start(self, folder: Path) -> None:
        if self._process is None:
            self._spawn()
        if not self._ready:
            self.ask("warm_up", folder)
            self._ready = True

    def ask(self, do: str, *given: Any) -> Any:
        if self._process is None:
            raise ProcessEndedError(f"the process of {self._backend.name} has ended")
        try:
            self._asked.send_bytes(dumps((do, given)))
            return pickle.loads(self._asked.recv_bytes())
        except (EOFError, ConnectionError):
            raise self._ended() from None

    def close(self, patience: float = _PATIENCE) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._asked.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        self._kill(process)

    def _spawn(self) -> None:
        """Not by forking, and not by multiprocessing, which would run the user's script again in each process."""
        self._ready = False
        self._asked, theirs = _pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "aten_backend.comparison.child", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # an interrupt from the keyboard is ours alone, and ends it with its children
            )
        self._asked.send_bytes(dumps((self._backend, torch.get_num_threads())))

    def _ended(self) -> ProcessEndedError:
        process, self._process = self._process, None
        assert process is not None
        self._asked.close()
        code = process.wait()
        self._kill(process)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return ProcessEndedError(f"the process of {self._backend.name} ended with {how}")

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        """With what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _pipe() -> tuple[Connection, Connection]:
    ours, theirs = Pipe()
    assert isinstance(ours, Connection) and isinstance(theirs, Connection)
    return ours, theirs


def dumps(value: Any) -> bytes:
    """A pickle that another process can read. pickle.PicklingError, or what objects raise, if there is none."""
    text = io.BytesIO()
    _Pickler(text).dump(value)
    return text.getvalue()


class _Pickler(pickle.Pickler):
    """Refuses what is defined in the script that runs: another process has another one."""

    def persistent_id(self, obj: Any) -> None:
        if isinstance(obj, (type, types.FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__} is defined in the script that runs")


def can_move(workload: Workload) -> bool:
    """Whether ``workload`` can be handed to another process."""
    try:
        dumps(workload)
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):  # as pickle, and tensors, refuse
        return False
    return True
