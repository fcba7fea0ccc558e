"""Two models through eager, xpu_aten and Inductor: speed, compile time, kernels, and distance from float64."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import aten_backend
import models
from aten_backend.comparison import backends as named
from aten_backend.comparison import report, runner, sheets
from aten_backend.comparison.records import Comparison, Row
from aten_backend.comparison.workloads import Workload, of_target

CASES = {"BERT": "bert", "ResNet-18": "resnet"}
"""Names of models, and of the functions of `models.py` that make them."""
COUNTS = ("kernels", "launches", "extern_calls", "fallback_nodes")

NOTES = """\
Latency: median of interleaved rounds; the factor is eager's time divided by it (above 1 is faster than eager).
Cold compile: the first call, with empty caches; the compilers' own processes are running. Kernels are distinct ones;
calls are launches in one run of the model. Distance: the largest difference from eager in float64, as a share of the
tensor's largest element."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison, print it and write the report. The exit code is 1 when xpu_aten failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="timed rounds for each model (default 30)")
    parser.add_argument("--backends", default=",".join(named.DEFAULT), help=f"default: {','.join(named.DEFAULT)}")
    parser.add_argument("--html", type=Path, help="where the report goes (default: a temporary folder)")
    arguments = parser.parse_args(argv)
    console = Console()
    console.width = max(console.width, 112)  # a narrower table would cut its numbers
    comparison = _measure(arguments.backends.split(","), arguments.rounds, console)
    console.print(_table(comparison))
    console.print(NOTES, style="dim", highlight=False, soft_wrap=True)
    _print_details(console, comparison)
    path = arguments.html or Path(tempfile.mkdtemp(prefix="xpu_aten_demo_")) / "report.html"
    path.write_text(report.page("Demo", "make demo", comparison, sheets.sheets(comparison)), encoding="utf-8")
    console.print(f"\nThe report, with plots and how to read them: {path}", highlight=False, soft_wrap=True)
    return int(any(row.error and row.backend == named.OURS for row in comparison.rows))


def _measure(backends: Sequence[str], rounds: int, console: Console) -> Comparison:
    workloads = [_workload(name, function) for name, function in CASES.items()]
    settings = runner.Settings(rounds=rounds)
    chosen = named.parse(tuple(backends))
    comparison = runner.new_comparison(settings, chosen)
    columns = (TextColumn("{task.description:<45}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(workload.weight for workload in workloads))
        runner.run(
            workloads,
            chosen,
            settings,
            comparison,
            progress=lambda what, done: progress.update(task, description=what, advance=done),
        )
    return comparison


def _workload(name: str, function: str) -> Workload:
    """As a target, so that each backend's process can make it for itself."""
    target = of_target(f"{models.__file__}:{function}")
    return dataclasses.replace(target, suite="demo", name=name)


def _table(comparison: Comparison) -> Table:
    threads = comparison.threads["intra_op"]
    table = Table(title=f"torch {torch.__version__}, {threads} threads, float32", title_justify="left")
    table.add_column("model")
    table.add_column("backend")
    for heading in ("latency ms", "vs eager", "cold compile s", "kernels", "calls", "extern", "fallbacks", "distance"):
        table.add_column(heading, justify="right")
    for label in comparison.labels:
        eager = comparison.row(label, named.EAGER)
        for row in comparison.rows:
            if row.label == label and row.backend != named.AGAIN:
                table.add_row(*_cells(row, eager))
        table.add_section()
    return table


def _cells(row: Row, eager: Row | None) -> list[str]:
    if row.error:
        return [row.workload, row.backend, "failed", *[""] * 7]
    median = statistics.median(row.samples)
    return [
        row.workload,
        row.backend,
        f"{median * 1e3:.1f}",
        "" if eager is None else f"{statistics.median(eager.samples) / median:.2f}x",
        "" if row.cold_compile_seconds is None else f"{row.cold_compile_seconds:.1f}",
        *(str(row.counts.get(key, "")) for key in COUNTS),
        "" if row.distance is None else f"{row.distance:.1e}",
    ]


def _print_details(console: Console, comparison: Comparison) -> None:
    for name, function in CASES.items():
        lines = _left_to_aten(function) if named.OURS in comparison.backends else []
        if lines:
            console.print(f"\n{name}: left to ATen by xpu_aten, and why", style="bold", highlight=False)
            console.print(escape("\n".join(lines)), highlight=False)
    for row in comparison.rows:
        if row.error:
            console.print(f"\n{row.workload}: {row.backend} failed", style="bold red", highlight=False)
            console.print(escape(row.error), highlight=False)


def _left_to_aten(function: str) -> list[str]:
    """One line for each operator and reason of the nodes that were left to ATen."""
    model, args = getattr(models, function)()
    try:
        with torch.no_grad():
            externs = aten_backend.explain(model, *args).externs
    except Exception as error:  # the table is still worth printing
        return [f"explain failed: {type(error).__name__}: {error}"]
    found = collections.Counter((str(extern.op), str(extern.reason)) for extern in externs)
    return [f"{count:4} x {op}: {reason}" for (op, reason), count in found.most_common()]


if __name__ == "__main__":
    sys.exit(main())
