"""What a launch costs the host: one that is queued, beside the bare calls of dpctl's C interface that it consists of,
and one by ATen's threads, which has run the kernel when it returns.

Run it: ``python benchmarks/launch.py``. Each number is the least of many single calls, measured in turn with the
others, as anything else that runs on the machine only adds to them. docs/launching.md has the results.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from lowering.artifacts import KernelSource, Param
from runtime.compiler import KernelCompiler
from runtime.devices import Device, resolve
from runtime.launch import QueuedLaunch
from runtime.launcher import Kernel, build_kernel
from runtime.libraries import syclinterface

ROUNDS, CALLS = 100, 50
SIZE = (64,)


def least(functions: dict[str, Callable[[], Any]], wait: Callable[[], None]) -> dict[str, float]:
    """The least time of one call of each function, in microseconds."""
    clock = time.perf_counter
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for name, function in functions.items():
            for _ in range(CALLS):
                start = clock()
                function()
                best[name] = min(best[name], clock() - start)
            wait()
    return {name: 1e6 * seconds for name, seconds in best.items()}


def kernel_of(compiler: KernelCompiler, device: Device, pointers: int) -> Kernel:
    """A kernel of so many arrays, which writes to the first."""
    params = tuple(Param(f"b{number}", "pointer", "float32") for number in range(pointers))
    name = f"launch_benchmark_{pointers}"
    text = f"def {name}(item, {', '.join(p.name for p in params)}):\n    b0[item.get_id(0)] = np.float32(1.0)\n"
    source = KernelSource(name, text, params, 1)
    return build_kernel(device, compiler.submit(source).result(), source)


def bare(launch: QueuedLaunch, args: Sequence[int]) -> Callable[[], None]:
    """The foreign calls alone, with arguments that are ready: the least that ctypes can take."""
    library = syclinterface()
    block = launch.new_block()
    block[0][: len(args)] = memoryview(bytearray(b"".join(a.to_bytes(8, "little") for a in args))).cast("Q")
    launch.resize(block, SIZE)
    submit, arguments, delete_event = library.DPCTLQueue_SubmitRange, block[3], library.DPCTLEvent_Delete

    def call(keep: Any = block) -> None:
        delete_event(submit(*arguments))

    return call


def launches() -> None:
    """A launch of kernels of one, three and seven arrays."""
    device, compiler = resolve(), KernelCompiler()
    print("arrays  bare us  queued us  ratio  run by the caller us  by all threads us")
    for pointers in (1, 3, 7):
        kernel = kernel_of(compiler, device, pointers)
        queued, team = kernel.by_queue(), kernel.bind()
        arrays = [torch.zeros(SIZE) for _ in range(pointers)]
        args = tuple(array.data_ptr() for array in arrays)
        found = least(
            {
                "bare": bare(queued, args),
                "queued": functools.partial(queued.launch, args, SIZE),
                "caller": functools.partial(team.launch, args, SIZE, True),
                "all": functools.partial(team.launch, args, SIZE),
            },
            device.wait,
        )
        times = f"{found['bare']:7.2f}  {found['queued']:9.2f}  {found['queued'] / found['bare']:5.2f}"
        print(f"{pointers:6}  {times}  {found['caller']:20.2f}  {found['all']:17.2f}")
    compiler.shutdown()


def small_graph(x: torch.Tensor, b: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """One kernel."""
    return torch.nn.functional.gelu(x + b) * z


def graphs() -> None:
    """A whole call of a compiled function of one kernel, beside Dynamo's guards alone and eager."""
    x, b, z = torch.randn(16, 64), torch.randn(64), torch.randn(16, 64)
    result = (small_graph(x, b, z),)

    def nothing(gm: Any, inputs: Any) -> Callable[..., Any]:
        return lambda *args: result

    def another(x: torch.Tensor, b: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return small_graph(x, b, z)  # code of its own: Dynamo keeps what it compiled by the code it came from

    ours = torch.compile(small_graph, backend="xpu_aten", dynamic=False)
    guards = torch.compile(another, backend=nothing, dynamic=False)
    with torch.no_grad():
        found = least(
            {
                "eager": lambda: small_graph(x, b, z),
                "guards alone": lambda: guards(x, b, z),
                "xpu_aten": lambda: ours(x, b, z),
            },
            resolve().wait,
        )
    for name, microseconds in found.items():
        print(f"{name:13} {microseconds:7.1f} us")
    print(f"a one-kernel graph adds {found['xpu_aten'] - found['guards alone']:.1f} us to the guards")


def behind_a_matmul() -> None:
    """A kernel, and an op of ATen's, each behind a matmul of ATen's: until it is done."""
    device, compiler = resolve(), KernelCompiler()
    params = (Param("x", "pointer", "float32"), Param("y", "pointer", "float32"))
    text = "def square(item, x, y):\n    i = item.get_global_id(0)\n    y[i] = x[i] * x[i] + np.float32(1.0)\n"
    source = KernelSource("square", text, params, 1, (1024,))
    kernel = build_kernel(device, compiler.submit(source).result(), source)
    queue, team = kernel.by_queue().launch, kernel.bind().launch
    rows, weight, product = torch.randn(512, 256), torch.randn(256, 256), torch.empty(512, 256)
    print("behind a matmul, us: floats     queue      team     alone      ATen")
    for count in (2**10, 2**14, 2**16, 2**18, 2**20):
        x, y, size = torch.randn(count), torch.empty(count), (count,)
        args = (x.data_ptr(), y.data_ptr())

        def queued(args: tuple[int, ...] = args, size: tuple[int, ...] = size) -> None:
            queue(args, size)
            device.wait()

        calls: tuple[Callable[[], Any], ...] = (
            queued,
            functools.partial(team, args, size),
            functools.partial(team, args, size, True),
            functools.partial(torch.mul, x, x, out=y),
        )
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(2 * ROUNDS):
            for call, taken in zip(calls, times, strict=True):
                torch.mm(rows, weight, out=product)
                start = time.perf_counter()
                call()
                taken.append(1e6 * (time.perf_counter() - start))
        print(f"{count:27} {' '.join(f'{statistics.median(taken):9.1f}' for taken in times)}")
    compiler.shutdown()


def main() -> None:
    """All tables."""
    launches()
    graphs()
    behind_a_matmul()


if __name__ == "__main__":
    main()
