"""An explanation as a page."""

from __future__ import annotations

import html
import importlib.resources
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aten_backend.explanation import Explanation

_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><title>xpu_aten explains</title><style>'
)
_STYLE = (
    "body.contents{max-width:72rem}pre{overflow-x:auto;font:12px/1.6 var(--mono)}"
    "summary{cursor:pointer;padding:.3rem 0}"
)


def report(found: Explanation) -> str:
    """The page: coverage, what would make it better, ATen calls by reason, and kernels with their text."""
    style = (importlib.resources.files("aten_backend.dump") / "assets" / "page.css").read_text(encoding="utf-8")
    distinct = {g.kernel for g in found.groups}
    facts = (
        f"<p><b>{found.graphs}</b> graphs, <b>{len(found.groups)}</b> launches of <b>{len(distinct)}</b> kernels, "
        f"<b>{len(found.externs)}</b> calls of ATen, coverage <b>{found.coverage:.0%}</b></p>"
    )
    parts = [_HEAD, style, _STYLE, '</style></head><body class="contents"><h1>What xpu_aten makes of it</h1>', facts]
    if found.advice:
        parts.append("<h2>What would make it better</h2>")
        parts += [_card(f"{a.kind}, graph {a.graph}", a.text, [a.source]) for a in found.advice]
    parts.append("<h2>Left to ATen</h2>")
    reasons: dict[tuple[str, str, bool], list[Any]] = {}
    for e in found.externs:
        reasons.setdefault((e.op, e.reason, e.deliberate), []).append(e)
    for (op, reason, deliberate), calls in sorted(reasons.items(), key=lambda item: item[0][2]):
        why = "on purpose" if deliberate else "for want of a lowering"
        parts.append(_card(f"{op}, {len(calls)} times, {why}", reason, dict.fromkeys(c.source for c in calls)))
    parts.append("<h2>Kernels</h2>")
    for g in found.groups:
        title = f"[{g.graph}] {g.kernel}: {len(g.ops)} ops"
        lines = "".join(f"<div><code>{html.escape(s)}</code></div>" for s in g.sources)
        body = f"<p>{html.escape(', '.join(g.ops))}</p>{lines}<pre>{html.escape(g.text)}</pre>"
        parts.append(f"<details><summary>{html.escape(title)}</summary>{body}</details>")
    return "".join([*parts, "</body></html>\n"])


def _card(title: str, text: str, sources: Iterable[str]) -> str:
    lines = "".join(f"<div><code>{html.escape(s)}</code></div>" for s in sources if s)
    return f'<div class="card"><b>{html.escape(title)}</b><div>{html.escape(text)}</div>{lines}</div>'
