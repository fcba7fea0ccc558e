"""Parts of FX graphs as functions of Python text that need nothing but torch."""

from __future__ import annotations

import builtins
import dataclasses
import re
import textwrap
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from lowering import graph
from lowering.partition import Group, Partition


class NotRunnableError(Exception):
    """A graph that cannot be written as a function of its own. The text says why."""


@dataclasses.dataclass(frozen=True)
class Function:
    """``text`` defines the function ``name``, after the statements ``imports``. ``inputs`` has the nodes
    behind its parameters, in order, ``results`` those that it returns, as a tuple."""

    name: str
    text: str
    imports: tuple[str, ...]
    inputs: Mapping[str, Node]
    results: tuple[str, ...]


def whole(gm: GraphModule, name: str) -> Function:
    """All of a graph. Constants that it holds become parameters."""
    nodes = list(gm.graph.nodes)
    if strange := next((n for n in nodes if n.op == "call_module"), None):
        raise NotRunnableError(f"it calls the module {strange.target}")
    for node in nodes:
        if node.op == "get_attr" and not isinstance(constant(gm, node), torch.Tensor):
            raise NotRunnableError(f"it holds {node.target}, which is no tensor")
    inputs = [n for n in nodes if n.op in ("placeholder", "get_attr")]
    (output,) = (n for n in nodes if n.op == "output")
    results = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
    return _function(name, inputs, [n for n in nodes if n.op in ("call_function", "call_method")], results)


def constant(gm: GraphModule, node: Node) -> Any:
    """What a get_attr node stands for."""
    value: Any = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def group_function(cut: Partition, groups: Sequence[Group], name: str) -> Function:
    """What the nodes of ``groups`` compute from memory, with views and what is recomputed on the way."""
    members = {n for group in groups for n in group.nodes}
    stored = [n for group in groups for n in group.stored]
    inside: set[Node] = set()
    outside: set[Node] = set()
    stack = list(stored)
    while stack:
        node = stack.pop()
        if node in inside or node in outside:
            continue
        here = node in members or node in cut.classes.inline or graph.view_source(node) is not None
        (inside if here else outside).add(node)
        if here:
            stack += node.all_input_nodes
    order = [n for n in cut.gm.graph.nodes if n in inside or n in outside]
    return _function(name, [n for n in order if n in outside], [n for n in order if n in inside], stored)


def _function(name: str, inputs: Sequence[Node], nodes: Iterable[Node], results: Iterable[Any]) -> Function:
    made = Graph()
    known: dict[Node, Node] = {}
    for node in inputs:
        known[node] = made.placeholder(node.name)
        known[node].meta.update({k: v for k, v in node.meta.items() if k in ("val", "example_value")})
    for node in nodes:
        known[node] = made.node_copy(node, known.__getitem__)
    returned = tuple(known[r] if isinstance(r, Node) else r for r in results)
    made.output(returned)
    code = made.python_code("self", verbose=True)
    parameters = {known[n].name: n for n in inputs}
    body = code.src.partition("):\n")[2].rstrip()
    text = f"{signature(name, parameters)}\n{body}\n"
    words = set(re.findall(r"\w+", body))
    imports = tuple(_import(key, value) for key, value in code.globals.items() if key != "torch" and key in words)
    names = tuple(r.name if isinstance(r, Node) else repr(r) for r in results)
    return Function(name, text, tuple(filter(None, imports)), parameters, names)


def signature(name: str, parameters: Iterable[str]) -> str:
    """The first line of a function, or lines where it has many parameters."""
    text = f"def {name}({', '.join(parameters)}):"
    return "\n".join(textwrap.wrap(text, 118, subsequent_indent="        ", break_long_words=False))


def _import(name: str, value: Any) -> str:
    """A statement that binds ``name`` to ``value``."""
    if isinstance(value, float):
        return f"from math import {name}" if name in ("inf", "nan") else f"{name} = {value!r}"
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__} as {name}"
    if value is type(None):
        return f"{name} = type(None)"
    home, place = getattr(value, "__module__", None), getattr(value, "__qualname__", "<>")
    if home == "builtins" and hasattr(builtins, place):
        return "" if place == name else f"{name} = {place}"
    if home is None or "<" in place or "." in place:
        raise NotRunnableError(f"it uses {value!r}, which cannot be imported")
    return f"from {home} import {place} as {name}"
