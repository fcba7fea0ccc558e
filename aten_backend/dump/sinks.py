"""Where artefacts go: a numbered folder, torch's structured trace."""

from __future__ import annotations

import pathlib
import shutil
from typing import Protocol

from torch._logging._internal import trace_log, trace_structured

from aten_backend.options import OptionError

PAGE = "index.html"
KEPT = ("attempt", "00_", "01_", "02_", "03_", PAGE)
"""How the names begin of what stays in its place when a graph is lowered again."""


class Sink(Protocol):
    """Takes the artefacts of one compile after the other."""

    def open(self, kind: str) -> None:
        """A graph begins; ``kind`` is forward, backward or inference."""
        ...

    def put(self, name: str, content: str | bytes) -> None:
        """One artefact of the graph; ``name`` may have folders, and may come again with other content."""
        ...

    def set_aside(self, attempt: int) -> None:
        """The graph is lowered again: keep what there is of the attempt before apart."""
        ...


class Folder:
    """A folder of numbered folders. Raises OptionError where it cannot be written: a dump that was asked for is never
    silently lost."""

    def __init__(self, root: str) -> None:
        self.root = pathlib.Path(root)
        self.graph: pathlib.Path = self.root

    def open(self, kind: str) -> None:
        """Make the next numbered folder; several processes may write to one root."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            taken = [int(p.name[:3]) for p in self.root.iterdir() if p.name[:3].isdigit()]
            number = max(taken, default=-1) + 1
            while True:
                self.graph = self.root / f"{number:03d}_{kind}"
                try:
                    self.graph.mkdir()
                except FileExistsError:
                    number += 1
                    continue
                return
        except OSError as error:
            raise OptionError(f"xpu_aten: option 'dump_dir': {self.root} cannot be written: {error}") from error

    def put(self, name: str, content: str | bytes) -> None:
        """Write one file."""
        path = self.graph / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def set_aside(self, attempt: int) -> None:
        """Move the files of an attempt into a folder of their own."""
        aside = self.graph / f"attempt{attempt}"
        found = [p for p in self.graph.iterdir() if not p.name.startswith(KEPT)]
        aside.mkdir(exist_ok=True)
        for path in found:
            shutil.move(path, aside / path.name)


class Trace:
    """torch's structured trace (TORCH_TRACE), which tlparse shows: text only, and each artefact once."""

    def __init__(self) -> None:
        self._kind = ""
        self._shown: set[str] = set()

    @staticmethod
    def active() -> bool:
        """Whether anybody reads the trace."""
        return bool(trace_log.handlers)

    def open(self, kind: str) -> None:
        """Name what follows after the graph's kind."""
        self._kind, self._shown = kind, set()

    def put(self, name: str, content: str | bytes) -> None:
        """One artefact."""
        if isinstance(content, str) and name != PAGE and name not in self._shown:
            self._shown.add(name)
            label = f"xpu_aten_{self._kind}_{name.replace('/', '_')}"
            trace_structured(
                "artifact",
                metadata_fn=lambda: {"name": label, "encoding": "string"},
                payload_fn=lambda: content,
                expect_trace_id=False,
            )

    def set_aside(self, attempt: int) -> None:
        """The trace keeps what it was given, and takes the next attempt's."""
        self._shown.clear()
