"""Graph passes before classification: one file each, run in this order. Each changes the graph and returns how
often."""

from __future__ import annotations

import logging

import torch.fx
from torch.fx import GraphModule

from . import split_bias, take_parts

logger = logging.getLogger(__name__)

PASSES = (split_bias.run, take_parts.run)


def run_passes(gm: GraphModule) -> GraphModule:
    """A copy of ``gm`` after all passes; the caller's graph is left as it is."""
    graph = torch.fx.Graph()
    result = graph.graph_copy(gm.graph, val_map={}, return_output_node=True)
    assert isinstance(result, tuple)
    value, original = result
    graph.output(value).meta.update(original.meta)
    changed = GraphModule(gm, graph)
    for change in PASSES:
        if count := change(changed):
            logger.debug("%s changed %d nodes", change.__module__, count)
    return changed
