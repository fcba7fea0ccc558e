"""The command `xpu-aten`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import aten_backend
from aten_backend.options import OptionError
from aten_backend.targets import TargetError, load_target
from runtime import doctor


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 for success, 1 for a bad finding, 2 for a command not understood."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except (TargetError, OptionError) as error:
        print(f"xpu-aten: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="xpu-aten", description="Tools of the xpu_aten backend of torch.compile.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_doctor(commands)
    _add_explain(commands)
    return parser


def _add_doctor(commands: Any) -> None:
    about = "Check what is installed, which devices there are, and whether a kernel can be compiled and run."
    command = commands.add_parser("doctor", help=about, description=about)
    command.add_argument("--compiler-python", metavar="P", help="interpreter that has numba-dpex, if not this one")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    command.set_defaults(run=_doctor)


def _add_explain(commands: Any) -> None:
    about = "Show what would be fused into kernels, what would be left to ATen, and why. Needs no device."
    command = commands.add_parser("explain", help=about, description=about)
    command.add_argument(
        "target",
        metavar="TARGET",
        help="module:function or file.py:function, a function returning (callable, args)",
    )
    command.add_argument("--ir", choices=("aten", "prims"), help="how far graphs are decomposed before lowering")
    command.add_argument("--json", action="store_true", help="print JSON instead of text")
    command.set_defaults(run=_explain)


def _doctor(arguments: argparse.Namespace) -> int:
    checks = doctor.diagnose(arguments.compiler_python)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(check) for check in checks], indent=2))
    else:
        _print_checks(checks)
    return 0 if all(check.ok for check in checks) else 1


def _print_checks(checks: Sequence[doctor.Check]) -> None:
    table = Table(title="xpu-aten doctor", title_justify="left")
    for heading in ("", "check", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        mark = "[green]ok[/green]" if check.ok else "[red]FAILS[/red]"
        remedy = "" if check.ok else check.remedy
        # The texts hold paths and error messages, which may look like rich's markup.
        table.add_row(mark, *(escape(text or "") for text in (check.name, check.detail, remedy)))
    Console().print(table)


def _explain(arguments: argparse.Namespace) -> int:
    function, args = load_target(arguments.target)
    options = {"ir": arguments.ir} if arguments.ir else {}
    explanation = aten_backend.explain(function, *args, options=options)
    if not arguments.json:
        print(explanation)
        return 0
    report = explanation.to_json()
    print(report if isinstance(report, str) else json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
