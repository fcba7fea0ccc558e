"""A program whose graphs after AOTAutograd are given to one compiler directly, and can be told apart and exchanged.

Compilers expect to be called by AOTAutograd: fake inputs, a tracing context, sizes as symbols. So they are called
from within a compiler that AOTAutograd calls, with a copy of the graph, and what they make runs as part of the program.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_map

from aten_backend.comparison.graphs.steps import Built
from aten_backend.tracing import aot_backend
from lowering.decompose import Table

Compile = Callable[[GraphModule, Sequence[Any], str], Built]
"""Called with a graph, fake inputs, and "inference", "forward" or "backward"."""

CAPTURED = "captured_name"
"""In a node's meta: its name in the captured graph, which passes keep with the rest of meta."""


@dataclasses.dataclass
class Captured:
    """A graph and what the compiler made of it; eager's, where it failed.

    ``call`` is what runs, and may be exchanged for another of ``built``. ``seconds`` grows by what the calls take.
    """

    name: str
    gm: GraphModule
    built: Built
    error: Exception | None
    compile_seconds: float
    digest: str
    call: Callable[[list[Any]], Any]
    seconds: float = 0.0

    def run(self, inputs: list[Any]) -> Any:
        """Call with a list, which is emptied."""
        started = time.perf_counter()
        results = self.call(inputs)
        self.seconds += time.perf_counter() - started
        return results


def capture(
    fn: Callable[..., Any], compiler: Compile, table: Table, dynamic: bool | None = None
) -> tuple[Callable[..., Any], list[Captured]]:
    """``fn`` through torch.compile, and the list that its graphs are added to as calls of it make them.

    ``table`` has the decompositions. A compiler that fails is the ``error`` of a graph that eager runs.
    """
    found: list[Captured] = []

    def of_kind(kind: str) -> Callable[[GraphModule, Sequence[Any]], Any]:
        def compile_one(gm: GraphModule, inputs: Sequence[Any]) -> Any:
            made = _captured(f"{len(found)} {kind}", gm, inputs, compiler)
            found.append(made)

            def run(inputs: list[Any]) -> Any:
                return made.run(inputs)

            run._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd's mark for this convention
            return run

        return compile_one

    return torch.compile(fn, backend=aot_backend(of_kind, "aten", table=table), dynamic=dynamic), found


def compile_eager(gm: GraphModule, inputs: Sequence[Any], kind: str) -> Built:
    """The graph as it is, by ATen's ops one after the other."""

    def run(inputs: list[Any]) -> Any:
        arguments = tuple(inputs)
        inputs.clear()
        return gm(*arguments)

    return Built(run)


def _captured(name: str, gm: GraphModule, inputs: Sequence[Any], compiler: Compile) -> Captured:
    for node in gm.graph.nodes:
        node.meta[CAPTURED] = node.name
    kind = name.partition(" ")[2]
    error = None
    started = time.perf_counter()
    try:
        built = compiler(copy.deepcopy(gm), inputs, kind)
    except Exception as raised:  # whatever a compiler raises: told, not hidden
        built, error = compile_eager(gm, inputs, kind), raised
    return Captured(name, gm, built, error, time.perf_counter() - started, digest(gm), built.run)


def digest(gm: GraphModule) -> str:
    """The same for graphs with the same calls, in order, of tensors of the same shapes and dtypes.

    Without strides: a compiler chooses those of what its forward graph saves for its backward graph.
    """
    lines = [f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} {_value(node)}" for node in gm.graph.nodes]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _value(node: Node) -> Any:
    return tree_map(
        lambda value: f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else str(value),
        node.meta.get("val"),
    )
