"""One graph through Inductor's own inner compile: what it launches, from which nodes, and the wrapper timed."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from torch._guards import TracingContext
from torch._inductor import config, debug
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch.fx import GraphModule, Node

from aten_backend.comparison.graphs.steps import ATEN, KERNEL, WAIT, Built, Clock, Step, timed
from aten_backend.loop_level.backend import compile_graph, start
from aten_backend.loop_level.inductor_code import cpp_kernels, our_kernels
from aten_backend.loop_level.scheduling import LOOPS
from aten_backend.options import Options
from lowering.decompose import KEPT, decompositions


@functools.cache
def trace_table() -> dict[Any, Callable[..., Any]]:
    """The decompositions of a trace for both levels: ours, and for ops that ours has no rule for, Inductor's.

    What ours keeps whole for a tuned library call, Inductor calls as well.
    """
    return {op: rule for op, rule in {**select_decomp_table(), **decompositions("aten")}.items() if op not in KEPT}


_HANDLE = re.compile(r"\[Provenance debug handles\] (.+:\d+)$")


def compile_inductor(gm: GraphModule, inputs: Sequence[Any], kind: str) -> Built:
    """Compile ``gm`` with Inductor, from lowering on: its passes before (joint graph, attention patterns) do not run.

    Which nodes a kernel computes is what Inductor itself records (``trace.provenance_tracking_level``).
    """
    return _compile(compile_fx_inner, _Statements, gm, inputs, kind)


def compile_twin(gm: GraphModule, inputs: Sequence[Any], kind: str) -> Built:
    """The same with this project's kernels."""
    options = Options.parse()
    start(options)
    return _compile(functools.partial(compile_graph, options), _Launches, gm, inputs, kind)


def _compile(
    inner: Callable[..., Any], reader: type[_Statements], gm: GraphModule, inputs: Sequence[Any], kind: str
) -> Built:
    seen: list[tuple[Any, dict[str, list[str]]]] = []
    compile_module = GraphLowering.compile_to_module

    def keep(lowering: GraphLowering) -> Any:
        module = compile_module(lowering)
        seen.append((module, dict(debug._inductor_triton_kernel_to_post_grad_node_info)))
        return module

    _keep_strides(gm, kind)
    names = {str(node.name): str(getattr(node.target, "_opname", "")) for node in gm.graph.nodes}
    with (
        config.patch({"trace.provenance_tracking_level": 1, "force_disable_caches": True}),
        mock.patch.object(GraphLowering, "compile_to_module", keep),
    ):
        compiled = inner(
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
    return _built(run, module, reader(Path(module.__file__).read_text(encoding="utf-8")), origins, names)


def _keep_strides(gm: GraphModule, kind: str) -> None:
    """Mark, as Inductor's own entry does, the results that leave the program and so must lie as eager's: AOTAutograd
    makes views of them. What a forward graph saves for its backward graph may lie as it likes."""
    output = gm.graph.output_node()
    results = output.args[0]
    assert isinstance(results, (list, tuple))
    seen = len(results)
    context = TracingContext.try_get()
    if kind == "forward" and context is not None and context.fw_metadata is not None:
        seen = context.fw_metadata.num_forward
    if kind == "backward" and not config.bw_outputs_user_visible:
        seen = 0
    output.meta["user_visible_output_idxs"] = [n for n, one in enumerate(results[:seen]) if isinstance(one, Node)]


def _built(
    run: Callable[..., Any],
    module: Any,
    wrapper: _Statements,
    origins: Mapping[str, list[str]],
    names: Mapping[str, str],
) -> Built:
    keys = wrapper.keys()
    shared = {key: nodes for name, nodes in origins.items() for key in _each(name)}
    for key, handles in wrapper.loops.items():
        shared[key] = list(dict.fromkeys(node for handle in handles for node in shared.get(handle, ())))
    steps = _steps([key for key in keys.values() if key != WAIT], shared, names, wrapper.codes)
    clock = Clock()
    scope = vars(module)

    def bound(call: Callable[..., Any]) -> Callable[[list[Any]], Any]:
        return lambda args: call(module.runner, args)

    every = bound(timed(wrapper.definition, scope, keys, clock))
    alone = every
    if wrapper.wait:
        launches = {number: key for number, key in keys.items() if key.rpartition(":")[0] in wrapper.codes}
        alone = bound(timed(wrapper.definition, scope, launches, clock, extra=(wrapper.wait,)))
    return Built(run, every, alone, clock, tuple(steps), wrapper.codes)


def _each(handle: str) -> list[str]:
    """Kernels that are launched together share a handle, "a, b:3": one for each, "a:3" and "b:3"."""
    names, _, number = handle.rpartition(":")
    return [f"{name}:{number}" for name in names.split(", ")]


class _Statements:
    """A wrapper of Inductor's: the statements of its body that are timed, by the handles in comments before them."""

    wait = ""
    """What waits for kernels, where launches return at once."""

    def __init__(self, text: str) -> None:
        self.loops: dict[str, tuple[str, ...]] = {}  # of launches of this project, the handles of what they run
        self._lines = text.splitlines()
        self.definition = _definition(text)
        self.codes = self._codes(text)

    def _codes(self, text: str) -> dict[str, str]:
        return cpp_kernels(text)

    def keys(self) -> dict[int, str]:
        """Handles by the place of their statement in the body."""
        keys = {}
        for number, statement in enumerate(self.definition.body):
            found = _HANDLE.search(self._lines[statement.lineno - 2])  # the line before, counted from zero
            if found is not None:
                keys[number] = found.group(1)
        return keys


class _Launches(_Statements):
    """A wrapper with this project's launches. One runs the loops of the handles before it, or is one more of those that
    the launch before it has begun; waits and allocations stand between."""

    wait = "kernels.wait()"

    def _codes(self, text: str) -> dict[str, str]:
        return our_kernels(text)

    def keys(self) -> dict[int, str]:
        """As above; waits have the key WAIT."""
        keys: dict[int, str] = {}
        handles, running, last = list[str](), tuple[str, ...](), self.definition.lineno
        for number, statement in enumerate(self.definition.body):
            found = map(_HANDLE.search, self._lines[last : statement.lineno - 1])
            handles += [handle for one in found if one is not None for handle in _each(one.group(1))]
            last = statement.end_lineno or statement.lineno
            code = ast.unparse(statement)
            name = code.partition("(")[0]
            if code == self.wait:
                keys[number] = WAIT
            elif name in self.codes:
                running, handles = tuple(handles) or running, []
                keys[number] = f"{name}:{running[-1].rpartition(':')[2]}"
                self.loops[keys[number]] = running
            elif handles and not handles[-1].startswith((LOOPS, "nothing")) and not isinstance(statement, ast.Delete):
                keys[number], handles = handles[-1], []
        return keys


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
