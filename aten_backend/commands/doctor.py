"""`xpu-aten doctor`: what is installed, and whether a kernel can be compiled and run."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from runtime.doctor import Check, diagnose


def add(commands: Any) -> None:
    about = "Check what is installed, which devices there are, and whether a kernel can be compiled and run."
    command = commands.add_parser("doctor", help=about, description=about)
    command.add_argument("--compiler-python", metavar="P", help="interpreter that has numba-dpex, if not this one")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    checks = diagnose(arguments.compiler_python)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(check) for check in checks], indent=2))
    else:
        _print_checks(checks)
    return 0 if all(check.ok for check in checks) else 1


def _print_checks(checks: Sequence[Check]) -> None:
    table = Table(title="xpu-aten doctor", title_justify="left")
    for heading in ("", "check", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        mark = "[green]ok[/green]" if check.ok else "[red]FAILS[/red]"
        remedy = "" if check.ok else check.remedy
        # The texts hold paths and error messages, which may look like rich's markup.
        table.add_row(mark, *(escape(text or "") for text in (check.name, check.detail, remedy)))
    Console().print(table)
