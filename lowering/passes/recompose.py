"""Formulas that models spell out to the ATen ops that say the same, which a library call may take as its epilogue."""

from __future__ import annotations

import functools
import math

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

from .. import graph

aten = torch.ops.aten


def _tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    """GELU by its tanh approximation, as the transformers of GPT-2 and after have it."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


@functools.cache
def _pattern() -> Graph:
    return make_fx(_tanh_gelu)(torch.empty(1)).graph


def run(gm: GraphModule) -> int:
    """Replace each float32 formula; returns how many. GELU by the error function is none of them: ATen's is NaN at
    infinity, where the formula is not."""
    if not any(node.target is aten.tanh.default for node in gm.graph.nodes):
        return 0
    count = 0
    for match in SubgraphMatcher(_pattern(), match_output=False, match_placeholder=False).match(gm.graph):
        (source,), (result,) = match.placeholder_nodes, match.returning_nodes
        if not graph.is_tensor(source) or graph.dtype(source) is not torch.float32:
            continue
        with gm.graph.inserting_before(result):
            gelu = gm.graph.call_function(aten.gelu.default, (source,), {"approximate": "tanh"})
        gelu.meta.update(result.meta)
        result.replace_all_uses_with(gelu)
        stood = [n.name for n in match.nodes_map.values() if isinstance(n, Node) and n is not source]
        gelu.meta[graph.ABSORBED] = tuple(stood)
        count += 1
    if count:
        gm.graph.eliminate_dead_code()
    return count
