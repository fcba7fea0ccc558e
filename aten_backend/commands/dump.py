"""`xpu-aten dump`: every stage of every graph of a program, in a folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from aten_backend.backend import xpu_aten
from aten_backend.dump.writer import MEASURED
from aten_backend.profiling import run_once
from aten_backend.targets import load_target


def add(commands: Any) -> None:
    about = "Compile and run a function, and write what became of its graphs: every stage, scripts, and a page."
    command = commands.add_parser("dump", help=about, description=about)
    command.add_argument("target", metavar="TARGET", help="module:function or file.py:function, as for explain")
    command.add_argument("--out", metavar="DIR", type=Path, default=Path("xpu_aten_dump"), help="default: %(default)s")
    command.add_argument("--ir", choices=("aten", "prims"), help="how far graphs are decomposed before lowering")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    function, args = load_target(arguments.target)
    options: dict[str, Any] = {"dump_dir": str(arguments.out)}
    if arguments.ir:
        options["ir"] = arguments.ir
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=xpu_aten, options=options)
    try:
        for _ in range(MEASURED):
            run_once(compiled, args)
    finally:  # what failed is in the dump
        print(f"{arguments.out / 'index.html'}")
    return 0
