"""One graph through Inductor's own inner compile: what it launches, from which nodes, and the wrapper timed."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from torch._inductor import config, debug
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch.fx import GraphModule

from aten_backend.comparison.graphs.steps import ATEN, KERNEL, Built, Clock, Step, timed
from aten_backend.loop_level.inductor_code import cpp_kernels
from lowering.decompose import KEPT, decompositions


@functools.cache
def trace_table() -> dict[Any, Callable[..., Any]]:
    """The decompositions of a trace for both levels: ours, and for ops that ours has no rule for, Inductor's.

    What ours keeps whole for a tuned library call, Inductor calls as well.
    """
    return {op: rule for op, rule in {**select_decomp_table(), **decompositions("aten")}.items() if op not in KEPT}


_HANDLE = re.compile(r"\[Provenance debug handles\] (\S+)$")


def compile_inductor(gm: GraphModule, inputs: Sequence[Any], kind: str) -> Built:
    """Compile ``gm`` with Inductor, from lowering on: its passes before (joint graph, attention patterns) do not run.

    Which nodes a kernel computes is what Inductor itself records (``trace.provenance_tracking_level``).
    """
    seen: list[tuple[Any, dict[str, list[str]]]] = []
    compile_module = GraphLowering.compile_to_module

    def keep(lowering: GraphLowering) -> Any:
        module = compile_module(lowering)
        seen.append((module, dict(debug._inductor_triton_kernel_to_post_grad_node_info)))
        return module

    names = {str(node.name): str(getattr(node.target, "_opname", "")) for node in gm.graph.nodes}
    with (
        config.patch({"trace.provenance_tracking_level": 1, "force_disable_caches": True}),
        mock.patch.object(GraphLowering, "compile_to_module", keep),
    ):
        compiled = compile_fx_inner(
            gm,
            inputs,
            is_backward=kind == "backward",
            is_inference=kind == "inference",
            get_decomp_fn=trace_table,  # an op that it does not hold is a call of ATen, even if Inductor has a rule
        )
    run: Callable[..., Any] = compiled
    if not seen:  # a graph without calls
        return Built(run)
    module, origins = seen[-1]
    return _built(run, module, origins, names)


def _built(run: Callable[..., Any], module: Any, origins: dict[str, list[str]], names: Mapping[str, str]) -> Built:
    text = Path(module.__file__).read_text(encoding="utf-8")
    codes = cpp_kernels(text)
    definition = _definition(text)
    keys = _keys(text, definition)
    steps = _steps(list(keys.values()), origins, names, codes)
    clock = Clock()
    call = timed(definition, vars(module), keys, clock)

    def timed_call(args: list[Any]) -> Any:
        return call(module.runner, args)

    return Built(run, timed_call, timed_call, clock, tuple(steps), codes)


def _steps(
    keys: Sequence[str], origins: Mapping[str, list[str]], names: Mapping[str, str], codes: Mapping[str, str]
) -> list[Step]:
    """The steps with their nodes. ``names`` has the op of each captured node.

    Inductor records for a library call also what prepares its arguments, and for the kernel that does this the call:
    the call keeps the nodes of its own op, and kernels none of those.
    """
    found = {key: [node for node in origins.get(key, ()) if node in names] for key in keys}
    called: set[str] = set()
    for key in keys:
        name = key.rpartition(":")[0]
        own = [node for node in found[key] if names[node] in name.split(".")]
        if name not in codes and own:
            found[key] = own
            called.update(own)
    steps = []
    for key in keys:
        name = key.rpartition(":")[0]
        if name in codes:
            steps.append(Step(key, KERNEL, name, tuple(node for node in found[key] if node not in called)))
        else:
            steps.append(Step(key, ATEN, name, tuple(found[key])))
    return steps


def _definition(text: str) -> ast.FunctionDef:
    """``Runner.call`` of a wrapper."""
    for found in ast.walk(ast.parse(text)):
        if isinstance(found, ast.ClassDef) and found.name == "Runner":
            return next(one for one in found.body if isinstance(one, ast.FunctionDef) and one.name == "call")
    raise LookupError("Inductor's wrapper has no class Runner; this version of torch writes it otherwise")


def _keys(text: str, definition: ast.FunctionDef) -> dict[int, str]:
    """The statements behind comments with provenance handles, by their place in the body."""
    lines = text.splitlines()
    keys = {}
    for number, statement in enumerate(definition.body):
        line = statement.lineno - 2  # the line before, counted from zero
        found = _HANDLE.search(lines[line])
        if found is not None:
            keys[number] = found.group(1)
    return keys
