"""Copies that lie in memory as what they copy, taken out: nobody can tell, where the graph writes to neither.

Models ask for contiguous results of attention that are contiguous already, and dropout in evaluation copies.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from .. import graph
from ..index import ZERO

aten = torch.ops.aten


def run(gm: GraphModule) -> int:
    """Take out what can be; returns how many."""
    written = {graph.memory(target) for node in gm.graph.nodes for target in graph.written(node)}
    results = {graph.memory(n) for n in gm.graph.output_node().all_input_nodes if graph.is_tensor(n)}
    count = 0
    for node in gm.graph.find_nodes(op="call_function", target=aten.clone.default):
        source = node.args[0]
        base = graph.memory(source)
        if _is_same(node, source, base) and not {base, node} & written and not {base, node} <= results:
            if node in results:
                results.add(base)
            node.replace_all_uses_with(source)
            gm.graph.erase_node(node)
            count += 1
    return count


def _is_same(node: Node, source: Node, base: Node) -> bool:
    """Whether the copy ``node`` of something computed here is in every respect like ``source``."""
    return (
        base.op == "call_function"
        and graph.offset(source) == graph.offset(node) == ZERO
        and (graph.shape(source), graph.strides(source)) == (graph.shape(node), graph.strides(node))
        and graph.bits(source) == graph.bits(node)
        and graph.bytes_hint(base) == graph.bytes_hint(node)
    )
