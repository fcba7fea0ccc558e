"""The first node of a group whose value is wrong: the group is cut after each node, lowered again and interpreted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from aten_backend.numerics.chain import computes, work_behind
from aten_backend.numerics.policy import Fault, judge
from lowering import graph
from lowering.classify import op_name
from lowering.errors import user_line
from lowering.interpret import KernelFault
from lowering.pieces import cone, piece
from runtime.interpreted import interpreted
from runtime.launch_plan import LaunchPlan

Relower = Callable[[GraphModule], LaunchPlan]


@dataclasses.dataclass(frozen=True)
class BadNode:
    """A node that its kernel gets wrong. ``index`` is its first wrong element, ``values`` that element compiled, in
    eager and in float64, ``inputs`` what goes into it: for each argument its value at that element, or what it is."""

    name: str
    op: str
    source: str
    text: str
    index: tuple[int, ...] | None
    values: tuple[Any, ...]
    inputs: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        inputs = ", ".join(f"{name} = {value}" for name, value in self.inputs)
        place = f" at {self.source}" if self.source else ""
        return f"{self.name} ({self.op}){place}: {self.text}" + (f"; its inputs there: {inputs}" if inputs else "")


def first_bad_node(
    part: GraphModule,
    given: Sequence[Any],
    eager: Mapping[str, Any],
    exact: Mapping[str, Any] | None,
    relower: Relower,
) -> BadNode | None:
    """The first node of ``part`` that ``relower``'s kernels get wrong when interpreted; None where all are right."""
    concrete, inputs = _concrete(part, given)
    nodes = [n for n in concrete.graph.nodes if computes(n) and graph.is_tensor(n)]
    for stored in (nodes, *([n] for n in nodes)):  # all at once; where that hides the fault, one by one
        found = _run(concrete, stored, inputs, relower)
        if isinstance(found, KernelFault):
            return BadNode(stored[0].name, op_name(stored[0]), user_line(stored[0]), str(found), None, (), ())
        for node, ours in zip(stored, found, strict=True):
            behind = cone([node], lambda n: n.op == "call_function")
            reference = None if exact is None else [exact[node.name]]
            work = work_behind(behind, eager)
            fault = judge([ours], [eager[node.name]], reference, work)
            if fault is not None:
                return _bad(node, fault, eager)
    return None


def _run(gm: GraphModule, stored: list[Node], inputs: Mapping[str, Any], relower: Relower) -> Any:
    """The values of ``stored``, or the fault that the interpreter found."""
    cut = piece(gm, stored, lambda n: n.op == "call_function")
    names = [n.name for n in cut.graph.nodes if n.op == "placeholder"]
    try:
        return interpreted(relower(cut))([inputs[n] for n in names])
    except KernelFault as fault:
        return fault


def _concrete(part: GraphModule, given: Sequence[Any]) -> tuple[GraphModule, dict[str, Any]]:
    """``part`` for the sizes that its inputs have now, and these by name."""
    places = [n for n in part.graph.nodes if n.op == "placeholder"]
    numbers = {n: v for n, v in zip(places, given, strict=True) if not isinstance(v, torch.Tensor)}
    results = part.graph.output_node().args[0]
    concrete = piece(part, results, lambda n: n.op == "call_function", numbers)
    inputs = {n.name: v for n, v in zip(places, given, strict=True) if isinstance(v, torch.Tensor)}
    names = [n.name for n in concrete.graph.nodes if n.op == "placeholder"]
    with torch.no_grad():
        FakeTensorProp(concrete, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*(inputs[n] for n in names))
    return concrete, inputs


def _bad(node: Node, fault: Fault, values: Mapping[str, Any]) -> BadNode:
    inputs = tuple((n.name, _element(values[n.name], fault.index, node, values)) for n in node.all_input_nodes)
    return BadNode(node.name, op_name(node), user_line(node), fault.text, fault.index, fault.values, inputs)


def _element(value: Any, index: tuple[int, ...] | None, node: Node, values: Mapping[str, Any]) -> Any:
    """What of an argument goes into element ``index`` of ``node``: one number where the two are of one shape but for
    broadcasting, else what the argument is."""
    if not isinstance(value, torch.Tensor):
        return value
    shape = values[node.name].shape
    tail = shape[len(shape) - value.dim() :]
    if (
        index is None
        or len(tail) != value.dim()
        or any(n not in (1, m) for n, m in zip(value.shape, tail, strict=True))
    ):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    place = index[len(shape) - value.dim() :]
    return value[tuple(0 if n == 1 else p for n, p in zip(value.shape, place, strict=True))].item()
