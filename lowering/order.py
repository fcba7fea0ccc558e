"""What must run before what, beside the reading of results: writes to shared memory, and draws from a generator."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from . import graph


def required_order(gm: GraphModule) -> dict[Node, list[Node]]:
    """For each node, nodes that must run before it though it does not read them: those that write or read the memory
    that it reads or writes, and the random op before it, so that the generator's stream is eager's."""
    after = mutation_order(gm)
    previous: Node | None = None
    for node in gm.graph.nodes:
        if node.op == "call_function" and _may_be_random(node):
            if previous is not None:
                after.setdefault(node, []).append(previous)
            previous = node
    return after


def _may_be_random(node: Node) -> bool:
    """Whether the op draws from a generator, or runs graphs that might."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return True
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def mutation_order(gm: GraphModule) -> dict[Node, list[Node]]:
    """For each node, the nodes that must run before it because one of the two writes memory that the other uses."""
    after: dict[Node, list[Node]] = {}
    users: dict[Node, list[Node]] = {}
    writer: dict[Node, Node] = {}
    if not any(graph.is_mutation(n) for n in gm.graph.nodes if n.op == "call_function"):
        return after
    for node in gm.graph.nodes:
        if node.op == "call_function" and graph.view_source(node) is not None and not graph.is_mutation(node):
            continue
        writes = {graph.memory(a) for a in graph.written(node)}
        for used in writes | {graph.memory(a) for a in node.all_input_nodes if graph.is_tensor(a)}:
            if used in writer:
                after.setdefault(node, []).append(writer[used])
            if used in writes:
                after.setdefault(node, []).extend(users.pop(used, []))
                writer[used] = node
            users.setdefault(used, []).append(node)
    return after
