"""`xpu-aten profile`: where the time of a compiled program goes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from aten_backend.flame import flame
from aten_backend.options import OptionError
from aten_backend.profiling import Profile, Step, profile
from aten_backend.targets import load_target


def add(commands: Any) -> None:
    about = "Compile and run a function, and show where its time goes: kernels by device time, ATen, the host."
    command = commands.add_parser("profile", help=about, description=about)
    command.add_argument("target", metavar="TARGET", help="module:function or file.py:function, as for explain")
    command.add_argument("--ir", choices=("aten", "prims"), help="how far graphs are decomposed before lowering")
    command.add_argument("--rounds", type=int, default=10, help="runs that are measured (default: %(default)s)")
    command.add_argument("--trace", metavar="FILE", type=Path, help="write a Chrome trace (Perfetto shows it)")
    command.add_argument("--flame", metavar="FILE", type=Path, help="write a flame-like picture as HTML")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.rounds < 1:
        raise OptionError("--rounds takes at least one")
    function, args = load_target(arguments.target)
    options = {"ir": arguments.ir} if arguments.ir else {}
    found = profile(function, *args, rounds=arguments.rounds, options=options)
    console = Console()
    _print(console, found)
    for path, write in ((arguments.trace, Profile.to_chrome), (arguments.flame, flame)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(write(found), encoding="utf-8")
            console.print(f"wrote {path}", markup=False, highlight=False)
    return 0


def _print(console: Console, found: Profile) -> None:
    rounds = len(found.rounds)
    title = f"{rounds} rounds of {_ms(found.total / rounds)} on {found.device}; a round:"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("graph")
    table.add_column("what", overflow="fold")
    table.add_column("where", overflow="fold")
    for heading in ("calls", "MB", "device", "GB/s", "host"):
        table.add_column(heading, justify="right")
    for step in found.table():
        table.add_row(*_row(step, rounds))
    table.add_section()
    table.add_row("", "waiting for kernels", "", "", "", "", "", _ms(found.waits / rounds))
    table.add_row("", "elsewhere: guards, wrappers, Python", "", "", "", "", "", _ms(found.elsewhere / rounds))
    console.print(table)


def _row(step: Step, rounds: int) -> tuple[str, ...]:
    place = step.source.partition(": ")[0].rpartition("/")[2]
    speed = f"{step.bytes / step.time:.1f}" if step.kernel and step.time else ""
    device = _ms(step.device / rounds) if step.kernel else ""
    calls = f"{step.calls / rounds:g}"
    return (
        escape(step.graph), f"[blue]{escape(step.what)}[/blue]" if step.kernel else escape(step.what), escape(place),
        calls, f"{step.bytes / rounds / 1e6:.2f}", device, speed, _ms(step.host / rounds),
    )  # fmt: skip


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3f} ms" if nanoseconds >= 1e5 else f"{nanoseconds / 1e3:.1f} us"
