"""Parts of a graph as graphs of their own: what a result is computed from, between it and some boundary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch.fx
from torch.fx import GraphModule, Node

from . import graph
from .classify import Classes


def piece(
    gm: GraphModule,
    results: Sequence[Node],
    inside: Callable[[Node], bool],
    numbers: Mapping[Node, Any] = MappingProxyType({}),
) -> GraphModule:
    """The graph that computes ``results`` from the nodes that are not ``inside``, which become its inputs under their
    own names, in the order of ``gm``. Those among ``numbers`` become constants instead.

    Nodes keep their names and what is known of their values.
    """
    members = cone(results, inside)
    order = [n for n in gm.graph.nodes if n in members]
    part = torch.fx.Graph()
    made: dict[Node, Any] = dict(numbers)
    for node in order:
        if node in numbers:
            continue
        if inside(node):
            made[node] = part.node_copy(node, lambda n: made[n])
        else:
            made[node] = part.placeholder(node.name)
            made[node].meta.update(node.meta)
    part.output(tuple(made[r] for r in results))
    return GraphModule(gm, part)


def cone(results: Sequence[Node], inside: Callable[[Node], bool]) -> set[Node]:
    """``results``, what they are computed from, and the boundary where that is not ``inside``."""
    found: set[Node] = set()
    stack = list(results)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += node.all_input_nodes if inside(node) else ()
    return found


def computed_by(members: Sequence[Node], classes: Classes) -> Callable[[Node], bool]:
    """Whether a group of ``members`` computes a node itself: as one of them, as something that is recomputed wherever
    it is read, or as a view of either."""
    own = frozenset(members) | classes.inline

    def inside(node: Node) -> bool:
        return node in own or (node in classes.views and graph.storage_base(node) in own)

    return inside


def reads(results: Sequence[Node], inside: Callable[[Node], bool]) -> list[Node]:
    """What ``results`` are computed from and is not ``inside``, in the order of the graph."""
    boundary = {n for n in cone(results, inside) if not inside(n)}
    first = next(iter(results), None)
    return [] if first is None else [n for n in first.graph.nodes if n in boundary]
