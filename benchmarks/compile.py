"""Where the time goes in which a kernel is compiled, over the kernels of the comparison's suites.

Run it: ``python benchmarks/compile.py [SUITE ...]`` (fusion by default). Times are processor time, so that what else
runs on the machine matters little. docs/compile-time.md has the results.
"""

from __future__ import annotations

import sys
import time

import torch

from aten_backend.comparison import suites
from aten_backend.explanation import lowered_graphs
from aten_backend.options import Options
from aten_backend.pipeline import traits_of
from lowering.artifacts import KernelSource
from runtime.compiler import CompiledKernel, KernelCompiler
from runtime.devices import Device, resolve
from runtime.launcher import build_kernel


def kernels_of(names: list[str], device: Device) -> dict[str, KernelSource]:
    """The distinct kernels of whole suites, forward only."""
    found: dict[str, KernelSource] = {}
    for workload in suites.select(names, ""):
        case = workload.make()
        with torch.no_grad():
            graphs = lowered_graphs(case.fn, case.calls[0], case.kwargs, Options(), traits_of(device))
        found.update((k.source.name, k.source) for graph in graphs for k in graph.plan.kernels)
    return found


def compile_all(sources: dict[str, KernelSource]) -> dict[str, CompiledKernel]:
    """Compile everything in one process, and print where the time went."""
    compiler = KernelCompiler()
    results = {name: compiler.submit(source).result() for name, source in sources.items()}
    for stage, seconds in compiler.seconds().items():
        print(f"{stage:24} {1e3 * seconds / len(sources):6.1f} ms a kernel")
    compiler.shutdown()
    return results


def load_all(device: Device, sources: dict[str, KernelSource], results: dict[str, CompiledKernel]) -> None:
    """Make the results kernels of the device, as a process does that finds them on disk."""
    start = time.process_time()
    for name, source in sources.items():
        build_kernel(device, results[name], source)
    print(f"{'loading machine code':24} {1e3 * (time.process_time() - start) / len(sources):6.1f} ms a kernel")


def main() -> None:
    """Print one line a stage."""
    device = resolve()
    sources = kernels_of(sys.argv[1:] or ["fusion"], device)
    lines = sum(source.text.count("\n") for source in sources.values())
    print(f"{len(sources)} kernels of {lines / len(sources):.0f} lines")
    load_all(device, sources, compile_all(sources))


if __name__ == "__main__":
    main()
