"""Looking at a graph's first call: what its inputs are like, and what every node makes of them."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from aten_backend.dump.values import NotMadeError, fake_value, learn, seen
from lowering import graph

SAVED_BYTES, SAVED_TOTAL = 2**16, 2**24
"""Tensors of at most so many bytes are kept as they are, as long as they fit in the total; of others, what they are
like."""

SAMPLE = 2**18
"""Elements that are looked at of a large tensor."""


@dataclasses.dataclass
class First:
    """``sizes`` by symbol, ``seen`` (recipes and numbers) and ``saved`` tensors by node."""

    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    seen: dict[str, Any] = dataclasses.field(default_factory=dict)
    saved: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    def note(self, node: Node, value: Any) -> None:
        """One node's value."""
        if isinstance(value, (bool, int, float)):
            self.seen[node.name] = value
        learn(self.sizes, fake_value(node), value)
        if not isinstance(value, torch.Tensor):
            return
        try:
            self.seen[node.name] = _seen(value.detach())
        except NotMadeError:
            return
        room = SAVED_TOTAL - sum(t.nbytes for t in self.saved.values())
        if value.nbytes <= min(SAVED_BYTES, room) and value.is_contiguous():
            self.saved[node.name] = value.detach().clone()


def _seen(value: torch.Tensor) -> Any:
    if value.numel() <= SAMPLE:
        return seen(value)
    sample = seen(value.reshape(-1)[:: value.numel() // SAMPLE])
    return dataclasses.replace(sample, shape=tuple(value.shape), stride=value.stride())


class _Looker(Interpreter):
    """Runs the graph in ATen."""

    def __init__(self, gm: GraphModule, first: First) -> None:
        super().__init__(gm)
        self.first = first

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            self.first.note(n, value)
        return value


def look(gm: GraphModule, inputs: list[Any]) -> First:
    """What a call of ``gm`` with ``inputs`` shows. Runs its ATen calls once more, on copies where they write to what
    they are given; where an op is not ATen's own, the inputs alone are looked at. Random numbers stay as they were."""
    first = First()
    calls = [n for n in gm.graph.nodes if n.op == "call_function"]
    if not all(_is_plain(n) for n in calls):
        for node, value in zip((n for n in gm.graph.nodes if n.op == "placeholder"), inputs, strict=True):
            first.note(node, value)
        return first
    if any(graph.is_mutation(n) for n in calls):
        inputs = [_copy(v) for v in inputs]
    state = torch.random.get_rng_state()
    try:
        with torch.no_grad():
            _Looker(gm, first).run(*inputs)
    finally:
        torch.random.set_rng_state(state)
    return first


def _copy(value: Any) -> Any:
    """A tensor with its whole storage, so that what overlaps still does."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    storage = value.untyped_storage().clone()
    fresh = torch.empty(0, dtype=value.dtype, device=value.device)
    return fresh.set_(storage, value.storage_offset(), value.shape, value.stride())


def _is_plain(node: Node) -> bool:
    """Whether an op may be called once more than the program does."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target.namespace in ("aten", "prims", "prim")
    return getattr(node.target, "__module__", "") in ("_operator", "math", "torch", "builtins", operator.__name__)
