"""The target's graphs as the backend gets them, with the inputs that they are called with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from aten_backend.comparison.distance import distance, tensors
from aten_backend.numerics.chain import work_behind
from aten_backend.numerics.policy import Work
from aten_backend.numerics.reference import eager_values, exact_values, snapshot
from lowering.decompose import decompositions
from lowering.pieces import piece


@dataclasses.dataclass
class Captured:
    """A graph and what it is called with; ``values`` are those of all its nodes in eager, ``exact`` in float64."""

    label: str
    gm: GraphModule
    inputs: list[Any] = dataclasses.field(default_factory=list)
    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    exact: dict[str, Any] | None = None

    @property
    def results(self) -> list[Node]:
        """The nodes that the graph returns; numbers and None left out."""
        returned = self.gm.graph.output_node().args[0]
        assert isinstance(returned, (tuple, list))
        return [n for n in returned if isinstance(n, Node)]

    def calls(self) -> list[Node]:
        """What the graph computes, in order."""
        return [n for n in self.gm.graph.nodes if n.op == "call_function"]


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is tried: a graph or a part of one, its inputs, and what eager and float64 make of them, by result."""

    gm: GraphModule
    inputs: tuple[Any, ...]
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

    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(ir),
        partition_fn=min_cut_rematerialization_partition,
    )
    torch._dynamo.reset()
    call(torch.compile(fn, backend=backend, dynamic=dynamic), args, train)
    called = [one for one in found if one.inputs or not one.gm.graph.find_nodes(op="placeholder")]
    for one in called:
        torch.manual_seed(0)
        one.values = eager_values(one.gm, [snapshot(v) for v in one.inputs])
        one.exact = exact_values(one.gm, [snapshot(v) for v in one.inputs])
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
    eager = call(fn, args, False)
    backend = aot_autograd(fw_compiler=lambda gm, example: make_boxed_func(gm), decompositions=decompositions(ir))
    torch._dynamo.reset()
    far = distance(call(torch.compile(fn, backend=backend, dynamic=dynamic), args, False), eager)
    return far if far > _ROUNDING else None


_ROUNDING = 1e-2
"""As a share of the largest element: models in half types are this far apart without a fault."""


def whole(one: Captured) -> Subject:
    """The graph itself."""
    results = [n.name for n in one.results]
    exact = None if one.exact is None else [one.exact[n] for n in results]
    work = work_behind(one.gm.graph.nodes, one.values)
    return Subject(one.gm, tuple(one.inputs), [one.values[n] for n in results], exact, work)


def part(one: Captured, inside: Sequence[str], results: Sequence[str]) -> Subject:
    """The nodes ``inside`` that ``results`` are computed from, on the values that eager gives them."""
    nodes = {n.name: n for n in one.gm.graph.nodes}
    chosen = frozenset(inside)
    cut = piece(one.gm, [nodes[n] for n in results], lambda n: n.name in chosen)
    _add_sizes(cut, one.gm)
    inputs = tuple(one.values[n.name] for n in cut.graph.nodes if n.op == "placeholder")
    exact = exact_values(cut, inputs)
    values = {n.name: one.values[n.name] for n in cut.graph.nodes if n.op != "output"}
    work = work_behind((n for n in cut.graph.nodes if n.op != "output"), values)
    wide = None if exact is None else [exact[n] for n in results]
    return Subject(cut, inputs, [values[n] for n in results], wide, work)


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
    cut.recompile()


def _symbols(value: Any) -> set[Any]:
    """The symbols in a value's sizes."""
    if isinstance(value, torch.SymInt):
        return set(value.node.expr.free_symbols)
    if isinstance(value, torch.Tensor):
        return set().union(*(_symbols(s) for s in (*value.shape, *value.stride())))
    return set().union(*map(_symbols, value)) if isinstance(value, (tuple, list)) else set()
