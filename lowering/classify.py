"""Which nodes can be fused, and the reason for each that cannot."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import torch
from torch.fx import GraphModule, Node

from . import graph, ops
from .errors import user_line
from .index import ZERO, product
from .ops import TABLE, Kind

CHEAP = 4
"""Ops of at most this cost, and chains of three times that, are recomputed rather than stored where that moves fewer
bytes."""

SMALL = 2**14
"""Cheap ops over at most so many elements are always recomputed: reading them again costs less than a launch."""

READ_ONCE_CHAIN = 64
"""The most that producers of an op such as cat, each of whose elements it reads once, may cost to be computed in it."""


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A node left to ATen: its op, why, and the user's line. ``deliberate`` where ATen is the right place for it."""

    node: str
    op: str
    reason: str
    source: str
    deliberate: bool = False


@dataclasses.dataclass(frozen=True)
class Classes:
    """Every call of the graph sorted: ``fused`` go into groups, ``inline`` of these are recomputed by whoever reads
    them, ``views`` share memory with another node, ``host`` are integers and tuples, ``refused`` run in ATen."""

    fused: frozenset[Node]
    inline: frozenset[Node]
    views: frozenset[Node]
    host: frozenset[Node]
    refused: Mapping[Node, str]

    def __str__(self) -> str:
        parts = {"fused": self.fused - self.inline, "inline": self.inline, "views": self.views, "host": self.host}
        lines = [f"{name}: {', '.join(sorted(n.name for n in nodes))}" for name, nodes in parts.items()]
        return "\n".join(lines + [f"ATen: {n.name}: {reason}" for n, reason in self.refused.items()])

    def refusals(self) -> tuple[Refusal, ...]:
        """What is left to ATen, in the graph's order."""
        return tuple(
            Refusal(n.name, op_name(n), reason, user_line(n), reason in ops.DELIBERATE)
            for n, reason in self.refused.items()
        )


def op_name(node: Node) -> str:
    """The op's overload, such as ``aten.mm.default``."""
    return (
        str(node.target)
        if isinstance(node.target, torch._ops.OpOverload)
        else getattr(node.target, "__name__", str(node.target))
    )


def classify(gm: GraphModule, disabled: Iterable[str] = (), lost: Mapping[str, str] = MappingProxyType({})) -> Classes:
    """Sort the nodes of ``gm``. ``disabled`` names ops (``aten.exp`` or ``aten.exp.default``) never to fuse, ``lost``
    nodes that could not be compiled before, with the reason."""
    off = frozenset(disabled)
    fused: set[Node] = set()
    views: set[Node] = set()
    host: set[Node] = set()
    refused: dict[Node, str] = {}
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        if not _has_tensor(node):
            _sort_host(node, host, refused)
        elif graph.is_getitem(node):
            (fused if node.args[0] in fused else views if graph.view_source(node) is not None else host).add(node)
        elif graph.view_source(node) is not None and not graph.is_mutation(node):
            views.add(node)
        elif (reason := lost.get(node.name) or refusal(node, off)) is None:
            fused.add(node)
        else:
            refused[node] = reason
    return Classes(frozenset(fused), _inline(gm, fused, views), frozenset(views), frozenset(host), refused)


def refusal(node: Node, disabled: frozenset[str] = frozenset()) -> str | None:
    """Why ``node`` is left to ATen, or None when it can be fused."""
    row = TABLE.get(node.target)
    name = op_name(node)
    if name in disabled or name.rpartition(".")[0] in disabled:
        return "switched off by the option disable_ops"
    if row is None or row.lower is None:
        return ops.reason_for(node)
    return _foreign_device(node) or row.refuse(node)


def _foreign_device(node: Node) -> str | None:
    """A reason where a tensor is not in the host's memory, which is all that kernels are given so far."""
    for n in (node, *node.all_input_nodes):
        tensor = graph.first_tensor(n)
        if tensor is not None and tensor.device.type != "cpu":
            return f"{tensor.device.type} tensors are left to ATen: kernels take CPU tensors only"
    return None


def _has_tensor(node: Node) -> bool:
    return graph.first_tensor(node) is not None or (
        isinstance(node.target, torch._ops.OpOverload) and graph.value_of(node) is None
    )


