"""What the policy needs to know of a chain of ops, whose errors add up on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.fx import Node

from aten_backend.numerics.policy import Work, work_of
from lowering import graph
from lowering.classify import CHEAP
from lowering.ops import TABLE, Kind


def computes(node: Node) -> bool:
    """Whether the node is an op that makes numbers: no view, no choice of a result."""
    return node.op == "call_function" and not graph.is_getitem(node) and graph.view_source(node) is None


def work_behind(nodes: Iterable[Node], values: Mapping[str, Any]) -> Work:
    """The work of the ops among ``nodes``, which are closed under arguments; ``values`` has what eager computes.

    A single cheap op is judged element by element. In a chain, and a formula such as gelu's is one, each op and each
    term of the longest sum may add an error, in steps of what is usual among all values on the way: the median, as the
    largest is often a mask's -1e9 and no number at all. Where the chain makes small errors large, eager's own are large
    as well, and the policy allows for those.
    """
    nodes = list(nodes)
    ops = [n for n in nodes if computes(n)]
    if len(ops) == 1 and _is_one_step(ops[0]):
        return work_of((values.get(n.name) for n in ops[0].all_input_nodes), pointwise=True)
    found = [t for n in nodes for t in _tensors(values.get(n.name))]
    usual = max((_median(t) for t in found if t.is_floating_point()), default=1.0)
    length = len(ops) + max((_terms(n, values) for n in ops), default=1)
    # what is discrete may be decided by numbers that differ by rounding, as with half types
    return Work(pointwise=False, length=length, magnitude=usual, halves=any(t.is_floating_point() for t in found))


def _is_one_step(node: Node) -> bool:
    """Whether the op is one operation for each element, which rounds once."""
    row = TABLE.get(node.target)
    return row is not None and row.kind is Kind.POINTWISE and row.cost <= CHEAP


_SAMPLE = 2**12
"""Elements of a tensor that its median is taken of."""


def _median(t: torch.Tensor) -> float:
    values = t.detach().reshape(-1)[:_SAMPLE].double().abs()
    values = values[values.isfinite()]
    return float(values.median()) if values.numel() else 0.0


def _tensors(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v for v in values if isinstance(v, torch.Tensor) and v.layout is torch.strided]


def _terms(node: Node, values: Mapping[str, Any]) -> int:
    """How many terms a kernel adds up for an element of the op's result; ATen's sums are eager's own."""
    row = TABLE.get(node.target)
    if row is None or row.kind not in (Kind.REDUCTION, Kind.SCAN):
        return 1
    read = max((t.numel() for n in node.all_input_nodes for t in _tensors(values.get(n.name))), default=1)
    result = max((t.numel() for t in _tensors(values.get(node.name))), default=1)
    return read if row.kind is Kind.SCAN else max(read // max(result, 1), 1)
