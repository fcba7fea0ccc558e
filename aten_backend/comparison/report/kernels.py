"""The parts of a report about graphs: kernels, ATen, host and guards of a run, and kernels side by side with code."""

from __future__ import annotations

from collections.abc import Sequence

from aten_backend.comparison import reconcile
from aten_backend.comparison.align import Alignment, Block, alignments, microseconds, remarks
from aten_backend.comparison.records import Comparison, GraphRow, Row, StepRow
from aten_backend.comparison.report import plots, svg
from aten_backend.comparison.report.plots import Bar
from aten_backend.comparison.report.svg import tag, text

_SHOWN = 6
"""Nodes that the line of a block names; it opens to all of them."""


def parts(comparison: Comparison) -> str:
    """Where the time of a run goes: the parts of each program, and the rest where they leave one."""
    found = {(one.label, one.backend): one for one in reconcile.accounts(comparison)}
    if not found:
        return ""
    drawn = {key: {name: part * 1e3 for name, part in one.parts.items() if part >= 0} for key, one in found.items()}
    scale = svg.from_zero((sum(parts.values()) for parts in drawn.values()), " ms")

    def bars(row: Row) -> list[Bar]:
        one = found.get((row.label, row.backend))
        if one is None:
            return []
        drawing = plots.stack(drawn[row.label, row.backend], scale, row, "parts")
        label = f"{row.label}, {row.backend}: {one.whole * 1e3:.3f} ms; " + "; ".join(
            f"{reconcile.NAMES[name]} {part * 1e3:.3f} ms" for name, part in one.parts.items()
        )
        return [Bar(row.backend, "", drawing, f"{one.whole * 1e3:.2f} ms", label)]

    legend = {f"phase-{name}": what for name, what in reconcile.NAMES.items()}
    return plots.chart("plot-parts", comparison, scale, bars, legend)


def side_by_side(comparison: Comparison) -> str:
    """Every alignment: a line for each block, which opens to the code of both sides."""
    return "".join(map(_alignment, alignments(comparison)))


def _alignment(one: Alignment) -> str:
    blocks = "".join(_block(number, one, block) for number, block in enumerate(one.blocks, 1))
    heading = f"{one.ours.label}, graph {one.ours.graph}, beside {one.theirs.compiler}"
    return tag("h3", text(heading)) + tag("div", blocks, class_="blocks")


def _block(number: int, one: Alignment, block: Block) -> str:
    verdict = tag("b", text(block.verdict))
    times = " | ".join(_time(row, steps) for row, steps in ((one.ours, block.ours), (one.theirs, block.theirs)))
    shown = ", ".join(block.nodes[:_SHOWN]) + (", …" if len(block.nodes) > _SHOWN else "")
    heading = tag("summary", f"{number}. {verdict}: {text(shown)} {tag('small', text(times))}")
    only = "".join(tag("p", text(f"{line[0].upper()}{line[1:]}"), class_="step") for line in remarks(block))
    nodes = tag("p", text(f"Nodes: {', '.join(block.nodes)}"), class_="muted")
    sides = _side(one.ours, block.ours) + _side(one.theirs, block.theirs)
    return tag("details", heading + nodes + only + tag("div", sides, class_="sides"), class_="block")


def _time(row: GraphRow, steps: Sequence[StepRow]) -> str:
    known = [step.seconds for step in steps if step.seconds is not None]
    return row.compiler + (f" {sum(known) * 1e6:.1f} µs" if known else "")


def _side(row: GraphRow, steps: Sequence[StepRow]) -> str:
    parts = [tag("h4", text(row.compiler))]
    shown: set[str] = set()
    for step in steps:
        data = {"data_step": step.name, "data_compiler": row.compiler}
        parts.append(tag("p", text(f"{step.kind} {step.name}{microseconds(step)}"), class_="step", **data))
        if step.name in row.codes and step.name not in shown:
            shown.add(step.name)
            parts.append(tag("pre", text(row.codes[step.name].strip()), tabindex=0))
    return tag("div", "".join(parts))
