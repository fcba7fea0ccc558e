"""`xpu-aten warm`: how soon a training script ends its first step in a second process."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from aten_backend.comparison import machine, warm

_ABOUT = """Time from the start of a process to the end of its first training step: once with empty caches, then with
warm ones, xpu_aten (option aot_cache) and Inductor in turns. Ends with 1 when a warm process of xpu_aten traces a graph
or compiles a kernel."""


def add(commands: Any) -> None:
    command = commands.add_parser("warm", help=_ABOUT.partition(":")[0] + ".", description=_ABOUT)
    command.add_argument("--backends", metavar="B,...", default="xpu_aten,inductor", help="default: %(default)s")
    command.add_argument("--rounds", type=int, default=6, help="warm processes of each (default: %(default)s)")
    command.add_argument("--json", metavar="FILE", type=Path, help="write all that was measured")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    console = Console()
    if machine.busy() > 1:
        console.print(f"The machine is busy (load {machine.busy():.1f}): times will be noisy.", style="yellow")
    names = [name for name in arguments.backends.split(",") if name]
    with console.status("") as status:
        found = warm.measure(names, max(arguments.rounds, 1), status.update)
    console.print(_table(found))
    if arguments.json:
        measured = {name: dataclasses.asdict(starts) for name, starts in found.items()}
        about = {"machine": machine.machine(), "versions": machine.versions(), "starts": measured}
        arguments.json.write_text(json.dumps(about, indent=1), encoding="utf-8")
    ours = found.get("xpu_aten")
    return int(ours is not None and ours.compiles > 0)


def _table(found: dict[str, warm.Starts]) -> Table:
    table = Table("backend", title="First training step, seconds from the start of the process")
    for column in ("cold", "warm, median", "graphs traced", "graphs found", "kernels compiled"):
        table.add_column(column, justify="right")
    for name, starts in found.items():
        last = starts.warm[-1]
        counts = (last.graphs_traced, last.graphs_found, last.kernels_compiled)
        table.add_row(name, f"{starts.cold.seconds:.1f}", str(starts.seconds), *map(str, counts))
    return table
