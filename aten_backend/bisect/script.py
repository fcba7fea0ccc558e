"""A part of a graph as a script of its own."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from aten_backend.bisect.capture import Subject, subject_of
from aten_backend.bisect.replay import made
from aten_backend.numerics.reference import eager_values, snapshot
from lowering import graph
from lowering.symbols import to_index

_TEMPLATE = '''"""{title}

Made by `xpu-aten bisect`. Exits with 1, or fails, as long as the fault is there: python {name}
"""

import sys
from pathlib import Path

import torch

{imports}
FOLDER = Path(__file__).resolve().parent


def program({parameters}):
{body}


def inputs():
{inputs}


if __name__ == "__main__":
    sys.exit(replay(program, inputs(), options={options!r}, dynamic={dynamic!r}, slower_than={slower_than!r}))
'''


def made_inputs(subject: Subject) -> Subject:
    """``subject`` with tensors that a script can make in place of its own, of the same layouts."""
    torch.manual_seed(0)
    inputs = [made(*_layout(v)) if isinstance(v, torch.Tensor) else v for v in subject.inputs]
    return subject_of(subject.gm, inputs, eager_values(subject.gm, inputs))


def write_script(subject: Subject, path: str, title: str, made_up: bool, setting: Mapping[str, Any]) -> int:
    """Write ``subject`` to ``path``; with inputs that are not ``made_up``, these go to a file beside it. The number of
    calls in the program."""
    file = Path(path)
    writer = _Writer(subject.gm)
    inputs = [v for v, n in zip(subject.inputs, writer.placeholders, strict=True) if n in writer.parameters]
    if not made_up:
        torch.save([snapshot(v) for v in inputs], file.with_suffix(".pt"))
    imports = ["from aten_backend.bisect.replay import made, replay" if made_up else
               "from aten_backend.bisect.replay import replay"]  # fmt: skip
    if setting["plugins"]:
        imports.append("from aten_backend.targets import load_plugin\n")
        imports += [f"load_plugin({_plugin(p)!r})" for p in setting["plugins"]]
    file.write_text(
        _TEMPLATE.format(
            title=title,
            name=file.name,
            imports="\n".join(imports) + "\n",
            parameters=", ".join(n.name for n in writer.parameters),
            body="\n".join(f"    {line}" for line in writer.lines),
            inputs=_made_text(inputs) if made_up else f'    return torch.load(FOLDER / "{file.stem}.pt")',
            options={**setting["options"], "verify": "off"},
            dynamic=setting["dynamic"],
            slower_than=setting["slower_than"],
        ),
        encoding="utf-8",
    )
    return sum(n.op == "call_function" and n.target is not operator.getitem for n in subject.gm.graph.nodes)


def _plugin(text: str) -> str:
    return str(Path(text).resolve()) if text.endswith(".py") else text


def _layout(t: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], torch.dtype, int]:
    integers = not (t.dtype.is_floating_point or t.dtype.is_complex)
    return tuple(t.shape), t.stride(), t.dtype, max(int(t.max()), 1) if integers and t.numel() else 1


def _made_text(inputs: Sequence[Any]) -> str:
    lines = ["    torch.manual_seed(0)", "    return ["]
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            lines.append(f"        {value!r},")
            continue
        shape, stride, dtype, high = _layout(value)
        lines.append(f"        made({shape}, {stride}, {dtype}{'' if high == 1 else f', {high}'}),")
    return "\n".join([*lines, "    ]"])


class _Writer:
    """A graph as the lines of a function. Sizes that an input shows are read off it."""

    def __init__(self, gm: GraphModule) -> None:
        nodes = list(gm.graph.nodes)
        self.placeholders = [n for n in nodes if n.op == "placeholder"]
        self.names: dict[Node, str] = {n: _identifier(n.name) for n in nodes}
        shown = {n: text for n in self.placeholders if (text := self._shown(n)) is not None}
        self.parameters = [n for n in self.placeholders if n not in shown]
        self.lines = [f"{self.names[n]} = {text}" for n, text in shown.items()]
        for node in nodes:
            if node.op == "call_function":
                self.lines.append(f"{self.names[node]} = {self._call(node)}")
            elif node.op == "output":
                self.lines.append(f"return {self._value(list(node.args[0]))}")

    def _shown(self, node: Node) -> str | None:
        """Where an input shows the size ``node``."""
        value = node.meta.get("val")
        if not isinstance(value, torch.SymInt):
            return None
        wanted = to_index(value)
        tensors = [n for n in self.placeholders if graph.is_tensor(n)]
        places = ((n, d) for n in tensors for d, size in enumerate(graph.shape(n)) if size == wanted)
        return next((f"{self.names[n]}.shape[{d}]" for n, d in places), None)

    def _call(self, node: Node) -> str:
        if node.target is operator.getitem:
            return f"{self._value(node.args[0])}[{node.args[1]!r}]"
        arguments = [self._value(a) for a in node.args] + [f"{k}={self._value(v)}" for k, v in node.kwargs.items()]
        return f"{_target(node.target)}({', '.join(arguments)})"

    def _value(self, value: Any) -> str:
        if isinstance(value, Node):
            return self.names[value]
        if isinstance(value, (list, tuple)):
            items = ", ".join(map(self._value, value))
            return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            return f'float("{value}")'
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        return str(value) if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)) else repr(value)


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _target(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return f"torch.ops.{target}"
    module = getattr(target, "__module__", "")
    return f"{'__import__(' + repr('operator') + ')' if 'operator' in module else module}.{target.__name__}"
