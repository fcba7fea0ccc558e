"""What would make a program better for this compiler: read from what became of its graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch.fx import Node

from aten_backend.dump.values import NotMadeError, fake_value, recipe, sizes_of
from aten_backend.pipeline import Lowered
from lowering import graph
from lowering.classify import Refusal, op_name
from lowering.errors import user_line
from lowering.partition import Extern, Group

aten = torch.ops.aten
_COPIES = (aten.clone.default, aten._to_copy.default, aten.contiguous.default)


@dataclasses.dataclass(frozen=True)
class Advice:
    """One thing to change: ``kind`` is "split" (an op that keeps two kernels apart), "copy" (one made for the sake of a
    layout) or "graph break"; ``text`` says what and why, ``source`` is the user's line. ``bytes`` is what it moves."""

    graph: int
    kind: str
    text: str
    source: str
    bytes: int = 0


def advice(number: int, lowered: Lowered) -> tuple[Advice, ...]:
    """Everything about one graph, what moves most first."""
    found = [*_splits(number, lowered), *_copies(number, lowered)]
    return tuple(sorted(found, key=lambda a: -a.bytes))


def _homes(lowered: Lowered) -> dict[Node, Group]:
    return {n: g for g in lowered.partition.groups for n in g.nodes}


def _bytes(node: Node) -> int:
    try:
        return recipe(fake_value(node), sizes_of(node.graph)).bytes
    except NotMadeError:
        return 0


def _memory(node: Node) -> Node:
    return graph.storage_base(node) if graph.is_tensor(node) else node


def _readers(node: Node) -> Iterator[Node]:
    """Who reads the memory of ``node``, itself or through views."""
    for user in node.users:
        if graph.view_source(user) is not None or graph.is_getitem(user):
            yield from _readers(user)
        else:
            yield user


def _splits(number: int, lowered: Lowered) -> Iterator[Advice]:
    """Ops that are in no kernel for want of a lowering, or because an option says so, between kernels."""
    homes = _homes(lowered)
    refusals: dict[str, Refusal] = {r.node: r for r in lowered.partition.refusals}
    for step in lowered.partition.steps:
        if not isinstance(step, Extern) or refusals[step.node.name].deliberate:
            continue
        node = step.node
        before = {homes[m] for a in node.all_input_nodes if (m := _memory(a)) in homes}
        after = {homes[r] for r in _readers(node) if r in homes}
        if before and after:
            moved = sum(_bytes(n) for n in {*map(_memory, node.all_input_nodes), node})
            first, second = (", ".join(sorted(g.stored[0].name for g in part if g.stored)) for part in (before, after))
            text = (
                f"{op_name(node)} keeps the kernels of {first} and {second} apart: {step.reason}. Written in ops that "
                f"are lowered, it would join them, and its arguments and results need not go through memory."
            )
            yield Advice(number, "split", text, user_line(node), moved)


def _copies(number: int, lowered: Lowered) -> Iterator[Advice]:
    """Copies whose only effect is another layout, and who wants that."""
    for group in lowered.partition.groups:
        for node in group.stored:
            if node.target not in _COPIES or not _changes_layout(node):
                continue
            readers = sorted({op_name(r) for r in _readers(node) if r.op == "call_function"})
            wanted = f"for {', '.join(readers)}" if readers else "as the result is returned so"
            strides = graph.strides(node.args[0])
            text = (
                f"{node.name} copies {', '.join(map(str, graph.shape(node)))} from strides "
                f"{', '.join(map(str, strides))} to {', '.join(map(str, graph.strides(node)))} {wanted}. A producer "
                f"that writes this layout, or a reader that takes the other, would save the copy."
            )
            yield Advice(number, "copy", text, user_line(node), 2 * _bytes(node))


def _changes_layout(node: Node) -> bool:
    source = node.args[0]
    return (
        isinstance(source, Node)
        and graph.is_tensor(source)
        and graph.dtype(source) == graph.dtype(node)
        and graph.strides(source) != graph.strides(node)
    )
