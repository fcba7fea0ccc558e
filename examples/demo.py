"""Two models through eager, xpu_aten and Inductor: speed, compile time, kernels, and distance from float64."""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import dataclasses
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._dynamo
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch._dynamo.utils import counters

import aten_backend
import models

BACKENDS = ("eager", "xpu_aten", "inductor")
CASES: dict[str, Callable[[], models.Case]] = {"BERT": models.bert, "ResNet-18": models.resnet}
KERNEL_COUNTS = ("sycl_kernels", "kernel_calls", "extern_calls", "fallback_nodes")

NOTES = """\
Latency: median of interleaved rounds; the factor is eager's time divided by it (above 1 is faster than eager).
Cold compile: the first call, with empty caches and without what torch spends once per process on Dynamo itself; a
backend's first model includes its own start. Kernels are distinct ones; calls are launches in one run of the model.
Distance: largest absolute difference from eager in float64, over all outputs."""


@dataclasses.dataclass
class Result:
    """One row of the table, filled as the run goes on."""

    model: str
    backend: str
    run: Callable[[], Any] | None = None
    seconds: list[float] = dataclasses.field(default_factory=list)
    compile_seconds: float | None = None
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    distance: float | None = None
    error: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else float("nan")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison and print it. The exit code is 1 when xpu_aten failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="timed rounds for each model (default 30)")
    parser.add_argument("--backends", default=",".join(BACKENDS), help=f"default: {','.join(BACKENDS)}")
    arguments = parser.parse_args(argv)
    console = Console()
    console.width = max(console.width, 112)  # a narrower table would cut its numbers
    with tempfile.TemporaryDirectory(prefix="xpu_aten_demo_") as folder, _cold_caches(Path(folder)):
        results, left_to_aten = _measure(arguments.backends.split(","), arguments.rounds, console)
    console.print(_table(results))
    console.print(NOTES, style="dim", highlight=False, soft_wrap=True)
    _print_details(console, results, left_to_aten)
    return int(any(result.error and result.backend == "xpu_aten" for result in results))


