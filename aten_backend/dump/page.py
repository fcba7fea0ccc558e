"""The page of one compile, and the contents of a dump: HTML that needs nothing from anywhere else."""

from __future__ import annotations

import html
import importlib.resources
import json
import pathlib
from collections.abc import Collection, Mapping

from aten_backend.dump.story import Story
from aten_backend.dump.view import model
from lowering.partition import Group

_ASSETS = importlib.resources.files(__package__) / "assets"


def render(story: Story, names: Mapping[Group, str], files: Collection[str]) -> str:
    """The page. ``names`` has the script of each group, ``files`` all that was written beside it."""
    return page(f"xpu_aten {story.kind} graph", json.dumps(model(story, names, files), separators=(",", ":")))


def page(title: str, data: str) -> str:
    """The page for ``data``, JSON as `view.model` has it."""
    parts = {  # the data comes last, as it may hold what looks like a place for another part
        "TITLE": html.escape(title),
        "STYLE": (_ASSETS / "page.css").read_text(encoding="utf-8"),
        "SCRIPT": (_ASSETS / "page.js").read_text(encoding="utf-8"),
        "DATA": data.replace("</", "<\\/"),  # nothing in it may end the element that holds it
    }
    text = (_ASSETS / "page.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"<!--{name}-->", part)
    return text


def contents(root: pathlib.Path) -> str:
    """The front page of a dump: its graphs, as the folder has them now."""
    rows = []
    for folder in sorted(p for p in root.iterdir() if p.is_dir() and p.name[:3].isdigit()):
        failed = sorted(p.stem.removeprefix("FAILED_") for p in folder.glob("FAILED_*.txt"))
        state = f'<span class="bad">failed in {html.escape(", ".join(failed))}</span>' if failed else ""
        kernels = len(list(folder.glob("kernels/*.py")))
        name = html.escape(folder.name)
        target = f"{name}/index.html" if (folder / "index.html").exists() else f"{name}/"
        rows.append(f'<li><a href="{target}">{name}</a> <small>{kernels} kernel scripts</small> {state}</li>')
    style = (_ASSETS / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>xpu_aten dump</title>'
        f'<style>{style}</style></head><body class="contents"><h1>Graphs that xpu_aten compiled</h1>'
        f"<ol>{''.join(rows)}</ol><p>Each folder has the graph at every stage, scripts that run each graph and each "
        "kernel alone and compare with ATen, and a page to click from a line of the program to the kernel that runs "
        "it.</p></body></html>\n"
    )
