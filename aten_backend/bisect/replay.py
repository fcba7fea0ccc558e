"""What the scripts that `xpu-aten bisect` leaves call: inputs to try a program with, and the trial."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from aten_backend.bisect.capture import subject_of
from aten_backend.comparison.distance import distance
from aten_backend.numerics.policy import judge
from aten_backend.numerics.reference import eager_values, snapshot
from aten_backend.observe import StageRunner, observers
from aten_backend.options import Options
from aten_backend.pipeline import compile_graph


def made(shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype, high: int = 1) -> torch.Tensor:
    """A tensor of that layout: normally distributed numbers, or integers from 0 to ``high``, from torch's generator."""
    span = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if all(shape) else 0
    if dtype.is_floating_point or dtype.is_complex:
        flat = torch.randn(span, dtype=dtype)
    else:
        flat = torch.randint(0, high + 1, (span,)).to(dtype)
    return flat.as_strided(tuple(shape), tuple(stride))


def replay(
    program: Callable[..., Any],
    inputs: Sequence[Any],
    options: Mapping[str, Any],
    dynamic: bool | None = None,
    slower_than: float | None = None,
) -> int:
    """Run ``program`` compiled and in eager, print how they differ, and return the exit code: 0 where all is right.

    Errors of the compiler are not caught. ``slower_than`` is so many times eager's time.
    """
    with torch.no_grad():
        gm = make_fx(program, tracing_mode="fake")(*(snapshot(v) for v in inputs))
        subject = subject_of(gm, inputs, eager_values(gm, inputs))
        if subject.written:
            compiled = _as_it_is(gm, options)
        else:
            compiled = torch.compile(program, backend="xpu_aten", options=dict(options), dynamic=dynamic)
        given = [snapshot(v) for v in inputs]
        ours = [*compiled(*given), *(given[position] for position in subject.written)]
        eager, wide = subject.eager, subject.exact
        fault = judge(ours, eager, wide, subject.work)
        if wide is not None:
            print(f"distance from float64: compiled {distance(ours, wide):.2e}, eager {distance(eager, wide):.2e}")
        if fault is not None:
            print(f"WRONG: result {fault.result}: {fault.text}")
            return 1
        if slower_than is not None and (ratio := _ratio(compiled, program, inputs)) > slower_than:
            print(f"SLOW: {ratio:.2f} times eager's time")
            return 1
    print("right")
    return 0


def _as_it_is(gm: GraphModule, options: Mapping[str, Any]) -> Callable[..., Any]:
    """``gm`` compiled. AOTAutograd, if it made it again, would copy a value before it goes to an input."""
    chosen = Options.parse(None, options)
    compiled = compile_graph(gm, chosen, StageRunner(observers(chosen)))
    return lambda *given: compiled(list(given))


ROUNDS = 20


def _ratio(compiled: Callable[..., Any], program: Callable[..., Any], inputs: Sequence[Any]) -> float:
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        for which, fn in enumerate((compiled, program)):
            start = time.perf_counter()
            fn(*inputs)
            best[which] = min(best[which], time.perf_counter() - start)
    return best[0] / best[1]