def _sort_host(node: Node, host: set[Node], refused: dict[Node, str]) -> None:
    """Integer arithmetic on sizes runs on the host; an op that reads a tensor to give a number waits for it, in
    ATen."""
    reads = any(graph.is_tensor(a) for a in node.all_input_nodes)
    if reads and node.target not in _METADATA:
        refused[node] = ops.reason_for(node)
    else:
        host.add(node)


_METADATA = frozenset(
    {
        torch.ops.aten.sym_size.int,
        torch.ops.aten.sym_stride.int,
        torch.ops.aten.sym_numel.default,
        torch.ops.aten.sym_storage_offset.default,
    }
)


def _inline(gm: GraphModule, fused: set[Node], views: set[Node]) -> frozenset[Node]:
    """Nodes recomputed by each group that reads them: factories, cheap casts of what is in memory anyway, and cheap
    producers of an op such as cat that reads every element once."""
    inline: set[Node] = set()
    prices: dict[Node, int] = {}  # additions to compute an element again from memory
    for node in gm.graph.nodes:
        if node in fused and not graph.is_getitem(node) and _is_free(node, fused, views, inline):
            price = TABLE[node.target].cost + sum(prices.get(s, 0) for s in node.all_input_nodes)
            if price <= 3 * CHEAP:
                inline.add(node)
                prices[node] = price
    for node in reversed(gm.graph.nodes):
        if node in fused and not graph.is_getitem(node) and TABLE[node.target].once:
            for source in node.all_input_nodes:
                _inline_chain(source, fused, views, inline, READ_ONCE_CHAIN // len(node.all_input_nodes))
    inline -= _reading_what_is_written(gm, inline)  # it may be overwritten by then
    return frozenset(n for n in inline if _is_followable(n, views))


def _reading_what_is_written(gm: GraphModule, inline: set[Node]) -> set[Node]:
    """Nodes of ``inline`` that read memory which some op of the graph writes to, themselves or through each other."""
    written = {graph.memory(a) for n in gm.graph.nodes for a in graph.written(n)}
    found: set[Node] = set()
    for node in gm.graph.nodes if written else ():
        if node in inline and any(
            graph.memory(a) in written or graph.storage_base(a) in found
            for a in node.all_input_nodes
            if graph.is_tensor(a)
        ):
            found.add(node)
    return found


def _is_followable(node: Node, views: set[Node]) -> bool:
    """Whether every view of ``node`` has a coordinate map, so that its readers can compute it at any place."""
    for user in node.users:
        if user in views:
            row = TABLE.get(user.target)
            at_start = (ZERO,) * len(graph.shape(user))
            if row is None or row.pull is None or row.pull(user, at_start) is None or not _is_followable(user, views):
                return False
    return True


def _leaves_kernels(node: Node, fused: set[Node], views: set[Node]) -> bool:
    """Whether anything but a fused node reads ``node``, so that it must be in memory anyway."""
    return any(
        _leaves_kernels(u, fused, views) if u in views else u not in fused and u.target not in _METADATA
        for u in node.users
    )


def _is_free(node: Node, fused: set[Node], views: set[Node], inline: set[Node]) -> bool:
    row = TABLE[node.target]
    if row.kind is Kind.FACTORY:
        return True
    if not (row.kind is Kind.POINTWISE or row.once) or row.cost > CHEAP or _leaves_kernels(node, fused, views):
        return False
    sources = [s for s in node.all_input_nodes if graph.is_tensor(s)]
    in_memory = all(s in inline or graph.storage_base(s) not in fused for s in sources)
    size = graph.dtype(node).itemsize
    real = [s for s in sources if s not in inline]
    count = product(graph.shape(node)).constant
    if in_memory and count is not None and count <= SMALL:
        return True
    return (
        in_memory
        and len(real) <= 1
        and all(graph.dtype(s).itemsize <= size for s in real)
        and all(graph.shape(s) == graph.shape(node) for s in real)
    )


def _inline_chain(node: Node, fused: set[Node], views: set[Node], inline: set[Node], budget: int) -> None:
    """Inline a producer that reads its own arguments once and whose only reader does so too, and its own such
    producers."""
    while node in views and len(node.users) == 1:
        source = graph.view_source(node)
        assert source is not None
        node = source
    if node in fused and not graph.is_getitem(node) and len(node.users) == 1:
        row = TABLE[node.target]
        if (row.kind is Kind.POINTWISE or row.once) and row.cost <= budget:
            inline.add(node)
            for source in node.all_input_nodes:
                _inline_chain(source, fused, views, inline, budget - row.cost)
