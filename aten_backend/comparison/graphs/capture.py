"""Capturing graphs after AOTAutograd, with the inputs that they meet, and compiling each right there.

Compilers expect to be called by AOTAutograd: fake inputs, a tracing context, sizes as symbols. So they are called
from within a compiler that AOTAutograd calls, all of them with a copy of the same graph; what runs is eager's.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._guards import TracingContext
from torch.fx import GraphModule

from aten_backend.comparison.graphs.steps import Built
from lowering.decompose import Table

Compile = Callable[[GraphModule, Sequence[Any], str], Built]
"""Called with a graph, fake inputs, and "inference", "forward" or "backward"."""

CAPTURED = "captured_name"
"""In a node's meta: its name in the captured graph, which passes keep with the rest of meta."""


@dataclasses.dataclass
class Captured:
    """A graph, what the compilers made of it or why they failed, and the real inputs of its first call."""

    name: str
    gm: GraphModule
    built: dict[str, Built]
    errors: dict[str, Exception]
    compile_seconds: dict[str, float]
    inputs: list[Any] | None = None


def capture(
    fn: Callable[..., Any],
    run: Callable[[Callable[..., Any]], Any],
    compilers: Mapping[str, Compile],
    table: Table,
    dynamic: bool | None = None,
) -> list[Captured]:
    """Trace ``fn`` as ``run(compiled fn)`` calls it, forward and backward, and compile every graph with each compiler.

    ``table`` has the decompositions, for everybody. A compiler that fails is in ``errors``.
    """
    found: list[Captured] = []

    def compiler(kind: str) -> Callable[[GraphModule, Sequence[Any]], Any]:
        def compile_all(gm: GraphModule, inputs: Sequence[Any]) -> Any:
            found.append(_compile_all(f"{len(found)} {kind}", gm, inputs, compilers))
            return _eager(found[-1])

        return compile_all

    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=dict(table),
        partition_fn=min_cut_rematerialization_partition,
    )
    torch._dynamo.reset()
    # Nothing is donated: the same inputs are used again and again.
    with functorch_config.patch(donated_buffer=False):
        run(torch.compile(fn, backend=backend, dynamic=dynamic))
    return found


def _compile_all(name: str, gm: GraphModule, inputs: Sequence[Any], compilers: Mapping[str, Compile]) -> Captured:
    for node in gm.graph.nodes:
        node.meta[CAPTURED] = node.name
    captured = Captured(name, gm, {}, {}, {})
    for compiler, compile_one in compilers.items():
        started = time.perf_counter()
        try:
            # Inductor reports strides of results; those of what runs here are eager's.
            with TracingContext.report_output_strides():
                captured.built[compiler] = compile_one(copy.deepcopy(gm), inputs, name.partition(" ")[2])
        except Exception as error:  # whatever a compiler raises: told, not hidden
            captured.errors[compiler] = error
        captured.compile_seconds[compiler] = time.perf_counter() - started
    return captured


def _eager(captured: Captured) -> Callable[..., Any]:
    def run(*inputs: Any) -> Any:
        if captured.inputs is None:
            captured.inputs = [one.detach() if isinstance(one, torch.Tensor) else one for one in inputs]
        return captured.gm(*inputs)

    boxed: Callable[..., Any] = make_boxed_func(run)
    return boxed
