"""A flame-like picture of a profile: the program's calls from the outside in, as wide as the time below them."""

from __future__ import annotations

import dataclasses
import html
import importlib.resources
from collections.abc import Iterator

from aten_backend.profiling import Profile

ROW = 21
"""Pixels of a row."""

SMALLEST = 0.0004
"""Share of the whole below which nothing is drawn."""


@dataclasses.dataclass
class _Call:
    """A call, the nanoseconds below it and the calls in it; ``kind`` colours it."""

    kind: str = "call"
    time: int = 0
    inner: dict[str, _Call] = dataclasses.field(default_factory=dict)


def flame(found: Profile) -> str:
    """One HTML page that needs nothing else. A click on a call makes it as wide as the page."""
    root = _tree(found)
    boxes = list(_boxes(root, "all rounds", 0, 0.0, max(root.time, 1)))
    depth = 1 + max(level for _, level, _, _, _ in boxes)
    drawn = "".join(
        f'<div class="{call.kind}" data-x="{left:.6f}" data-w="{width:.6f}" data-y="{level}" '
        f'title="{html.escape(name)}: {call.time / 1e6:.3f} ms">{html.escape(name)}</div>'
        for name, level, left, width, call in boxes
    )
    assets = importlib.resources.files("aten_backend.dump") / "assets"
    return (
        (assets / "flame.html").read_text(encoding="utf-8")
        .replace("<!--STYLE-->", (assets / "page.css").read_text(encoding="utf-8"))
        .replace("<!--FACTS-->", html.escape(_facts(found)))
        .replace("<!--HEIGHT-->", str(depth * ROW))
        .replace("<!--ROW-->", str(ROW))
        .replace("<!--BOXES-->", drawn)
    )  # fmt: skip


def _facts(found: Profile) -> str:
    rounds = len(found.rounds)
    kernels, aten = (sum(s.time for s in found.steps if s.kernel is k) / rounds / 1e6 for k in (True, False))
    return (
        f"{rounds} rounds of {found.total / rounds / 1e6:.3f} ms; in each {kernels:.3f} ms in kernels on "
        f"{found.device}, {aten:.3f} ms in ATen, {found.elsewhere / rounds / 1e6:.3f} ms of the host elsewhere"
    )


def _tree(found: Profile) -> _Call:
    root = _Call()
    for step in found.steps:
        path = [(step.graph.split()[0], "call"), *((frame, "call") for frame in step.frames)]
        path.append((step.what, "kernel" if step.kernel else "aten"))
        _add(root, path, step.time)
    _add(root, [("elsewhere on the host: guards, wrappers, Python", "host")], found.elsewhere)
    return root


def _add(call: _Call, path: list[tuple[str, str]], time: int) -> None:
    call.time += time
    for name, kind in path:
        call = call.inner.setdefault(name, _Call(kind))
        call.time += time


def _boxes(
    call: _Call, name: str, level: int, left: float, whole: int
) -> Iterator[tuple[str, int, float, float, _Call]]:
    """(name, level, left, width, call) of ``call`` and what is in it; places as shares of the whole."""
    yield name, level, left, call.time / whole, call
    for inner, found in sorted(call.inner.items(), key=lambda item: -item[1].time):
        if found.time / whole >= SMALLEST:
            yield from _boxes(found, inner, level + 1, left, whole)
        left += found.time / whole
