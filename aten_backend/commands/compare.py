"""`xpu-aten compare`: backends side by side."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from aten_backend.comparison import (
    align,
    baseline,
    dumped,
    levels,
    machine,
    records,
    render,
    report,
    runner,
    sheets,
    suites,
)
from aten_backend.comparison import backends as named
from aten_backend.comparison.records import Comparison
from aten_backend.comparison.runner import Interrupted, Settings
from aten_backend.comparison.workloads import Workload, WorkloadError, of_target
from aten_backend.targets import load_target

_ABOUT = """Compare backends on suites of workloads or on functions of your own: speed, compile time, kernels, memory,
and distance from float64. See docs/compare.md."""
_NARROWEST = 150  # columns; a narrower table would fold its numbers
INTERRUPTED = 130


def add(commands: Any) -> None:
    command = commands.add_parser("compare", help=_ABOUT.partition(":")[0] + ".", description=_ABOUT)
    _add_what(command)
    _add_how(command)
    _add_output(command)
    command.set_defaults(run=run)


def _add_what(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "targets",
        metavar="TARGET",
        nargs="*",
        help="file.py:function or module:function that returns (callable, args), or a folder that dump wrote",
    )
    command.add_argument("--suite", metavar="S,...", default="", help=f"suites to run: {', '.join(suites.SUITES)}")
    command.add_argument("--only", metavar="TEXT", default="", help="of the suites, only workloads whose name has TEXT")
    command.add_argument(
        "--backends",
        metavar="B,...",
        default=",".join(named.DEFAULT),
        help="eager, xpu_aten, xpu_aten:prims, xpu_inductor, inductor, or others that torch knows (%(default)s)",
    )
    command.add_argument("--ir", choices=(*named.IRS, "both"), help="how far xpu_aten's graphs are decomposed")
    command.add_argument("--list", action="store_true", help="list the workloads instead of running them")


def _add_how(command: argparse.ArgumentParser) -> None:
    command.add_argument("--rounds", type=_count, default=Settings.rounds, help="timed rounds (default: %(default)s)")
    command.add_argument(
        "--seconds",
        type=float,
        default=Settings.seconds,
        help="end the rounds of a workload after so many seconds, but not before six rounds (default: %(default)s)",
    )
    command.add_argument(
        "--graphs", action="store_true", help="give the traced graphs to each compiler directly as well, and time parts"
    )
    command.add_argument("--align", action="store_true", help="as --graphs, and print the kernels of both side by side")
    command.add_argument("--counts-only", action="store_true", help="compile and count kernels; time nothing")


def _add_output(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", metavar="FILE", type=Path, help="write all that was measured, after each workload")
    command.add_argument(
        "--resume", metavar="FILE", type=Path, help="as --json, but keep the workloads that FILE holds already"
    )
    command.add_argument("--show", metavar="FILE", type=Path, help="measure nothing: show what FILE holds")
    command.add_argument(
        "--levels",
        metavar="FILE",
        type=Path,
        help="measure nothing: write into a page how large xpu_aten and xpu_inductor are, their kernels, and what the "
        "file of --show has measured",
    )
    command.add_argument("--baseline", metavar="FILE", type=Path, help="tell what differs from FILE beyond noise")
    command.add_argument("--markdown", metavar="FILE", type=Path, help="write the tables as Markdown")
    command.add_argument("--html", metavar="FILE", type=Path, help="write plots and tables as one HTML file")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one")
    return number


def run(arguments: argparse.Namespace) -> int:
    console = Console()
    old = records.load(arguments.baseline) if arguments.baseline else None
    shown = records.load(arguments.show) if arguments.show else None
    if arguments.levels:
        chosen = _workloads(arguments) if arguments.targets or arguments.suite else levels.chosen()
        levels.write(arguments.levels, chosen, shown)
        return 0
    if shown is not None:
        return _report(arguments, console, shown, old)
    workloads = _workloads(arguments)
    if arguments.list:
        console.print("\n".join(workload.label for workload in workloads), markup=False, highlight=False)
        return 0
    graphs = arguments.graphs or arguments.align or any(Path(text).is_dir() for text in arguments.targets)
    settings = Settings(arguments.rounds, arguments.seconds, arguments.counts_only, graphs)
    backends = named.parse(_backend_names(arguments), again=not settings.counts_only)
    comparison = runner.new_comparison(settings, backends)
    if arguments.resume and arguments.resume.exists():
        runner.resume(comparison, records.load(arguments.resume))
    path = arguments.resume or arguments.json
    save = (lambda: comparison.save(path)) if path else (lambda: None)
    save()  # a path that cannot be written is told now, not after an hour
    complete = _measure(console, workloads, backends, settings, comparison, save)
    code = _report(arguments, console, comparison, old)
    return code if complete else INTERRUPTED


def _workloads(arguments: argparse.Namespace) -> list[Workload]:
    own = [workload for text in arguments.targets for workload in _target(text)]
    names = [name for name in arguments.suite.split(",") if name]
    if arguments.list and not own and not names:
        names = list(suites.SUITES)
    found = own + suites.select(names, arguments.only)
    if not found:
        unmatched = f"No workload of {arguments.suite} has {arguments.only!r} in its name."
        known = ", ".join(suites.SUITES)
        reason = unmatched if names else "Nothing to compare."
        raise WorkloadError(f"{reason} Give a TARGET or --suite ({known}); --list shows all workloads.")
    return found


def _target(text: str) -> list[Workload]:
    if Path(text).is_dir():
        return dumped.workloads(Path(text))
    load_target(text)  # what is wrong with it is told now
    return [of_target(text)]


def _backend_names(arguments: argparse.Namespace) -> tuple[str, ...]:
    names = [name for name in arguments.backends.split(",") if name]
    if not arguments.ir:
        return tuple(names)
    irs = named.IRS if arguments.ir == "both" else (arguments.ir,)
    each = [[f"{named.OURS}:{ir}" for ir in irs] if name == named.OURS else [name] for name in names]
    return tuple(name for group in each for name in group)


def _measure(
    console: Console,
    workloads: Sequence[Workload],
    backends: Sequence[named.Backend],
    settings: Settings,
    comparison: Comparison,
    save: Callable[[], None],
) -> bool:
    """Measure behind a progress bar. False when the user ended it."""
    if not settings.counts_only and machine.busy() > 1:
        console.print(f"The machine is busy (load {machine.busy():.1f}): times will be noisy.", style="yellow")
    what = TextColumn("{task.description}", markup=False)
    columns = (what, BarColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    # The speed is taken over half an hour: a workload stands still while it compiles.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=1800) as progress:
        task = progress.add_task("", total=sum(workload.weight for workload in workloads))
        try:
            runner.run(workloads, backends, settings, comparison, save, _teller(progress, task))
        except Interrupted:
            console.print("Interrupted: this is what was measured.", style="yellow")
            return False
    return True


def _teller(progress: Progress, task: TaskID) -> runner.Progress:
    def tell(what: str, done: float) -> None:
        progress.update(task, description=what, advance=done)

    return tell


def _report(arguments: argparse.Namespace, console: Console, comparison: Comparison, old: Comparison | None) -> int:
    changed = None if old is None else baseline.changes(old, comparison)
    tables = sheets.sheets(comparison, changed)
    console.width = max(console.width, _NARROWEST)
    render.show(console, tables)
    if arguments.align:
        for one in align.alignments(comparison):
            console.print("\n".join(align.text(one)), markup=False, highlight=False, soft_wrap=True)
    title = "Kernel counts" if comparison.settings.get("counts_only") else "Comparison"
    for path, write in ((arguments.markdown, render.markdown), (arguments.html, report.page)):
        if path:
            path.write_text(write(title, _command(arguments), comparison, tables), encoding="utf-8")
    return 1 if changed and any(change.worse for change in changed) else 0


def _command(arguments: argparse.Namespace) -> str:
    return "xpu-aten " + shlex.join(arguments.given)
