"""A fault in the pass that makes updates in an input itself: it adds where it is to replace."""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from lowering.passes import PASSES

aten = torch.ops.aten
write_in_place = PASSES["write_in_place"]


def wrong(gm: GraphModule) -> int:
    """The pass, and another op in its result."""
    count = write_in_place(gm)
    for node in gm.graph.nodes:
        if node.target is aten.index_copy_.default:
            node.target = aten.index_add_.default
    return count


PASSES["write_in_place"] = wrong
