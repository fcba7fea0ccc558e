"""What would become of a program: groups, externs with reasons, coverage. Needs no device and no numba-dpex."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.utils import counters
from torch.fx import GraphModule, Node

from aten_backend.advice import Advice, advice
from aten_backend.dump.writer import Dump
from aten_backend.explanation_page import report
from aten_backend.observe import StageRunner, observers
from aten_backend.options import Options
from aten_backend.pipeline import Lowered, lower
from aten_backend.tracing import aot_backend
from lowering import graph
from lowering.classify import op_name
from lowering.errors import user_line
from lowering.target import GENERIC, Traits


@dataclasses.dataclass(frozen=True)
class ExplainedGroup:
    """One kernel: its name, the ops that it computes, the user's lines that they come from, and its text."""

    graph: int
    kernel: str
    ops: tuple[str, ...]
    sources: tuple[str, ...]
    text: str


@dataclasses.dataclass(frozen=True)
class ExplainedExtern:
    """One call of ATen: the op, why it is not in a kernel, the user's line, and whether that is a choice or a lack."""

    graph: int
    op: str
    reason: str
    source: str
    deliberate: bool


@dataclasses.dataclass(frozen=True)
class Explanation:
    """``coverage`` is the share of compute ops that run in kernels; views and host arithmetic do not count.
    ``advice`` is what would make the program better."""

    groups: tuple[ExplainedGroup, ...]
    externs: tuple[ExplainedExtern, ...]
    graphs: int
    advice: tuple[Advice, ...] = ()

    @property
    def coverage(self) -> float:
        """Between 0 and 1; 1 for a program without compute ops."""
        fused = sum(len(g.ops) for g in self.groups)
        return fused / (fused + len(self.externs)) if fused or self.externs else 1.0

    def to_json(self) -> str:
        """Everything, as JSON text."""
        return json.dumps({**dataclasses.asdict(self), "coverage": self.coverage}, indent=2)

    def __str__(self) -> str:
        distinct = len({g.kernel for g in self.groups})
        lines = [
            f"{self.graphs} graphs, {len(self.groups)} kernel launches of {distinct} kernels, "
            f"{len(self.externs)} ATen calls, coverage {self.coverage:.0%}"
        ]
        for g in self.groups:
            lines.append(f"  [{g.graph}] kernel {g.kernel}: {', '.join(g.ops)}")
            lines += [f"        {s}" for s in g.sources]
        for e in self.externs:
            lines.append(f"  [{e.graph}] ATen   {e.op}: {e.reason}" + (f"\n        {e.source}" if e.source else ""))
        if self.advice:
            lines.append("what would make it better:")
        for a in self.advice:
            lines.append(f"  [{a.graph}] {a.kind}: {a.text}" + (f"\n        {a.source}" if a.source else ""))
        return "\n".join(lines)

    def to_html(self) -> str:
        """Everything, as one page that needs nothing else."""
        return report(self)


def explain(fn: Callable[..., Any], *args: Any, options: Mapping[str, Any] | None = None, **kwargs: Any) -> Explanation:
    """Trace ``fn(*args, **kwargs)`` through torch.compile, run it in eager, and tell what ``xpu_aten`` would do with
    it.

    Tracing starts anew (``torch._dynamo.reset``). Raises OptionError for options that do not exist.
    """
    breaks_before = Counter(counters["graph_break"])
    seen = lowered_graphs(fn, args, kwargs, Options.parse(None, options), GENERIC)
    groups = tuple(g for i, one in enumerate(seen) for g in _groups(i, one))
    externs = tuple(
        ExplainedExtern(i, r.op, r.reason, r.source, r.deliberate)
        for i, one in enumerate(seen)
        for r in one.partition.refusals
    )
    breaks = Counter(counters["graph_break"]) - breaks_before
    advices = [a for i, one in enumerate(seen) for a in advice(i, one)]
    advices += [Advice(0, "graph break", " ".join(reason.partition("Hint:")[0].split()), "") for reason in breaks]
    return Explanation(groups, externs, len(seen), tuple(advices))


def lowered_graphs(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], chosen: Options, traits: Traits
) -> list[Lowered]:
    """The graphs that torch.compile makes of ``fn(*args, **kwargs)``, lowered for a device of ``traits``. The call runs
    in eager."""
    seen: list[Lowered] = []

    def note_as(kind: str) -> Callable[..., Any]:
        def note(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            dump = Dump.wanted(chosen)
            run = StageRunner(observers(chosen, () if dump is None else (dump,)))
            run(kind, lambda: gm)
            seen.append(lower(gm, chosen, traits, run, {}))
            return make_boxed_func(gm.forward)

        return note

    backend = aot_backend(note_as, chosen.ir)
    torch._dynamo.reset()
    with torch._functorch.config.patch(
        force_non_lazy_backward_lowering=True
    ):  # else a backward graph waits for its first call
        torch.compile(fn, backend=backend)(*args, **kwargs)
    return seen


def _groups(number: int, lowered: Lowered) -> list[ExplainedGroup]:
    found = []
    for group, kernels in lowered.kernels.items():
        nodes = [n for n in group.nodes if not graph.is_getitem(n)]
        for kernel in kernels:
            found.append(
                ExplainedGroup(
                    number, kernel.source.name, tuple(map(op_name, nodes)), _sources(nodes), kernel.source.text
                )
            )
    return found


def _sources(nodes: list[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for n in nodes if (line := user_line(n))))
