"""Writing what became of each graph: one numbered folder a graph, one readable file a stage."""

from __future__ import annotations

import pathlib
from typing import Any

from aten_backend.options import OptionError


def readable(artefact: Any) -> str:
    """An artefact as text."""
    if isinstance(artefact, (list, tuple)):
        return "\n\n".join(readable(a) for a in artefact if a is not None)
    if isinstance(artefact, dict):
        return "\n".join(map(str, artefact.values()))
    return str(artefact)


class Dump:
    """An observer that writes every artefact under ``folder``. One for each `torch.compile` call.

    Files are numbered in the order of the stages; a graph that is lowered again, because something is to be left to
    ATen, gets another folder. Raises OptionError where the folder cannot be written: a dump that was asked for is never
    silently lost.
    """

    def __init__(self, folder: str) -> None:
        self._folder = pathlib.Path(folder)
        self._graph: pathlib.Path | None = None
        self._count = 0

    def __call__(self, stage: str, artefact: Any, seconds: float) -> None:
        if stage == "passes" or self._graph is None:
            self._open()
        assert self._graph is not None
        suffix = "py" if stage in ("emit", "plan") else "txt"
        name = f"{self._count:02d}_{stage}.{suffix}"
        (self._graph / name).write_text(f"# {stage}: {seconds * 1e3:.1f} ms\n{_text(stage, artefact)}\n")
        self._count += 1

    def _open(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"xpu_aten: option 'dump_dir': {self._folder} cannot be written: {error}") from error
        number = 0
        while True:  # several processes may write to one folder
            self._graph = self._folder / f"graph{number:03d}"
            try:
                self._graph.mkdir()
            except FileExistsError:
                number += 1
                continue
            self._count = 0
            return


def _text(stage: str, artefact: Any) -> str:
    if stage == "passes":
        return str(artefact.print_readable(print_output=False))
    if stage == "emit":
        return "\n\n".join(kernel.source.text for kernel in artefact)
    return readable(artefact)