class _cold_caches:
    """Caches of both compilers in a fresh folder for the time of the run: a compile is then a cold one."""

    def __init__(self, folder: Path) -> None:
        # torch's AOTAutograd keeps its cache inside Inductor's folder, for every backend.
        self._new = {"XPU_ATEN_CACHE_DIR": str(folder / "xpu_aten"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch")}

    def __enter__(self) -> None:
        self._old = {name: os.environ.get(name) for name in self._new}
        os.environ.update(self._new)

    def __exit__(self, *_: object) -> None:
        for name, value in self._old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _measure(backends: Sequence[str], rounds: int, console: Console) -> tuple[list[Result], dict[str, list[str]]]:
    _warm_dynamo()
    results: list[Result] = []
    left_to_aten: dict[str, list[str]] = {}
    columns = (TextColumn("{task.description:<45}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress, torch.no_grad():
        task = progress.add_task("", total=len(CASES) * (2 + len(backends) + rounds))
        for name, make in CASES.items():
            progress.update(task, description=f"{name}: model and float64 reference")
            torch._dynamo.reset()
            model, args = make()
            reference = _in_float64(model, args)
            progress.advance(task)
            rows = []
            for backend in backends:
                progress.update(task, description=f"{name}: {backend}, first call")
                rows.append(_first_call(name, backend, model, args, reference))
                progress.advance(task)
            progress.update(task, description=f"{name}: timing")
            for index in range(rounds):
                _timed_round(rows, index)
                progress.advance(task)
            # Last, because explaining may throw away what was compiled.
            progress.update(task, description=f"{name}: explaining")
            left_to_aten[name] = _explain(model, args) if "xpu_aten" in backends else []
            progress.advance(task)
            results += rows
    return results, left_to_aten


def _warm_dynamo() -> None:
    """Importing and starting Dynamo takes seconds once a process; no backend should be charged for it."""
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))


def _in_float64(model: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    doubled = tuple(arg.double() if arg.is_floating_point() else arg for arg in args)
    return _tensors(copy.deepcopy(model).double()(*doubled))


def _tensors(output: Any) -> list[torch.Tensor]:
    """The tensors of a transformers output, which is a mapping."""
    return [value for value in output.values() if isinstance(value, torch.Tensor)]


def _first_call(
    name: str, backend: str, model: torch.nn.Module, args: tuple[torch.Tensor, ...], reference: list[torch.Tensor]
) -> Result:
    """Compile by calling once, and compare the output with float64. A backend's failure becomes a row."""
    result = Result(name, backend)
    run = model if backend == "eager" else torch.compile(model, backend=backend)
    counters.clear()
    started = time.perf_counter()
    try:
        with _inductor_code(backend) as code:
            output = _tensors(run(*args))
    except Exception as error:  # whatever a compiler raises (no C++ compiler, no device): told, not hidden
        result.error = f"{type(error).__name__}: {error}"
        return result
    if backend != "eager":
        result.compile_seconds = time.perf_counter() - started
    result.counts = _counts(backend, code)
    pairs = zip(output, reference, strict=True)
    result.distance = max(float((mine.double() - exact).abs().max()) for mine, exact in pairs)
    result.run = lambda: run(*args)
    return result


@contextlib.contextmanager
def _inductor_code(backend: str) -> Iterator[list[str]]:
    """The source of the wrappers that Inductor generates meanwhile; stays empty for other backends."""
    code: list[str] = []
    if backend != "inductor":
        yield code
        return
    # Imported here, so that Inductor's import is part of its first compile, as it is for its users.
    from torch._inductor.graph import GraphLowering

    with mock.patch.object(GraphLowering, "save_output_code", code.append):
        yield code


def _counts(backend: str, inductor_code: Sequence[str]) -> dict[str, int]:
    """What one run of the model consists of, under the names of xpu_aten's counters."""
    if backend == "xpu_aten":
        # A counter that was never touched is a zero.
        return dict.fromkeys(KERNEL_COUNTS, 0) | dict(counters["xpu_aten"])
    if backend == "inductor":
        text = "\n".join(inductor_code)
        return {
            "sycl_kernels": len(re.findall(r"^cpp_\w+ = async_compile", text, re.MULTILINE)),
            "kernel_calls": len(re.findall(r"^ +cpp_\w+\(", text, re.MULTILINE)),
            "extern_calls": counters["inductor"]["extern_calls"],
        }
    return {}


def _timed_round(rows: Sequence[Result], index: int) -> None:
    """Run each backend once, starting with another one in each round, so that drift hits all alike."""
    ready = [row for row in rows if row.run is not None]
    for offset in range(len(ready)):
        row = ready[(index + offset) % len(ready)]
        assert row.run is not None
        started = time.perf_counter()
        row.run()
        row.seconds.append(time.perf_counter() - started)


def _explain(model: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> list[str]:
    """One line for each operator and reason of the nodes that were left to ATen."""
    try:
        externs = aten_backend.explain(model, *args).externs
    except Exception as error:  # the table is still worth printing
        return [f"explain failed: {type(error).__name__}: {error}"]
    found = collections.Counter((str(extern.op), str(extern.reason)) for extern in externs)
    return [f"{count:4} x {op}: {reason}" for (op, reason), count in found.most_common()]


def _table(results: Sequence[Result]) -> Table:
    table = Table(title=f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32", title_justify="left")
    table.add_column("model")
    table.add_column("backend")
    for heading in ("latency ms", "vs eager", "cold compile s", "kernels", "calls", "extern", "fallbacks", "distance"):
        table.add_column(heading, justify="right")
    eager = {result.model: result.median for result in results if result.backend == "eager"}
    for index, result in enumerate(results):
        last = index + 1 == len(results) or results[index + 1].model != result.model
        table.add_row(*_cells(result, eager.get(result.model, float("nan"))), end_section=last)
    return table


def _cells(result: Result, eager: float) -> list[str]:
    if result.run is None:
        return [result.model, result.backend, "failed", *[""] * 7]
    return [
        result.model,
        result.backend,
        f"{result.median * 1e3:.1f}",
        f"{eager / result.median:.2f}x",
        "" if result.compile_seconds is None else f"{result.compile_seconds:.1f}",
        *(str(result.counts.get(key, "")) for key in KERNEL_COUNTS),
        f"{result.distance:.1e}",
    ]


def _print_details(console: Console, results: Sequence[Result], left_to_aten: dict[str, list[str]]) -> None:
    for name, lines in left_to_aten.items():
        if lines:
            console.print(f"\n{name}: left to ATen by xpu_aten, and why", style="bold", highlight=False)
            console.print(escape("\n".join(lines)), highlight=False)
    for result in results:
        if result.error:
            console.print(f"\n{result.model}: {result.backend} failed", style="bold red", highlight=False)
            console.print(escape("\n".join(result.error.splitlines()[:12])), highlight=False)


if __name__ == "__main__":
    sys.exit(main())
