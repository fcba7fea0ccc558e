"""`xpu-aten bisect`: from a wrong number, a failure or a slow graph to the part of the compiler at fault."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from aten_backend.bisect.prober import Prober, Setting
from aten_backend.bisect.search import Finding, Search
from aten_backend.options import Options

LARGE = 10
"""Calls above which a script is no longer one that is read at a glance."""


def add(commands: Any) -> None:
    about = (
        "Find the step, op or option of the compiler that makes a target's numbers wrong, or makes it fail, crash or "
        "run slowly, and leave a small script that shows it."
    )
    command = commands.add_parser("bisect", help=about, description=about)
    command.add_argument(
        "target",
        metavar="TARGET",
        help="module:function or file.py:function, a function returning (callable, args)",
    )
    command.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the backend")
    command.add_argument("--plugin", action="append", default=[], metavar="P", help="module or file.py to import first")
    command.add_argument("--dynamic", action="store_true", help="compile with dynamic=True")
    command.add_argument(
        "--train", action="store_true", help="with gradients, and the backward pass of the sum of the results"
    )
    command.add_argument(
        "--slower-than", type=float, metavar="X", help="a graph that takes more than X times eager's time is at fault"
    )
    command.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds after which a trial hangs")
    command.add_argument(
        "--out", type=Path, default=Path("xpu_aten_bisect"), metavar="DIR", help="where the script goes"
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of text")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    given = dict(_pair(text) for text in arguments.option)
    Options.parse(None, given)  # what is no option is told now
    setting = Setting(
        arguments.target,
        given,
        tuple(arguments.plugin),
        True if arguments.dynamic else None,
        arguments.train,
        arguments.slower_than,
        arguments.timeout,
    )
    console = Console(stderr=arguments.json)
    with console.status("starting") as status, Prober(setting, lambda text: status.update(escape(text))) as prober:
        finding = Search(prober, arguments.out).run()
        trials = prober.trials
    if arguments.json:
        print(json.dumps(None if finding is None else dataclasses.asdict(finding), indent=2))
    elif finding is None:
        console.print(f"Nothing is wrong with {arguments.target}, in {trials} trials.", highlight=False)
    else:
        _print(console, finding, shlex.join(["xpu-aten", *arguments.given]))
    return 0 if finding is None else 1


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _print(console: Console, finding: Finding, command: str) -> None:
    rows = [("Symptom", f"{finding.symptom.value}, {finding.graph}: {finding.detail}")]
    if finding.group is not None:
        number, ops = finding.group
        rows.append(("Group", f"{number} of {finding.groups}, the first with which it appears: {', '.join(ops)}"))
    rows.append(("To blame", str(finding.culprit)))
    if finding.ops:
        rows.append(("Least part", f"{len(finding.ops)} ATen nodes: {', '.join(finding.ops)}"))
    if finding.script is not None:
        again = f"python {shlex.quote(finding.script)}"
        rows.append(("Script", again if finding.reproduces else f"{again} (which does not show it by itself)"))
    rows.append(("Again", f"{command} ({finding.trials} trials)"))
    for name, text in rows:
        console.print(f"[bold]{name}[/bold]: {escape(text)}", highlight=False, soft_wrap=True)
