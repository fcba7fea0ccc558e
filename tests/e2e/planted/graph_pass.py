"""A fault in a pass over the graph: where a bias is split off, it is multiplied by instead of added. (Taking it away
would not show where biases are zero.)"""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from lowering.passes import PASSES

aten = torch.ops.aten
split_bias = PASSES["split_bias"]


def wrong(gm: GraphModule) -> int:
    """The pass, and a wrong op in its result."""
    before = set(gm.graph.nodes)
    count = split_bias(gm)
    for node in gm.graph.nodes:
        if node not in before and node.target is aten.add.Tensor:
            node.target = aten.mul.Tensor
    return count


PASSES["split_bias"] = wrong
