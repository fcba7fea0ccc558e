"""The parent's end: starts the child process, and asks it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from aten_backend.bisect.trial import Outcome, Symptom, died
from aten_backend.targets import TargetError

Answer = Any


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is bisected. ``options`` are those of torch.compile, by name; ``plugins`` are imported before the target;
    ``dynamic`` is torch.compile's; ``train`` runs the backward pass too; ``slower_than`` makes a graph that takes more
    than so many times eager's time a fault; a trial that takes more than ``timeout`` seconds is a hang."""

    target: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    plugins: tuple[str, ...] = ()
    dynamic: bool | None = None
    train: bool = False
    slower_than: float | None = None
    timeout: float = 300.0


class DiedError(RuntimeError):
    """What answers ended, or took too long. ``outcome`` is what that means where a trial was under way."""

    def __init__(self, outcome: Outcome, stderr: str) -> None:
        self.outcome = outcome
        super().__init__(f"{outcome.symptom.value}: {outcome.detail}\n{stderr}".strip())


class Prober:
    """The child process and what is asked of it. Use as a context manager."""

    def __init__(self, setting: Setting, tell: Callable[[str], None] = lambda text: None) -> None:
        self.setting, self.tell = setting, tell
        self.trials = 0
        self.start_seconds = 0.0
        """How long the child took to start and to trace the target."""
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the prober

    def __enter__(self) -> Prober:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
        self._errors.close()

    def ask(self, do: str, **request: Any) -> Answer:
        """An answer. Raises TargetError where the target cannot be used, DiedError where there is no answer."""
        if self._process is None:
            self._start()
        assert self._process is not None
        _send(self._process, {"do": do, **request})
        answer = self._receive(self._process)
        if "died" in answer:
            raise DiedError(_outcome(answer["died"]), self._said())
        return answer["found"]

    def attempt(self, what: str, **request: Any) -> Outcome:
        """The outcome of a trial; ``what`` tells people which."""
        self.trials += 1
        self.tell(what)
        try:
            return _outcome(self.ask("attempt", **request))
        except DiedError as died:
            return died.outcome

    def _start(self) -> None:
        """A child that has traced the target."""
        self.tell("tracing the target")
        start = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "aten_backend.bisect.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        _send(self._process, dataclasses.asdict(self.setting))
        answer = self._receive(self._process)
        if "unusable" in answer:
            raise TargetError(answer["unusable"])
        self.start_seconds = time.perf_counter() - start

    def _receive(self, process: subprocess.Popen[bytes]) -> Answer:
        """An answer. The child sees to the time that a trial may take; tracing may take any."""
        assert process.stdout is not None
        if line := process.stdout.readline():
            return json.loads(line)
        self._process = None
        raise DiedError(died(process.wait()), self._said())

    def _said(self) -> str:
        """The end of what the child printed."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2000:]


def _outcome(found: Mapping[str, Any]) -> Outcome:
    return Outcome(**{**found, "symptom": Symptom(found["symptom"])})


def _send(process: subprocess.Popen[bytes], message: Any) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # a child that is gone is met when its answer is read
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
