"""The tables of a report, as plain cells: the terminal and Markdown show the same ones."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from aten_backend.comparison import align, reconcile, stats, summary
from aten_backend.comparison.backends import AGAIN, EAGER, INDUCTOR
from aten_backend.comparison.baseline import Change
from aten_backend.comparison.graphs.steps import ATEN, KERNEL
from aten_backend.comparison.records import Comparison, GraphRow, Row, StepRow

_SHOWN_LOSERS = 12
_COUNT_HEADINGS = (
    *("workload", "launches", "distinct", "Inductor", "its loops"),
    *("ATen", "Inductor's ATen", "fallbacks", "remark"),
)


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A table with its title and notes. The first ``texts`` columns are words, the rest numbers."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1
    notes: tuple[str, ...] = ()


def is_text(sheet: Sheet, column: int) -> bool:
    """Whether a column holds words."""
    return column < sheet.texts or sheet.headings[column] == "remark"


def sheets(comparison: Comparison, changed: list[Change] | None = None) -> list[Sheet]:
    """Every table that there is something to say in. ``changed`` is what differs from a baseline, if there is one."""
    found: list[Sheet] = []
    if any(row.samples for row in comparison.rows):
        found += [_times(comparison), _means(comparison)]
    if any(row.cold_compile_seconds for row in comparison.rows) and not comparison.settings.get("counts_only"):
        found.append(_compile(comparison))
    found += [_counts(comparison, backend) for backend in summary.ours(comparison)]
    if comparison.graphs:
        found += [_graphs(comparison), _accounts(comparison), _blocks(comparison)]
    found.append(_failures(comparison))
    if changed is not None:
        found.append(_changes(changed))
    return [sheet for sheet in found if sheet.rows or sheet.notes]


def _times(comparison: Comparison) -> Sheet:
    rows = tuple(_time_row(comparison, row) for row in comparison.rows if row.samples and not row.error)
    notes = (
        "ms: median of interleaved rounds. Factors: medians of the rounds' ratios, 95% intervals; above 1 is faster.",
        '"eager again" against eager is the noise floor: it should be 1.',
        "Distance: the largest difference from eager in float64, as a share of the tensor's largest element.",
    )
    headings = ("workload", "backend", "ms", "times as fast as eager", "as Inductor", "distance", "peak MB")
    return Sheet("Times", headings, rows, 2, notes)


def _time_row(comparison: Comparison, row: Row) -> tuple[str, ...]:
    median = statistics.median(row.samples) * 1e3
    return (
        row.label,
        row.backend,
        f"{median:.3f}" if median < 10 else f"{median:.1f}",
        _factor(comparison, row, EAGER),
        _factor(comparison, row, INDUCTOR) if row.backend not in (EAGER, AGAIN) else "",
        "" if row.distance is None else f"{row.distance:.1e}",
        "" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:.1f}",
    )


def _factor(comparison: Comparison, row: Row, over: str) -> str:
    other = comparison.row(row.label, over)
    if other is None or over == row.backend or not other.samples:
        return ""
    return str(stats.median(stats.paired_ratios(other.samples, row.samples)))


def _means(comparison: Comparison) -> Sheet:
    means = summary.means(comparison)
    rows = tuple((m.suite, m.backend, m.over, str(m.speedup), str(m.workloads), str(len(m.losers))) for m in means)
    notes = []
    for mean in means:
        if mean.losers and mean.suite != "all":
            shown = ", ".join(f"{label} {found}" for label, found in mean.losers[:_SHOWN_LOSERS])
            more = f" and {len(mean.losers) - _SHOWN_LOSERS} more" if len(mean.losers) > _SHOWN_LOSERS else ""
            notes.append(f"{mean.backend} is slower than {mean.over} on: {shown}{more}.")
        if mean.left_out and mean.suite != "all":
            notes.append(f"{mean.backend} over {mean.over}, without: {', '.join(mean.left_out)}.")
    itself = summary.noise(comparison)
    if itself:
        notes.append(f"Noise floor: eager over itself is {stats.geometric_mean(list(itself.values()))}.")
    headings = ("suite", "backend", "over", "geometric mean", "workloads", "slower on")
    return Sheet("Geometric means, unclipped", headings, rows, 3, tuple(notes))


def _compile(comparison: Comparison) -> Sheet:
    rows = tuple(
        (row.label, row.backend, _seconds(row.cold_compile_seconds), _seconds(row.warm_compile_seconds))
        for row in comparison.rows
        if row.cold_compile_seconds is not None
    )
    notes = [
        "Seconds of the first call. Cold: empty caches, but the compilers' own processes are running. "
        "Warm: after a reset, with the caches that the cold one left."
    ]
    for mean in summary.compile_means(comparison):
        factors = f"cold {mean.cold:.2f}" + ("" if mean.warm is None else f", warm {mean.warm:.2f}")
        notes.append(f"{mean.suite}, geometric mean of {mean.over}'s time over that of {mean.backend}: {factors}.")
    return Sheet("Compile times", ("workload", "backend", "cold s", "warm s"), rows, 2, tuple(notes))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _counts(comparison: Comparison, backend: str) -> Sheet:
    rows = tuple(_count_row(one) for one in summary.counted(comparison, backend))
    if not rows:
        return Sheet("", (), ())
    notes = (
        "Launches: kernels that one run launches, the backward pass included; distinct: how many different ones.",
        "Inductor: calls of fused kernels in the wrappers that it generates. One such call may run several loop nests, "
        "one after the other: loops has their number.",
        "ATen: calls of ATen or of a library. Fallbacks: nodes that ours has no lowering for.",
    )
    return Sheet(f"Kernels of {backend} and of Inductor", _COUNT_HEADINGS, rows, 1, notes)


def _count_row(one: summary.Counted) -> tuple[str, ...]:
    mine, theirs = one.ours.counts, one.theirs.counts
    remark = f"{one.more} more than Inductor" if one.more else ""
    if mine.get("second_stages"):
        stages = f"{mine['second_stages']} long reduction{'s' if mine['second_stages'] > 1 else ''} in two stages"
        remark = f"{remark}; {stages}" if remark else stages
    return (
        one.label,
        str(mine["launches"]),
        str(mine["kernels"]),
        str(theirs["launches"]),
        str(theirs.get("loops", "")),
        str(mine["extern_calls"]),
        str(theirs["extern_calls"]),
        str(mine.get("fallback_nodes", "")),
        remark,
    )


def _failures(comparison: Comparison) -> Sheet:
    rows = tuple((row.label, row.backend, row.error or row.note) for row in comparison.rows if row.error or row.note)
    return Sheet("Failures", ("workload", "backend", "what"), rows, 3)


def _changes(changed: list[Change]) -> Sheet:
    rows = tuple((one.label, one.backend, "worse" if one.worse else "better", one.what) for one in changed)
    notes = () if rows else ("Nothing differs from the baseline beyond noise.",)
    return Sheet("Against the baseline", ("workload", "backend", "", "what"), rows, 4, notes)


# ---- graphs


def _graphs(comparison: Comparison) -> Sheet:
    headings = ("workload", "graph", "compiler", "nodes", "kernels", "ATen", "compile s", "ms", "kernels ms", "ATen ms",
                "host ms", "parts / whole", "remark")  # fmt: skip
    notes = (
        "Graphs after AOTAutograd, of one trace, each given to every compiler: for Inductor from its lowering on.",
        "ms: the graph within one run of its program, median of interleaved rounds. Its parts come from further runs "
        "in each round, with clocks between the steps.",
    )
    return Sheet("One trace for all", headings, tuple(map(_graph_row, comparison.graphs)), 3, notes)


def _graph_row(row: GraphRow) -> tuple[str, ...]:
    whole = statistics.median(row.samples) if row.samples else None
    kinds = [sum(step.kind == kind for step in row.steps) for kind in (KERNEL, ATEN)]
    together = f"{sum(row.parts.values()) / whole:.2f}" if whole and row.parts else ""
    return (
        row.label,
        row.graph,
        row.compiler,
        str(row.nodes),
        *(("", "") if row.compiler == EAGER or row.error else map(str, kinds)),
        _seconds(row.compile_seconds),
        _milliseconds(whole),
        *(_milliseconds(row.parts.get(name)) for name in ("kernels", "aten", "host")),
        together,
        row.error,
    )


def _accounts(comparison: Comparison) -> Sheet:
    rows = tuple(
        (one.label, one.backend, _milliseconds(one.end_to_end), _milliseconds(one.whole), _milliseconds(one.graphs),
         *(_milliseconds(one.parts[name]) for name in reconcile.NAMES), f"{one.explained:.2f}")
        for one in reconcile.accounts(comparison)
    )  # fmt: skip
    notes = (
        "Whole: the program whose graphs these are. Graphs: their part of it. Both without clocks inside the graphs.",
        "Kernels, ATen, host and guards are measured each by itself, in runs of the same program in the same process; "
        "explained is their sum over the whole. The rest (AOTAutograd's wrappers, autograd, Python) is not measured.",
        "torch.compile: the backend's own program. Inductor's has its own decompositions and passes.",
    )
    headings = ("workload", "backend", "torch.compile ms", "whole ms", "graphs ms", "kernels ms", "ATen ms", "host ms",
                "guards ms", "rest ms", "explained")  # fmt: skip
    return Sheet("The whole and its parts", headings, rows, 2, notes if rows else ())


def _blocks(comparison: Comparison) -> Sheet:
    found = [(one, block) for one in align.alignments(comparison) for block in one.blocks]
    rows = tuple(
        (one.ours.label, one.ours.graph, one.theirs.compiler, block.verdict, ", ".join(block.nodes),
         _together(block.ours), _together(block.theirs))
        for one, block in found
        if block.verdict != align.SAME
    )  # fmt: skip
    notes = (
        f"Kernels and calls of ATen by the nodes that they compute: {len(found) - len(rows)} of {len(found)} blocks "
        "are cut the same by both, the others are here. All of them, with their code: --align, or --html.",
    )
    headings = ("workload", "graph", "beside", "cut", "nodes", "ours ms", "its ms")
    return Sheet("Cut differently by the two", headings, rows, 5, notes if found else ())


def _together(steps: Sequence[StepRow]) -> str:
    known = [step.seconds for step in steps if step.seconds is not None]
    return _milliseconds(sum(known)) if known else ""


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value * 1e3:.3f}"
