"""The real or imaginary part of a complex tensor, which torch takes by a view of both, as an op of its own: what reads
it then fuses with what computes it."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

aten, prims = torch.ops.aten, torch.ops.prims

_PARTS = (prims.real.default, prims.imag.default)


def run(gm: GraphModule) -> int:
    """Replace every such selection; returns how many."""
    chosen = [n for n in gm.graph.nodes if n.target is aten.select.int and _takes_part(n)]
    for node in chosen:
        both, _, part = node.args
        with gm.graph.inserting_before(node):
            taken = gm.graph.call_function(_PARTS[part], (both.args[0],))
        taken.meta.update(node.meta)
        node.replace_all_uses_with(taken)
        gm.graph.erase_node(node)
        if not both.users:
            gm.graph.erase_node(both)
    return len(chosen)


def _takes_part(node: Node) -> bool:
    both, dim, part = node.args
    return (
        isinstance(both, Node)
        and both.target is aten.view_as_real.default
        and dim in (-1, both.meta["val"].dim() - 1)
        and part in (0, 1)
    )
