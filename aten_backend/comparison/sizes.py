"""How large each integration is: lines of code of the files that are its own, and of those that both share."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from aten_backend.comparison.backends import OURS, TWIN
from aten_backend.comparison.sheets import Sheet

ROOT = Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Part:
    """Files by patterns from the project's root, without those of ``but``."""

    name: str
    patterns: tuple[str, ...]
    but: tuple[str, ...] = ()

    @property
    def files(self) -> list[Path]:
        """In order, each once."""
        left_out = {path for pattern in self.but for path in ROOT.glob(pattern)}
        return sorted({path for pattern in self.patterns for path in ROOT.glob(pattern)} - left_out)

    @property
    def lines(self) -> int:
        """Lines that are neither empty nor comments."""
        return sum(_is_code(line) for path in self.files for line in path.read_text(encoding="utf-8").splitlines())


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _named(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names.split())


PARTS = (
    Part(
        f"`{TWIN}` alone",
        ("aten_backend/loop_level/*.py",),
        but=_named("aten_backend/loop_level", "inductor_code graphs"),  # the comparison's
    ),
    Part(
        f"`{OURS}` alone, without the op table",
        (
            *_named("aten_backend", "backend cached pipeline autotune"),
            *_named("lowering", "decompose classify partition axes dimensions graph build order overwrite foreach"),
            *_named("lowering", "references alternatives passes/*"),
            *_named("runtime", "plan executor memory staging"),
        ),
    ),
    Part("the op table (the loop level uses the formulas of its pointwise rows)", ("lowering/ops/*.py",)),
    Part(
        "what both share: group IR, index algebra, scalars, schedules, emitter, compiler, launcher",
        (
            *_named("lowering", "artifacts assemble chain combine dtypes emit errors faults index ir rewrite scalars"),
            *_named("lowering", "schedule simplify split stages symbols target values"),
            *_named("runtime", "cache compiler devices errors kernel_language launcher libraries native numba_compat"),
            *_named("runtime", "numba_speed oneapi opencl protocol worker"),
            *_named("aten_backend", "options observe"),
        ),
    ),
)
"""Left out: what serves no compile of one of the two (tools, checks, the interpreter, the comparison)."""


def sheet() -> Sheet:
    """The table of sizes."""
    rows = tuple((part.name, str(len(part.files)), str(part.lines)) for part in PARTS)
    return Sheet("Size", ("", "files", "lines"), rows)
