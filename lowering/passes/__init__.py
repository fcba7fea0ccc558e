"""Graph passes before classification: one file each, run in this order. Each changes the graph and returns how
often."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch.fx
from torch.fx import GraphModule

from . import drop_copies, onednn_linear, recompose, split_bias, take_parts, write_in_place

logger = logging.getLogger(__name__)

Pass = Callable[[GraphModule], int]

PASSES: dict[str, Pass] = {
    "drop_copies": drop_copies.run,
    "recompose": recompose.run,
    "onednn_linear": onednn_linear.run,
    "split_bias": split_bias.run,
    "take_parts": take_parts.run,
    "write_in_place": write_in_place.run,
}
"""By name, in order."""


def run_passes(gm: GraphModule, passes: Mapping[str, Pass] = MappingProxyType(PASSES)) -> GraphModule:
    """A copy of ``gm`` after ``passes``; the caller's graph is left as it is."""
    graph = torch.fx.Graph()
    result = graph.graph_copy(gm.graph, val_map={}, return_output_node=True)
    assert isinstance(result, tuple)
    value, original = result
    graph.output(value).meta.update(original.meta)
    changed = GraphModule(gm, graph)
    for name, change in passes.items():
        if count := change(changed):
            logger.debug("%s changed %d nodes", name, count)
    return changed
