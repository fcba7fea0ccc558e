"""A graph run by ATen, node by node: in its own types, or with every floating point type widened to float64. Where the
graph writes to what it is given, it writes to copies, and each value is kept as it was when it was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_map

from lowering import graph

_WIDE = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex32: torch.complex128, torch.complex64: torch.complex128,
}  # fmt: skip


def widened(value: Any) -> Any:
    """A tensor, or a type that an op is given, as wide as there is; anything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.to(_WIDE[value.dtype]) if value.dtype in _WIDE else value
    return _WIDE.get(value, value) if isinstance(value, torch.dtype) else value


class Reference(torch.fx.Interpreter):
    """Runs ``gm`` and keeps every node's value by name (``values``)."""

    def __init__(self, gm: GraphModule, wide: bool) -> None:
        super().__init__(gm, garbage_collect_values=False)
        self.wide = wide
        self.writes = any(map(graph.is_mutation, gm.graph.nodes))
        self.values: dict[str, Any] = {}

    def run_node(self, n: Node) -> Any:
        """torch's, with the value kept."""
        result = super().run_node(n)
        if self.wide and n.op == "get_attr":
            result = widened(result)
        self.values[n.name] = tree_map(snapshot, result) if self.writes else result
        return result

    def start(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """All values, without gradients."""
        with torch.no_grad():
            self.run(*(map(snapshot, inputs) if self.writes else inputs))
        return self.values

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """torch's, with the types that the op is told widened."""
        if self.wide:
            args, kwargs = tree_map(widened, args), tree_map(widened, kwargs)
        return super().call_function(target, args, kwargs)


def eager_values(gm: GraphModule, inputs: Sequence[Any]) -> dict[str, Any]:
    """Every node's value, in the graph's own types."""
    return Reference(gm, wide=False).start(inputs)


def exact_values(gm: GraphModule, inputs: Sequence[Any]) -> dict[str, Any] | None:
    """Every node's value in float64; None where an op does not take that, or where random numbers would be others."""
    if any(is_random(n) for n in gm.graph.nodes):
        return None
    try:
        return Reference(gm, wide=True).start([widened(v) for v in inputs])
    except (RuntimeError, TypeError):  # what ATen raises for a type that an op does not take
        return None


def is_random(node: Node) -> bool:
    """Whether the op draws random numbers."""
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def snapshot(value: Any) -> Any:
    """A copy of a tensor in its own layout; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    span = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True)) if value.numel() else 0
    flat = value.detach().as_strided((span,), (1,)).clone()
    return flat.as_strided(value.shape, value.stride(), 0)
