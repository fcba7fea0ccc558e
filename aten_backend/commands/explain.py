"""`xpu-aten explain`: what would be fused, what would be left to ATen, and why."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import aten_backend
from aten_backend.targets import load_target


def add(commands: Any) -> None:
    about = "Show what would be fused into kernels, what would be left to ATen, and why. Needs no device."
    command = commands.add_parser("explain", help=about, description=about)
    command.add_argument(
        "target",
        metavar="TARGET",
        help="module:function or file.py:function, a function returning (callable, args)",
    )
    command.add_argument("--ir", choices=("aten", "prims"), help="how far graphs are decomposed before lowering")
    command.add_argument("--json", action="store_true", help="print JSON instead of text")
    command.add_argument("--html", metavar="FILE", type=Path, help="write a page instead of printing text")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    function, args = load_target(arguments.target)
    options = {"ir": arguments.ir} if arguments.ir else {}
    explanation = aten_backend.explain(function, *args, options=options)
    if arguments.html is not None:
        arguments.html.write_text(explanation.to_html(), encoding="utf-8")
        print(arguments.html)
        return 0
    if not arguments.json:
        print(explanation)
        return 0
    report = explanation.to_json()
    print(report if isinstance(report, str) else json.dumps(report, indent=2))
    return 0
