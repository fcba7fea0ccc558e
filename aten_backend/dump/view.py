"""What the page shows of one compile, as plain data."""

from __future__ import annotations

import linecache
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch.fx import Node

from aten_backend.dump.layout import layered
from aten_backend.dump.story import Story
from aten_backend.dump.values import NotMadeError, Sizes, fake_value, recipe
from lowering import graph
from lowering.assemble import Kernel
from lowering.classify import op_name
from lowering.errors import user_line
from lowering.partition import Extern, Group, Partition
from runtime.profile import WAIT

CONTEXT = 2
"""Lines of the program shown around each that something came of."""

WIDTH, TITLE, ROW, ROWS, FOOT = 236, 40, 15, 12, 5
"""Of a box in the drawing: its width, the height of its title and of a row, the most rows, and the room below them."""


class _Lines:
    """The user's lines, numbered as they are met."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int], int] = {}
        self.code: list[str] = []

    def number(self, node: Node) -> int:
        """The line behind ``node``; -1 where it is unknown."""
        text = user_line(node)
        if not text:
            return -1
        place, _, code = text.partition(": ")
        file, _, line = place.rpartition(":")
        key = (file, int(line))
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.code.append(code)
        return self.numbers[key]

    def listing(self) -> list[dict[str, Any]]:
        """Each file with its lines and their neighbours: [line, text, number or -1]; a gap is [0, "", -1]."""
        files: dict[str, set[int]] = {}
        for file, line in self.numbers:
            files.setdefault(file, set()).add(line)
        return [{"file": file, "rows": self._rows(file, lines)} for file, lines in files.items()]

    def _rows(self, file: str, lines: set[int]) -> list[list[Any]]:
        rows: list[list[Any]] = []
        shown = sorted({n for line in lines for n in range(line - CONTEXT, line + CONTEXT + 1) if n > 0})
        last = 0
        for n in shown:
            text = linecache.getline(file, n).rstrip("\n")
            number = self.numbers.get((file, n), -1)
            if not text and number >= 0:
                text = self.code[number]
            if last and n > last + 1:
                rows.append([0, "", -1])
            if text or number >= 0:
                rows.append([n, text, number])
            last = n
        return rows


def model(story: Story, names: Mapping[Group, str], files: Collection[str]) -> dict[str, Any]:
    """Everything for one page. ``names`` has the script of each group, ``files`` all that was written."""
    cut = story.cut
    lines = _Lines()
    gm = cut.gm if cut is not None else story.made.get("passes") or story.made.get(story.kind)
    nodes = [n for n in gm.graph.nodes if n.op in ("call_function", "get_attr")] if gm is not None else []
    steps = _steps(cut, story, names) if cut is not None else []
    home = _homes(nodes, steps)
    result = {
        "kind": story.kind,
        "failed": None if story.failed is None else {"stage": story.failed.stage, "error": story.failed.error},
        "nodes": [_node(n, lines.number(n), home, cut) for n in nodes],
        "steps": steps,
        "drawing": _drawing(cut, steps) if cut is not None else None,
        "kernels": _kernels(story),
        "spans": _spans(story),
        "launches": len(story.launches),
        "runs": story.runs,
        "device": story.device.name if story.device is not None else "",
        "stages": [{"stage": e.stage, "ms": round(e.seconds * 1e3, 2), "error": e.error} for e in story.events],
        "files": sorted(files),
    }
    result["lines"] = [[file, line, lines.code[n]] for (file, line), n in lines.numbers.items()]
    result["program"] = lines.listing()
    return result


def _homes(nodes: list[Node], steps: list[dict[str, Any]]) -> dict[str, int]:
    """The step of each node; of one in none, as a view, that of what it views, else that of its first reader."""
    home = {name: s for s, step in enumerate(steps) for name in step["nodes"]}
    for node in nodes:
        source = graph.view_source(node)
        if node.name not in home and source is not None and source.name in home:
            home[node.name] = home[source.name]
    for node in reversed(nodes):
        readers = [home[u.name] for u in node.users if u.name in home]
        if node.name not in home and readers:
            home[node.name] = min(readers)
    return home


def _node(node: Node, line: int, home: Mapping[str, int], cut: Partition | None) -> dict[str, Any]:
    kind = "value"
    if cut is not None:
        classes = cut.classes
        kind = (
            "recomputed" if node in classes.inline else "fused" if node in classes.fused
            else "view" if node in classes.views else "host" if node in classes.host
            else "aten" if node in classes.refused else "value"
        )  # fmt: skip
    name = op_name(node) if node.op == "call_function" else str(node.target)
    arguments = ", ".join([*map(_text, node.args), *(f"{k}={_text(v)}" for k, v in node.kwargs.items())])
    return {
        "name": node.name, "op": name, "args": arguments, "type": _type(fake_value(node)), "line": line,
        "step": home.get(node.name, -1), "kind": kind,
    }  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


def _type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_type, value))
    return type(value).__name__


# ---- steps
# -------------------------------------------------------------------------------------------------------------


def _steps(cut: Partition, story: Story, names: Mapping[Group, str]) -> list[dict[str, Any]]:
    kernels, found = story.kernels, []
    refusals = {r.node: r for r in cut.refusals}
    for step, moved in zip(cut.steps, step_bytes(story), strict=True):
        if isinstance(step, Extern):
            refusal = refusals[step.node.name]
            found.append(
                {
                    "kind": "aten", "title": op_name(step.node), "nodes": [step.node.name], "reason": step.reason,
                    "deliberate": refusal.deliberate, "bytes": moved, "launches": [], "script": "",
                }
            )  # fmt: skip
            continue
        launched = kernels.get(step, ())
        found.append(
            {
                "kind": "kernel", "title": launched[0].source.name if launched else "group", "reason": "",
                "nodes": [n.name for n in step.nodes], "deliberate": True,
                "bytes": moved, "script": names.get(step, ""), "launches": [_launch(k) for k in launched],
            }
        )  # fmt: skip
    return found


def _launch(kernel: Kernel) -> dict[str, Any]:
    """A launch of a kernel; ``origins`` has the nodes of each line, which differ between launches of one text."""
    buffers = [f"b{i}: {b.name} ({'written' if b.written else 'read'})" for i, b in enumerate(kernel.buffers)]
    return {
        "kernel": kernel.source.name, "origins": [list(o) for o in kernel.origins], "buffers": buffers,
        "schedule": str(kernel.schedule), "size": " x ".join(map(str, kernel.global_size)),
    }  # fmt: skip


def _kernels(story: Story) -> dict[str, list[str]]:
    return {k.source.name: k.source.text.splitlines() for found in story.kernels.values() for k in found}


def step_bytes(story: Story) -> list[int]:
    """For each step of the partition, the bytes of the tensors that it reads and writes, each once for each way."""
    cut = story.cut
    if cut is None:
        return []
    tensors, kernels, found = {n.name: n for n in cut.gm.graph.nodes}, story.kernels, []
    counted: set[int] = set()
    for step in cut.steps:
        if isinstance(step, Extern):
            nodes = [step.node, *step.node.all_input_nodes]
        else:
            here = [k for k in kernels.get(step, ()) if id(k) not in counted]  # one that groups share counts once
            counted.update(map(id, here))
            buffers = ((b.name, b.written) for k in here for b in k.buffers if b.scratch is None)
            nodes = [tensors[name] for name, _ in dict.fromkeys(buffers)]
        found.append(sum(tensor_bytes(n, story.sizes) for n in nodes))
    return found


def tensor_bytes(node: Node, sizes: Sizes) -> int:
    """Bytes of the elements behind ``node``; 0 for what is no tensor."""
    value = fake_value(node)
    values = value if isinstance(value, (tuple, list)) else (value,)
    total = 0
    for one in values:
        try:
            total += recipe(one, sizes).bytes
        except NotMadeError:
            continue
    return total


def _spans(story: Story) -> list[list[Any]]:
    """[step, start, length, [[start, length] of each kernel]] of the last run measured, in microseconds."""
    start = min((s.start for s in story.spans), default=0)
    return [
        [
            "wait" if s.step == WAIT else s.step, round((s.start - start) / 1e3, 2), round((s.end - s.start) / 1e3, 2),
            [[round((a - start) / 1e3, 2), round((b - a) / 1e3, 2)] for a, b in s.kernels],
        ]
        for s in story.spans
    ]  # fmt: skip


# ---- the drawing
# -------------------------------------------------------------------------------------------------------


def _drawing(cut: Partition, steps: list[dict[str, Any]]) -> dict[str, Any]:
    home = {name: s for s, step in enumerate(steps) for name in step["nodes"]}
    edges = dict.fromkeys(
        (home[source.name], s)
        for s, step in enumerate(cut.steps)
        for node in ((step.node,) if isinstance(step, Extern) else step.nodes)
        for source in _sources(cut, node, home)
        if home[source.name] != s
    )
    sizes = [(WIDTH, TITLE + ROW * min(len(step["nodes"]), ROWS + 1) + FOOT) for step in steps]
    drawn = layered(sizes, list(edges))
    return {
        "boxes": [[x, y, w, h] for (x, y), (w, h) in zip(drawn.corners, sizes, strict=True)],
        "edges": [[a, b, route] for (a, b), route in zip(edges, drawn.routes, strict=True)],
        "width": drawn.width, "height": drawn.height, "rows": ROWS,
    }  # fmt: skip


def _sources(cut: Partition, node: Node, home: Mapping[str, int]) -> list[Node]:
    """What stands in some step and is read by ``node``, itself or through views and what is recomputed."""
    found, stack, seen = [], list(node.all_input_nodes), set[Node]()
    while stack:
        source = stack.pop()
        if source in seen:
            continue
        seen.add(source)
        if source.name in home:
            found.append(source)
        elif source in cut.classes.inline or graph.view_source(source) is not None or source in cut.classes.host:
            stack += source.all_input_nodes
    return found
