"""The target's graphs as the backend gets them, with the inputs that they are called with."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map_only

from aten_backend.comparison.distance import distance, tensors
from aten_backend.numerics.chain import work_behind
from aten_backend.numerics.policy import Work
from aten_backend.numerics.reference import eager_values, exact_values, snapshot
from aten_backend.tracing import aot_backend
from lowering import graph
from lowering.pieces import piece


@dataclasses.dataclass
class Captured:
    """A graph and what it is called with; ``values`` are those of all its nodes in eager."""

    label: str
    gm: GraphModule
    inputs: list[Any] = dataclasses.field(default_factory=list)
    values: dict[str, Any] = dataclasses.field(default_factory=dict)

    def calls(self) -> list[Node]:
        """What the graph computes, in order."""
        return [n for n in self.gm.graph.nodes if n.op == "call_function"]


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is tried: a graph or a part of one, its inputs, and what eager and float64 make of them, by result. Inputs
    that the graph writes are results too, after those that it returns: ``written`` has their positions."""

    gm: GraphModule
    inputs: tuple[Any, ...]
    written: tuple[int, ...]
    eager: list[Any]
    exact: list[Any] | None
    work: Work


def capture(fn: Callable[..., Any], args: Sequence[Any], ir: str, dynamic: bool | None, train: bool) -> list[Captured]:
    """Trace ``fn(*args)`` (and the backward pass of the sum of its results) and run it by ATen, graph by graph."""
    found: list[Captured] = []

    def compiler(label: str) -> Callable[..., Any]:
        def compile_one(gm: GraphModule, example: Sequence[Any]) -> Callable[..., Any]:
            one = Captured(label, gm)
            found.append(one)

            def run(*given: Any) -> Any:
                if not one.inputs:
                    one.inputs = [snapshot(v) for v in given]
                return gm(*given)

            return make_boxed_func(run)

        return compile_one

    torch._dynamo.reset()
    call(torch.compile(fn, backend=aot_backend(compiler, ir), dynamic=dynamic), args, train)
    called = [one for one in found if one.inputs or not one.gm.graph.find_nodes(op="placeholder")]
    for one in called:
        torch.manual_seed(0)
        one.values = eager_values(one.gm, one.inputs)
    return called


def call(fn: Callable[..., Any], args: Sequence[Any], train: bool) -> list[torch.Tensor]:
    """The results of one call, without gradients or with the backward pass."""
    torch.manual_seed(0)
    with torch.set_grad_enabled(train):
        results = tensors(fn(*args))
    if train:
        for t in leaves(fn, args):
            t.grad = None
        sum(r.sum() for r in results if r.requires_grad).backward()  # type: ignore[union-attr]
        return results + [t.grad for t in leaves(fn, args) if t.grad is not None]
    return results


def leaves(fn: Callable[..., Any], args: Sequence[Any]) -> list[torch.Tensor]:
    """What gradients are for."""
    parameters = list(fn.parameters()) if isinstance(fn, torch.nn.Module) else []
    return parameters + [t for t in tree_leaves(args) if isinstance(t, torch.Tensor) and t.requires_grad]


def decompositions_differ(fn: Callable[..., Any], args: Sequence[Any], ir: str, dynamic: bool | None) -> float | None:
    """How far the decomposed graphs, run by ATen, are from the program in eager, where that is no rounding."""
    plain, given = _again(fn, args)
    eager = call(plain, given, False) + tensors(given)
    backend = aot_backend(lambda kind: lambda gm, example: make_boxed_func(gm), ir)
    torch._dynamo.reset()
    other, given = _again(fn, args)
    ours = call(torch.compile(other, backend=backend, dynamic=dynamic), given, False) + tensors(given)
    far = distance(ours, eager)
    return far if far > _ROUNDING else None


def _again(fn: Callable[..., Any], args: Sequence[Any]) -> tuple[Callable[..., Any], Sequence[Any]]:
    """Copies for one call, which may write to them: what shares memory still does."""
    return copy.deepcopy((fn, tree_map_only(torch.Tensor, torch.Tensor.detach, tuple(args))))


_ROUNDING = 1e-2
"""As a share of the largest element: models in half types are this far apart without a fault."""


def subject_of(gm: GraphModule, inputs: Sequence[Any], values: Mapping[str, Any]) -> Subject:
    """``gm`` with its inputs, and the ``values`` that eager gives its nodes."""
    nodes = list(gm.graph.nodes)
    placeholders = [n for n in nodes if n.op == "placeholder"]
    writes = {target: n for n in nodes if (target := _written(n)) is not None}  # the last one of each
    returned = (n for n in nodes[-1].args[0] if isinstance(n, Node))
    results = [n.name for n in (*returned, *writes.values())]
    exact = exact_values(gm, inputs)
    return Subject(
        gm,
        tuple(inputs),
        tuple(placeholders.index(target) for target in writes),
        [values[n] for n in results],
        None if exact is None else [exact[n] for n in results],
        work_behind((n for n in nodes if n.op != "output"), values),
    )


def _written(node: Node) -> Node | None:
    """The input that the op writes as a whole."""
    target = graph.destination(node)
    return target if target is not None and target.op == "placeholder" else None


def whole(one: Captured) -> Subject:
    """The graph itself."""
    return subject_of(one.gm, one.inputs, one.values)


def part(one: Captured, inside: Sequence[str], results: Sequence[str]) -> Subject:
    """The nodes ``inside`` that ``results`` are computed from, on the values that eager gives them."""
    nodes = {n.name: n for n in one.gm.graph.nodes}
    chosen = frozenset(inside)
    cut = piece(one.gm, [nodes[n] for n in results], lambda n: n.name in chosen)
    _add_sizes(cut, one.gm)
    output = cut.graph.output_node()
    output.args = (tuple(n for n in output.args[0] if _written(n) is None),)  # as AOTAutograd does it
    cut.recompile()
    return subject_of(cut, [one.values[n.name] for n in cut.graph.nodes if n.op == "placeholder"], one.values)


def _add_sizes(cut: GraphModule, gm: GraphModule) -> None:
    """Make inputs of the sizes that the values in ``cut`` depend on: its own inputs may only show sums of them."""
    present = {n.name for n in cut.graph.nodes}
    needed = {s for n in cut.graph.nodes for s in _symbols(n.meta.get("val"))}
    first = next(iter(cut.graph.nodes))
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        is_size = node.op == "placeholder" and isinstance(value, torch.SymInt) and value.node.expr in needed
        if is_size and node.name not in present:
            with cut.graph.inserting_before(first):
                cut.graph.placeholder(node.name).meta.update(node.meta)


def _symbols(value: Any) -> set[Any]:
    """The symbols in a value's sizes."""
    if isinstance(value, torch.SymInt):
        return set(value.node.expr.free_symbols)
    if isinstance(value, torch.Tensor):
        return set().union(*(_symbols(s) for s in (*value.shape, *value.stride())))
    return set().union(*map(_symbols, value)) if isinstance(value, (tuple, list)) else set()
