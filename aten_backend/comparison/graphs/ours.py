"""Our side: ``pipeline.compile_graph``, watched, and its launch plan timed statement by statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from torch.fx import GraphModule, Node

from aten_backend.comparison.graphs.capture import CAPTURED
from aten_backend.comparison.graphs.steps import ATEN, KERNEL, WAIT, Built, Clock, Step, clocked
from aten_backend.observe import StageRunner, observers, watching
from aten_backend.options import Options
from aten_backend.pipeline import compile_graph
from lowering import graph
from lowering.partition import Group
from runtime import launch_plan, plan
from runtime.executor import CompiledGraph, Run, executable, names

_LAUNCH = re.compile(r"k\d+")


def compile_ours(gm: GraphModule, inputs: Sequence[Any], kind: str, ir: str = "aten") -> Built:
    """Compile with ``xpu_aten``. The graph is decomposed already; ``ir`` is told to the compiler alone."""
    seen: dict[str, Any] = {}
    options = Options.parse(None, {"ir": ir})
    with watching(lambda stage, artefact, seconds: seen.__setitem__(stage, artefact)):
        compiled = compile_graph(gm, options, StageRunner(observers(options)))
    assert compiled.graph is not None
    definition = ast.parse(compiled.graph.text).body[-1]
    assert isinstance(definition, ast.FunctionDef)
    lines = compiled.graph.steps
    keys = {number: key for number, one in enumerate(definition.body) if (key := _key(one, lines)) is not None}
    steps = _in_order((*_kernels(seen), *_externs(seen, lines, keys)), keys)
    codes = {kernel.source.name: kernel.source.text for kernel in seen["plan"].kernels}
    launches = {number: key for number, key in keys.items() if _LAUNCH.fullmatch(key)}
    clock = Clock()
    every = _variant(compiled.graph, clocked(definition, keys), clock)
    alone = _variant(compiled.graph, clocked(definition, launches, extra=("wait()",)), clock)
    return Built(compiled.graph.run, every, alone, clock, steps, codes)


def _variant(compiled: CompiledGraph, text: str, clock: Clock) -> Run:
    """``compiled`` with another text, run as its own is."""
    scope = {**names(compiled.constants, compiled.kernels, compiled.device), "_clock": clock}
    return executable(text, scope, compiled.kernels, compiled.device, f"{compiled.name} timed")


def _key(statement: ast.stmt, steps: Sequence[launch_plan.Step]) -> str | None:
    """The key of a statement of a plan that is to be timed: a launch, a wait, or the call of the ATen step ``n``."""
    if not isinstance(statement, (ast.Expr, ast.Assign)) or not isinstance(statement.value, ast.Call):
        return None
    if isinstance(statement, ast.Expr):
        name = ast.unparse(statement.value.func)
        return WAIT if name == "wait" else name if _LAUNCH.fullmatch(name) else None
    target = ast.unparse(statement.targets[0])
    for number, step in enumerate(steps):
        # Its other lines make views of arguments, and name sizes and single results.
        if not step.kernel and step.first <= statement.lineno <= step.last and target == plan.variable(step.nodes[0]):
            return f"aten {number}"
    return None


def _kernels(seen: Mapping[str, Any]) -> list[Step]:
    """The launches of the plan, in order, with the nodes of the groups that they compute."""
    launches = seen.get("tune", seen["chain"])
    owners = {id(kernel): groups for kernel, (_, groups) in zip(seen["emit"], launches, strict=True)}
    return [
        Step(f"k{number}", KERNEL, kernel.source.name, _nodes(owners[id(kernel)], seen["partition"].classes.inline))
        for number, kernel in enumerate(seen["plan"].kernels)
    ]


def _nodes(groups: Sequence[Group], inline: Set[Node]) -> tuple[str, ...]:
    """What the kernels of ``groups`` compute: their nodes, and those that every reader computes anew."""
    found: dict[Node, None] = {}
    stack = [node for group in reversed(groups) for node in reversed(group.nodes)]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += [source for source in _sources(node) if source in inline]
    return tuple(dict.fromkeys(_captured(node) for node in found if not graph.is_getitem(node)))


def _sources(node: Node) -> list[Node]:
    """What ``node`` reads, behind views."""
    return [graph.storage_base(one) if graph.is_tensor(one) else one for one in node.all_input_nodes]


def _externs(seen: Mapping[str, Any], steps: Sequence[launch_plan.Step], keys: Mapping[int, str]) -> list[Step]:
    """The calls of ATen."""
    nodes = {str(node.name): node for node in seen["passes"].graph.nodes}
    found, known = [], set(keys.values())
    for number, step in enumerate(steps):
        if not step.kernel:
            if f"aten {number}" not in known:
                raise LookupError(f"no statement of the plan is the call of {step.label}, so that it cannot be timed")
            found.append(Step(f"aten {number}", ATEN, step.label, (_captured(nodes[step.nodes[0]]),)))
    return found


def _in_order(steps: Sequence[Step], keys: Mapping[int, str]) -> tuple[Step, ...]:
    """As the plan runs them."""
    places = {key: number for number, key in keys.items()}
    return tuple(sorted(steps, key=lambda step: places[step.key]))


def _captured(node: Node) -> str:
    return str(node.meta.get(CAPTURED, node.name))
