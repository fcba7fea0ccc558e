"""The parent's end: asks the child process, and starts another where one dies."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from aten_backend.bisect.trial import Outcome, Symptom
from aten_backend.targets import TargetError

Answer = Any


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is bisected. ``options`` are those of torch.compile, by name; ``plugins`` are imported before the target;
    ``dynamic`` is torch.compile's; ``train`` runs the backward pass too; ``slower_than`` makes a graph that takes more
    than so many times eager's time a fault; an answer that takes more than ``timeout`` seconds is a hang."""

    target: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    plugins: tuple[str, ...] = ()
    dynamic: bool | None = None
    train: bool = False
    slower_than: float | None = None
    timeout: float = 300.0


class DiedError(RuntimeError):
    """The child ended, or did not answer in time. ``outcome`` is what that means where a trial was under way."""

    def __init__(self, outcome: Outcome, stderr: str) -> None:
        self.outcome = outcome
        super().__init__(f"{outcome.symptom.value}: {outcome.detail}\n{stderr}".strip())


class Prober:
    """A child process that is replaced when it dies. Use as a context manager."""

    def __init__(self, setting: Setting, tell: Callable[[str], None] = lambda text: None) -> None:
        self.setting, self.tell = setting, tell
        self.trials = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._spare: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the prober

    def __enter__(self) -> Prober:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()

    def ask(self, do: str, **request: Any) -> Answer:
        """An answer. Raises TargetError where the target cannot be used, DiedError where the child ends instead."""
        if self._process is None:
            self._start()
        return self._exchange({"do": do, **request})

    def attempt(self, what: str, **request: Any) -> Outcome:
        """The outcome of a trial; ``what`` tells people which."""
        self.trials += 1
        self.tell(what)
        try:
            found = self.ask("attempt", **request)
        except DiedError as died:
            return died.outcome
        return Outcome(**{**found, "symptom": Symptom(found["symptom"])})

    def _start(self) -> None:
        """A child that is ready. Once one has died, the next one begins to trace before it is needed."""
        self.tell("tracing the target")
        self._process, self._spare = self._spare or self._spawn(), None
        answer = self._receive(self._process)
        if "unusable" in answer:
            raise TargetError(answer["unusable"])
        if self._deaths:
            self._spare = self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        """A child that has begun to trace the target."""
        process = subprocess.Popen(
            [sys.executable, "-m", "aten_backend.bisect.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        _send(process, dataclasses.asdict(self.setting))
        return process

    def _exchange(self, message: Any) -> Answer:
        process = self._process
        assert process is not None
        _send(process, message)
        return self._receive(process)

    def _receive(self, process: subprocess.Popen[bytes]) -> Answer:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], self.setting.timeout)
        line = process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        raise self._died(process, hung=not ready)

    def _died(self, process: subprocess.Popen[bytes], hung: bool) -> DiedError:
        if hung:
            process.kill()
        code = process.wait()
        self._process = None
        self._deaths += 1
        self._errors.seek(0)
        tail = self._errors.read().decode(errors="replace")[-2000:]
        if hung:
            return DiedError(Outcome(Symptom.HANG, f"no answer within {self.setting.timeout:.0f} s"), tail)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return DiedError(Outcome(Symptom.CRASH, f"the process ended with {name}"), tail)

    def _end(self) -> None:
        for process in filter(None, (self._process, self._spare)):
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
        self._process = self._spare = None


def _send(process: subprocess.Popen[bytes], message: Any) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # a child that is gone is met when its answer is read
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
