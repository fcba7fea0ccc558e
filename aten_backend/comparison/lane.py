"""A backend's lane in the measurement of one workload: asks its bench, and keeps what came back."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from aten_backend.comparison.backends import Backend
from aten_backend.comparison.places import Place, ProcessEndedError
from aten_backend.comparison.records import Row
from aten_backend.comparison.timing import Timed
from aten_backend.comparison.workloads import Workload

START = "start"
"""The folder of the caches that a process fills before its first workload."""


class Lane(Timed):
    """Asks nothing more once there is an error."""

    def __init__(self, workload: Workload, backend: Backend, place: Place) -> None:
        self.backend, self.place = backend, place
        self.row: Row = Row(workload.suite, workload.name, backend.name)

    @property
    def usable(self) -> bool:
        """Whether nothing failed so far."""
        return not self.row.error

    def start(self, folder: Path) -> None:
        """See to it that there is a process; ``folder`` is for the caches of its start."""
        try:
            self.place.start(folder)
        except ProcessEndedError as error:
            self.row.error = str(error)

    def ask(self, do: str, *given: Any) -> None:
        """A step of ``Bench``."""
        if not self.usable:
            return
        try:
            self.row = self.place.ask(do, *given)
        except ProcessEndedError as error:
            self.row.error = str(error)

    def end(self) -> None:
        """Have the process let go of the workload, also of one that failed."""
        with contextlib.suppress(ProcessEndedError):
            self.place.ask("end")

    def settle(self, repeats: int | None = None) -> int | None:
        self.ask("settle", repeats)
        return self.row.repeats if self.usable else None

    def sample(self) -> None:
        self.ask("sample")
