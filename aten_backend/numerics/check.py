"""``verify="numerics"``: each group's results held against ATen's on the very inputs that the group was given."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from aten_backend.comparison.distance import distance
from aten_backend.numerics.chain import work_behind
from aten_backend.numerics.locate import BadNode, Relower, first_bad_node
from aten_backend.numerics.policy import Fault, judge
from aten_backend.numerics.reference import eager_values, exact_values, snapshot
from lowering import graph
from lowering.assemble import Kernel
from lowering.classify import op_name
from lowering.errors import user_line
from lowering.partition import Group, Partition
from lowering.pieces import computed_by, piece, reads

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class GroupReport:
    """One run of one group. ``ours`` and ``eager`` are distances from float64 as a share of the largest element, None
    where ATen has no float64 for one of the ops; ``fault`` is None where the policy finds nothing."""

    number: int
    kernels: tuple[str, ...]
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    ours: float | None
    eager: float | None
    fault: Fault | None = None
    node: BadNode | None = None

    def __str__(self) -> str:
        distances = "no float64 reference" if self.ours is None else f"ours {self.ours:.1e}, eager {self.eager:.1e}"
        verdict = "right" if self.fault is None else self.fault.text
        text = f"group {self.number} ({', '.join(self.kernels)}): distance from float64: {distances}; {verdict}"
        if self.fault is None:
            return text
        text += (
            f"\n  first bad node: {self.node or 'none: the kernel text is right, so its binary or its launch is not'}"
        )
        return "\n".join([text, f"  ops: {', '.join(self.ops)}", *(f"  at {line}" for line in self.lines)])


class NumericsError(RuntimeError):
    """A group's result is further from the truth than the policy allows. ``reports`` has this run's groups so far, the
    one at fault last."""

    def __init__(self, reports: Sequence[GroupReport]) -> None:
        self.reports = tuple(reports)
        super().__init__(
            f'xpu_aten, verify="numerics": {reports[-1]}\n  `xpu-aten bisect` finds the part of the compiler at fault.'
        )


class MemoryChangedError(RuntimeError):
    """What a group reads is no longer what was computed: the launch plan gave its memory to something else."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(
            f'xpu_aten, verify="numerics": the memory of {name} was changed between its computation and its use by '
            f"group {number}. This is a bug of the launch plan (the step `plan`): please report it."
        )


@dataclasses.dataclass
class _Run:
    """One call of a plan: what has been computed so far, and what was found."""

    made: dict[str, Any] = dataclasses.field(default_factory=dict)
    reports: list[GroupReport] = dataclasses.field(default_factory=list)


class NumericsCheck:
    """The checks of one graph, which its plan calls around each group; ``relower`` lowers a part of a graph again."""

    def __init__(self, partition: Partition, kernels: Mapping[Group, tuple[Kernel, ...]], relower: Relower) -> None:
        self.partition, self.kernels, self.relower = partition, kernels, relower
        self.groups: list[Group] = []
        calls = [n for n in partition.gm.graph.nodes if n.op == "call_function"]
        self._constant = not any(map(graph.is_mutation, calls))

    def add(self, group: Group) -> int:
        """The number by which the plan names ``group``."""
        self.groups.append(group)
        return len(self.groups) - 1

    def reads(self, group: Group) -> list[Node]:
        """What ``group`` is given, in the order in which ``before`` takes it."""
        return reads(group.stored, computed_by(group.nodes, self.partition.classes))

    def start(self) -> _Run:
        """Begin a call of the plan."""
        return _Run()

    def before(self, run: _Run, number: int, values: Sequence[Any]) -> list[Any]:
        """Copies of what a group is about to read. Raises MemoryChangedError where that is not what was computed."""
        kept = [snapshot(v) for v in values]
        for node, value in zip(self.reads(self.groups[number]), kept, strict=True):
            known = run.made.setdefault(node.name, value)
            if self._constant and isinstance(value, torch.Tensor) and not _same_bits(known, value):
                raise MemoryChangedError(node.name, number)
        return kept

    def after(self, run: _Run, number: int, given: Sequence[Any], results: Sequence[torch.Tensor]) -> None:
        """Judge a group's results. Raises NumericsError."""
        group = self.groups[number]
        ours = [snapshot(r) for r in results]
        run.made.update(zip((n.name for n in group.stored), ours, strict=True))
        run.reports.append(self._report(group, number, given, ours))
        logger.info("%s", run.reports[-1])
        if run.reports[-1].fault is not None:
            raise NumericsError(run.reports)

    def _report(self, group: Group, number: int, given: Sequence[Any], ours: list[torch.Tensor]) -> GroupReport:
        part = piece(self.partition.gm, group.stored, computed_by(group.nodes, self.partition.classes))
        names = [n.name for n in group.stored]
        eager = eager_values(part, given)
        exact = exact_values(part, given)
        theirs, right = [eager[n] for n in names], None if exact is None else [exact[n] for n in names]
        fault = judge(ours, theirs, right, work_behind(part.graph.nodes, eager))
        nodes = [n for n in group.nodes if not graph.is_getitem(n)]
        return GroupReport(
            number,
            tuple(k.source.name for k in self.kernels[group]),
            tuple(map(op_name, nodes)),
            tuple(dict.fromkeys(line for n in nodes if (line := user_line(n)))),
            None if right is None else distance(ours, right),
            None if right is None else distance(theirs, right),
            fault,
            None if fault is None else first_bad_node(part, given, eager, exact, self.relower),
        )


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
