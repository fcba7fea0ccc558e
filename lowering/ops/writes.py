"""Writing in place: a group's result goes into memory that the graph was given, and not into memory of its own."""

from __future__ import annotations

import torch
from torch.fx import Node

from .. import graph
from ..index import ONE, ZERO
from .externs import OVERLAPPING, OWN_MEMORY, READS_DESTINATION
from .pointwise import copied, refuse_dtypes
from .table import Kind, Row, register

IN_PLACE: dict[torch._ops.OpOverload, torch._ops.OpOverload] = {}
"""For ops that write at places that depend on data, the form that writes to its first argument."""


def refuse_destination(node: Node) -> str | None:
    """A reason where an in-place op writes to memory that kernels had better not write to."""
    target = graph.destination(node)
    assert target is not None
    if graph.memory(target).op != "placeholder":
        return OWN_MEMORY
    sizes, strides = graph.shape(target), graph.strides(target)
    if any(stride == ZERO and size != ONE for size, stride in zip(sizes, strides, strict=True)):
        return OVERLAPPING
    return None


def refuse_own_reads(node: Node) -> str | None:
    """A reason where an op that updates its first argument one place after another reads other places of it."""
    target = graph.destination(node)
    assert target is not None
    others = [a for a in node.all_input_nodes if a is not target and graph.is_tensor(a)]
    return READS_DESTINATION if any(graph.memory(a) is graph.memory(target) for a in others) else None


def in_place(op: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The overload that writes the result of ``op`` into its first argument, if there is one."""
    packet = getattr(torch.ops.aten, f"{op._schema.name.partition('::')[2]}_", None)
    return getattr(packet, op._overloadname, None) if packet is not None else None


register(
    ["aten.copy_.default"],
    Row(Kind.POINTWISE, copied, refuse=lambda node: refuse_dtypes(node) or refuse_destination(node)),
)
