"""Requests answered in a fork of this process, so that what kills it, or never ends, costs nothing but the fork.

Importing and tracing take seconds and are done once, before the first fork. They open no device and start no threads
that matter: both belong to the fork.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from aten_backend.bisect.trial import Outcome, died, hung

Request = dict[str, Any]

_context = multiprocessing.get_context("fork")


class DeadError(RuntimeError):
    """The fork ended, or took too long; ``outcome`` says which."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(outcome.detail)


class Forked:
    """Has ``answer`` called in a fork, the same one until it dies. More than ``timeout`` seconds are a hang."""

    def __init__(self, answer: Callable[[Request], Any], timeout: float) -> None:
        self._answer, self._timeout = answer, timeout
        self._process: multiprocessing.context.ForkProcess | None = None
        self._pipe: Connection | None = None

    def ask(self, request: Request) -> Any:
        """The answer. Raises DeadError where there is none."""
        if self._process is None:
            self._start()
        assert self._pipe is not None
        try:
            self._pipe.send(request)
            answered = self._pipe.poll(self._timeout)
            return self._pipe.recv() if answered else self._dead(late=True)
        except (EOFError, OSError):  # the other end of the pipe is closed
            return self._dead(late=False)

    def close(self) -> None:
        """End the fork: it reads until nobody asks."""
        if self._process is not None and self._pipe is not None:
            self._pipe.close()
            self._process.join()

    def _start(self) -> None:
        self._pipe, theirs = _context.Pipe()
        self._process = _context.Process(target=self._serve, args=(self._pipe, theirs))
        self._process.start()
        theirs.close()

    def _serve(self, ours: Connection, theirs: Connection) -> None:
        """What the fork does."""
        ours.close()  # else the pipe would never end
        while True:
            try:
                request = theirs.recv()
            except EOFError:
                return
            theirs.send(self._answer(request))

    def _dead(self, late: bool) -> Any:
        process, self._process = self._process, None
        assert process is not None
        if late:
            process.kill()
        process.join()
        raise DeadError(hung(self._timeout) if late else died(process.exitcode or 0))
