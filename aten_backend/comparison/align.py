"""Kernel against kernel: the steps of two compiled graphs, aligned by the nodes of the captured graph they compute."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from aten_backend.comparison import summary
from aten_backend.comparison.backends import INDUCTOR, TWIN
from aten_backend.comparison.graphs.steps import KERNEL
from aten_backend.comparison.records import Comparison, GraphRow, StepRow

SAME = "the same cut"


@dataclasses.dataclass(frozen=True)
class Block:
    """Steps of both sides that belong together. The two mappings are by side, ``"ours"`` and the other's compiler."""

    ours: tuple[StepRow, ...]
    theirs: tuple[StepRow, ...]
    apart: Mapping[str, tuple[str, ...]]
    """Nodes that a side computes in a kernel here, and the other in no kernel."""
    elsewhere: Mapping[str, tuple[str, ...]]
    """Nodes that a side computes here, and the other only in other blocks."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes of the block, in the order of our steps."""
        return tuple(_nodes((*self.ours, *self.theirs)))

    @property
    def verdict(self) -> str:
        """How the two sides differ, in words."""
        if not self.ours or not self.theirs:
            return "only here" if self.ours else "only there"
        mine, others = _kinds(self.ours), _kinds(self.theirs)
        if mine == others:
            return SAME if len(self.ours) == 1 else "cut elsewhere"
        return f"{mine} here, {others} there"


@dataclasses.dataclass(frozen=True)
class Alignment:
    """Every step of two compiled graphs, once each."""

    ours: GraphRow
    theirs: GraphRow
    blocks: tuple[Block, ...]


def alignments(comparison: Comparison) -> list[Alignment]:
    """Ours beside Inductor's, and beside the twin's at the loop level, for each captured graph that both compiled."""
    return [
        align(mine, theirs)
        for name in summary.ours(comparison)
        for mine in comparison.graphs
        for theirs in comparison.graphs
        if (mine.label, mine.graph) == (theirs.label, theirs.graph)
        and mine.compiler == name
        and theirs.compiler in (INDUCTOR, TWIN)
        and not mine.error
        and not theirs.error
    ]


def align(ours: GraphRow, theirs: GraphRow) -> Alignment:
    """Put each step together with the one of the other side that has most nodes in common with it.

    Not with all that have one in common: a kernel that gathers what is left over, or a mask that is computed anew
    everywhere, would tie a whole graph together. A step that shares nothing with the other side goes with a step of its
    own side that computes the same (the second kernel of a reduction), or is alone.
    """
    steps = [*ours.steps, *theirs.steps]
    border = len(ours.steps)
    parents = list(range(len(steps)))
    times = collections.Counter(node for step in steps for node in set(step.nodes))
    sides = (range(border), range(border, len(steps)))
    for number in range(len(steps)):
        here, there = sides if number < border else reversed(sides)
        partner = _partner(steps, number, there, times)
        if partner is None:
            partner = _partner(steps, number, here, times)
        if partner is not None:
            _join(parents, number, partner)
    groups: dict[int, list[int]] = {}
    for number in range(len(steps)):
        groups.setdefault(_root(parents, number), []).append(number)
    cut = [([steps[n] for n in group if n < border], [steps[n] for n in group if n >= border])
           for group in groups.values()]  # fmt: skip
    return Alignment(ours, theirs, tuple(_block(ours, theirs, mine, others) for mine, others in cut))


def _partner(steps: Sequence[StepRow], number: int, among: Iterable[int], times: Mapping[str, int]) -> int | None:
    """Of ``among``, the step with most nodes in common with step ``number``, the earliest of several; None if none.

    A node that is computed many ``times`` says little about who belongs together, and weighs so much less.
    """
    nodes = set(steps[number].nodes)
    shared = {
        other: sum(1 / times[node] for node in nodes.intersection(steps[other].nodes))
        for other in among
        if other != number
    }
    best = max(shared, key=shared.__getitem__, default=None)
    return best if best is not None and shared[best] else None


def _block(ours: GraphRow, theirs: GraphRow, mine: Sequence[StepRow], others: Sequence[StepRow]) -> Block:
    apart, elsewhere = {}, {}
    for side, steps, across, graph in (("ours", mine, others, theirs), (theirs.compiler, others, mine, ours)):
        in_kernels, anywhere, here = _in_kernels(graph.steps), _nodes(graph.steps), _nodes(across)
        apart[side] = tuple(node for node in _in_kernels(steps) if node not in in_kernels)
        elsewhere[side] = tuple(node for node in _nodes(steps) if node in anywhere and node not in here)
    return Block(tuple(mine), tuple(others), apart, elsewhere)


def _nodes(steps: Sequence[StepRow]) -> dict[str, None]:
    return dict.fromkeys(node for step in steps for node in step.nodes)


def _root(parents: list[int], number: int) -> int:
    while parents[number] != number:
        parents[number] = parents[parents[number]]
        number = parents[number]
    return number


def _join(parents: list[int], one: int, other: int) -> None:
    low, high = sorted((_root(parents, one), _root(parents, other)))
    parents[high] = low


def _in_kernels(steps: Sequence[StepRow]) -> dict[str, None]:
    return _nodes([step for step in steps if step.kind == KERNEL])


def _kinds(steps: Sequence[StepRow]) -> str:
    kernels = sum(step.kind == KERNEL for step in steps)
    calls = len(steps) - kernels
    words = [f"{count} {word}{'s' if count > 1 else ''}" for count, word in ((kernels, "kernel"), (calls, "ATen call"))
             if count]  # fmt: skip
    return " and ".join(words)


def text(alignment: Alignment) -> Iterator[str]:
    """Lines for the terminal: each block with its steps, then the code of both sides."""
    ours, theirs = alignment.ours, alignment.theirs
    yield f"{ours.label}, graph {ours.graph}: {ours.compiler} | {theirs.compiler}"
    for number, block in enumerate(alignment.blocks, 1):
        yield f"\n[{number}] {block.verdict}: {', '.join(block.nodes)}"
        yield from (f"    {line}" for line in remarks(block))
        for row, steps in ((ours, block.ours), (theirs, block.theirs)):
            for step in steps:
                yield f"    {row.compiler}: {step.kind} {step.name}{microseconds(step)}"
            yield from _codes(row.codes, steps)


def remarks(block: Block) -> Iterator[str]:
    """What a side computes that the other computes otherwise, in words."""
    for side, nodes in block.apart.items():
        if nodes:
            yield f"in a kernel of {side} only: {', '.join(nodes)}"
    for side, nodes in block.elsewhere.items():
        if nodes:
            yield f"{side} here, the other in other blocks: {', '.join(nodes)}"


def microseconds(step: StepRow) -> str:
    """The time of a step where it is known, in words."""
    return "" if step.seconds is None else f", {step.seconds * 1e6:.1f} µs"


def _codes(codes: Mapping[str, str], steps: Sequence[StepRow]) -> Iterator[str]:
    for name in dict.fromkeys(step.name for step in steps):
        if name in codes:
            yield from (f"      | {line}" for line in codes[name].strip().splitlines())
