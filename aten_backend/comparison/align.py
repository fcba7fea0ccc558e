"""Kernel against kernel: the steps of two compiled graphs, aligned by the nodes of the captured graph they compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from aten_backend.comparison import summary
from aten_backend.comparison.backends import INDUCTOR
from aten_backend.comparison.graphs.steps import KERNEL
from aten_backend.comparison.records import Comparison, GraphRow, StepRow

SAME = "the same cut"


@dataclasses.dataclass(frozen=True)
class Block:
    """Steps of both sides that compute the same nodes: as few as have no node in common with any other block."""

    ours: tuple[StepRow, ...]
    theirs: tuple[StepRow, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes of the block, in the order of our steps."""
        return tuple(dict.fromkeys(node for step in (*self.ours, *self.theirs) for node in step.nodes))

    @property
    def verdict(self) -> str:
        """How the two sides differ, in words."""
        if not self.ours or not self.theirs:
            return "only ours" if self.ours else "only Inductor's"
        mine, others = _kinds(self.ours), _kinds(self.theirs)
        if mine == others:
            return SAME if len(self.ours) == 1 else "cut elsewhere"
        return f"{mine} here, {others} there"

    @property
    def apart(self) -> dict[str, tuple[str, ...]]:
        """Nodes that one side computes in a kernel, and the other in a call of ATen or not at all."""
        mine, others = _in_kernels(self.ours), _in_kernels(self.theirs)
        return {
            "ours": tuple(node for node in mine if node not in others),
            "inductor": tuple(node for node in others if node not in mine),
        }


@dataclasses.dataclass(frozen=True)
class Alignment:
    """Every step of two compiled graphs, once each. ``none`` are results that no step of one side computes."""

    ours: GraphRow
    theirs: GraphRow
    blocks: tuple[Block, ...]


def alignments(comparison: Comparison) -> list[Alignment]:
    """One for each captured graph that both sides compiled."""
    return [
        align(mine, theirs)
        for name in summary.ours(comparison)
        for mine in comparison.graphs
        for theirs in comparison.graphs
        if (mine.label, mine.graph) == (theirs.label, theirs.graph)
        and (mine.compiler, theirs.compiler) == (name, INDUCTOR)
        and not mine.error
        and not theirs.error
    ]


def align(ours: GraphRow, theirs: GraphRow) -> Alignment:
    """Align by shared nodes. A node that a side computes in several steps counts for the first of them."""
    steps = [*ours.steps, *theirs.steps]
    parents = list(range(len(steps)))
    first = {**_owners(ours.steps, 0)}
    for node, number in _owners(theirs.steps, len(ours.steps)).items():
        if node in first:
            _join(parents, first[node], number)
    for start, side in ((0, ours.steps), (len(ours.steps), theirs.steps)):
        _join_idle(parents, side, start)
    groups: dict[int, list[int]] = {}
    for number in range(len(steps)):
        groups.setdefault(_root(parents, number), []).append(number)
    border = len(ours.steps)
    blocks = [
        Block(tuple(steps[n] for n in group if n < border), tuple(steps[n] for n in group if n >= border))
        for group in groups.values()
    ]
    return Alignment(ours, theirs, tuple(blocks))


def _owners(steps: Sequence[StepRow], start: int) -> dict[str, int]:
    owners: dict[str, int] = {}
    for number, step in enumerate(steps, start):
        for node in step.nodes:
            owners.setdefault(node, number)
    return owners


def _join_idle(parents: list[int], steps: Sequence[StepRow], start: int) -> None:
    """A step whose nodes all belong to earlier ones (the second kernel of a group) goes where its last node is."""
    owners = _owners(steps, start)
    for number, step in enumerate(steps, start):
        if step.nodes and number not in {owners[node] for node in step.nodes}:
            _join(parents, owners[step.nodes[-1]], number)


def _root(parents: list[int], number: int) -> int:
    while parents[number] != number:
        parents[number] = parents[parents[number]]
        number = parents[number]
    return number


def _join(parents: list[int], one: int, other: int) -> None:
    low, high = sorted((_root(parents, one), _root(parents, other)))
    parents[high] = low


def _in_kernels(steps: Sequence[StepRow]) -> dict[str, None]:
    return dict.fromkeys(node for step in steps if step.kind == KERNEL for node in step.nodes)


def _kinds(steps: Sequence[StepRow]) -> str:
    kernels = sum(step.kind == KERNEL for step in steps)
    calls = len(steps) - kernels
    words = [f"{count} {word}{'s' if count > 1 else ''}" for count, word in ((kernels, "kernel"), (calls, "ATen call"))
             if count]  # fmt: skip
    return " and ".join(words)


def text(alignment: Alignment) -> Iterator[str]:
    """Lines for the terminal: each block with its steps, then the code of both sides."""
    yield f"{alignment.ours.label}, graph {alignment.ours.graph}: {alignment.ours.compiler} | {INDUCTOR}"
    for number, block in enumerate(alignment.blocks, 1):
        yield f"\n[{number}] {block.verdict}: {', '.join(block.nodes)}"
        for side, nodes in block.apart.items():
            if nodes:
                yield f"    in a kernel of {side} only: {', '.join(nodes)}"
        for row, steps in ((alignment.ours, block.ours), (alignment.theirs, block.theirs)):
            for step in steps:
                yield f"    {row.compiler}: {step.kind} {step.name}{microseconds(step)}"
            yield from _codes(row.codes, steps)


def microseconds(step: StepRow) -> str:
    """The time of a step where it is known, in words."""
    return "" if step.seconds is None else f", {step.seconds * 1e6:.1f} µs"


def _codes(codes: Mapping[str, str], steps: Sequence[StepRow]) -> Iterator[str]:
    for name in dict.fromkeys(step.name for step in steps):
        if name in codes:
            yield from (f"      | {line}" for line in codes[name].strip().splitlines())
