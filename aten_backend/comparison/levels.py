"""The page of the two levels: its sizes, what was measured, and the kernels that both make of the same workloads."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aten_backend.comparison import costs, render, sizes, suites
from aten_backend.comparison.backends import OURS, TWIN, Backend, caches_in, inductor_code
from aten_backend.comparison.records import Comparison
from aten_backend.comparison.subject import Subject
from aten_backend.comparison.workloads import Workload
from aten_backend.observe import watching

CHOSEN = (
    "fusion/gelu(x+b)*z 256x768",
    "fusion/softmax 2048x4096",
    "fusion/layer_norm(x+y)",
    "fusion/sum of squares, columns",
    "fusion/rotary embedding",
    "training/BERT step",
)
"""What is shown unless workloads are named."""

SHOWN = 4
"""Kernels up to which all texts are shown; of more only the names are."""

_NAME = re.compile(r"(?<!np\.)\b[a-z]+\d+\b(?!\()")


def chosen() -> list[Workload]:
    """The workloads of CHOSEN."""
    return [next(w for w in suites.select([label.partition("/")[0]], "") if w.label == label) for label in CHOSEN]


def kernels_of(workload: Workload, name: str) -> list[str]:
    """The text of each distinct kernel that the backend ``name`` makes of ``workload``, backward graphs included."""
    case = workload.make()
    with _texts(name) as (backend, texts):
        Subject(workload, case, backend).compile_warm()  # the call that does not count kernels by itself
    return list(dict.fromkeys(texts))


class _Planned:
    """Notes the texts of the kernels of each plan that is linked; those of earlier attempts at a graph are not."""

    def __init__(self, texts: list[str]) -> None:
        self.texts, self.plan = texts, list[str]()

    def __call__(self, stage: str, artefact: Any, seconds: float) -> None:
        if stage == "plan":
            self.plan = [kernel.source.text for kernel in artefact.kernels]
        elif stage == "link":
            self.texts += self.plan


@contextlib.contextmanager
def _texts(name: str) -> Iterator[tuple[Backend, list[str]]]:
    """A backend, and the texts of the kernels that it has emitted, filled at the end."""
    texts: list[str] = []
    with tempfile.TemporaryDirectory() as folder, caches_in(Path(folder)):
        if name == OURS:
            with watching(_Planned(texts)):
                yield Backend(name), texts
        else:
            with inductor_code().captured_code() as code:
                yield Backend(name), texts
            texts += inductor_code().kernel_texts(code)
    texts[:] = [t.rstrip() + "\n" for t in texts]


def canonical(text: str) -> str:
    """The body of a kernel with its variables numbered in the order in which they occur."""
    known: dict[str, str] = {}
    body = text.partition("\n")[2]
    return _NAME.sub(lambda found: known.setdefault(found[0], f"t{len(known)}"), body)


def section(workload: Workload) -> str:
    """One workload in Markdown."""
    mine, theirs = kernels_of(workload, OURS), kernels_of(workload, TWIN)
    known = {canonical(t): t for t in theirs}
    shared = [t for t in mine if canonical(t) in known]
    lines = [f"### {workload.name}", "", f"{OURS}: {_count(mine)}; {TWIN}: {_count(theirs)}; {len(shared)} the same."]
    if max(len(mine), len(theirs)) > SHOWN:
        lines += ["", f"| {OURS} | {TWIN} |", "|---|---|"]
        rest = [t for t in theirs if canonical(t) not in {canonical(s) for s in shared}]
        lines += [f"| `{_name(t)}` | the same |" for t in shared]
        alone = [t for t in mine if t not in shared]
        for n in range(max(len(alone), len(rest))):
            left, right = (f"`{_name(side[n])}`" if n < len(side) else "" for side in (alone, rest))
            lines.append(f"| {left} | {right} |")
        return "\n".join(lines) + "\n"
    for text in mine:
        lines += ["", "At both levels, but for names:" if text in shared else f"{OURS}:", *_block(text)]
    for text in theirs:
        if canonical(text) not in {canonical(s) for s in shared}:
            lines += ["", f"{TWIN}:", *_block(text)]
    return "\n".join(lines) + "\n"


def _block(text: str) -> list[str]:
    return ["", "```python", text.rstrip(), "```"]


def _count(texts: Sequence[str]) -> str:
    return f"{len(texts)} kernel{'' if len(texts) == 1 else 's'}"


def _name(text: str) -> str:
    return text.removeprefix("def ").partition("(")[0]


def write(path: Path, workloads: Sequence[Workload], measured: Comparison | None) -> None:
    """Write sizes, what was ``measured`` (kept as it is if None) and the kernels of ``workloads`` into the page at
    ``path``, between its markers; parts without markers come last."""
    page = path.read_text(encoding="utf-8") if path.exists() else "# The two levels\n"
    page = put(page, "sizes", render.markdown_table(sizes.sheet()))
    if measured is not None:
        page = put(page, "measured", _measured(measured))
    page = put(page, "kernels", "\n".join(section(w) for w in workloads))
    path.write_text(page, encoding="utf-8")


def put(page: str, part: str, text: str) -> str:
    """``page`` with ``text`` between the markers of ``part``."""
    first, last = f"<!-- levels: {part} -->", f"<!-- levels: end of {part} -->"
    before, marked, rest = page.partition(first)
    after = rest.partition(last)[2] if marked else ""
    return f"{before if marked else before.rstrip() + chr(10) * 2}{first}\n\n{text.strip()}\n\n{last}{after or chr(10)}"


def _measured(comparison: Comparison) -> str:
    parts = [f"Measured on {render.origin(comparison)}"]
    for sheet in costs.sheets(comparison):
        parts += [f"### {sheet.title}", *sheet.notes, render.markdown_table(sheet)]
    return "\n\n".join(parts)
