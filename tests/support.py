"""Lowering functions in tests, without a device, and running them with one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten

from aten_backend.backend import xpu_aten
from aten_backend.observe import StageRunner, Verifier
from aten_backend.options import Options
from aten_backend.pipeline import Lowered, lower
from aten_backend.tracing import aot_backend
from lowering.target import GENERIC
from runtime.interpreted import interpreted

ROOT = Path(__file__).resolve().parents[1]


def run_with(
    compiler: Callable[[GraphModule, Sequence[Any]], Callable[..., Any]],
    fn: Callable[..., Any],
    *args: Any,
    ir: str = "aten",
    dynamic: bool | None = False,
) -> Any:
    """``fn(*args)`` with each of its decomposed graphs as ``compiler`` compiles it."""
    torch._dynamo.reset()
    return torch.compile(fn, backend=aot_backend(lambda kind: compiler, ir), dynamic=dynamic)(*args)


def graphs_of(fn: Callable[..., Any], *args: Any, ir: str = "aten", dynamic: bool | None = False) -> list[GraphModule]:
    """The decomposed graphs of ``fn(*args)``: forward, then backward where a gradient is asked for."""
    seen: list[GraphModule] = []

    def note(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        seen.append(gm)
        return make_boxed_func(gm.forward)

    run_with(note, fn, *args, ir=ir, dynamic=dynamic)
    return seen


def interpret(
    fn: Callable[..., Any], *args: Any, ir: str = "aten", dynamic: bool | None = False, options: Any = None
) -> Any:
    """``fn(*args)`` with every kernel run by the interpreter: needs no device."""
    chosen = Options.parse(None, {"ir": ir, **(options or {})})

    def compile_one(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        lowered = lower(gm, chosen, GENERIC, StageRunner((Verifier(),)), {})
        return make_boxed_func(lambda *given: interpreted(lowered.plan)(list(given)))

    return run_with(compile_one, fn, *args, ir=ir, dynamic=dynamic)


def lowered(
    fn: Callable[..., Any], *args: Any, ir: str = "aten", dynamic: bool | None = False, options: Any = None
) -> list[Lowered]:
    """What becomes of ``fn(*args)``, every artefact held against its specification."""
    chosen = Options.parse(None, {"ir": ir, **(options or {})})
    graphs = graphs_of(fn, *args, ir=ir, dynamic=dynamic)
    return [lower(gm, chosen, GENERIC, StageRunner((Verifier(),)), {}) for gm in graphs]


def traced(fn: Callable[..., Any], *args: Any) -> GraphModule:
    """The ATen calls of ``fn`` as they are, writes in place included: AOTAutograd would take those out."""
    gm = make_fx(fn, tracing_mode="fake")(*args)
    (output,) = gm.graph.find_nodes(op="output")
    if not isinstance(output.args[0], (list, tuple)):
        output.args = ((output.args[0],),)
    gm.recompile()
    return gm


def lower_graph(gm: GraphModule) -> Lowered:
    """A graph that is already one of ATen calls."""
    return lower(gm, Options(), GENERIC, StageRunner((Verifier(),)), {})


def kernel_count(fn: Callable[..., Any], *args: Any, ir: str = "aten") -> int:
    """Launches in all graphs of ``fn(*args)``."""
    return sum(len(one.plan.kernels) for one in lowered(fn, *args, ir=ir))


def check(
    fn: Callable[..., Any],
    *args: Any,
    ir: str = "aten",
    fused: bool = True,
    dynamic: bool | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Run ``fn`` compiled and in eager, and compare values, types, sizes and strides.

    ``fused`` asks that nothing is left to ATen for want of a lowering (``fallback="error"``).
    """
    torch._dynamo.reset()
    options: Any = {"ir": ir, "fallback": "error" if fused else "eager"}
    expected = tree_flatten(fn(*args))[0]
    results = tree_flatten(torch.compile(fn, backend=backend(), options=options, dynamic=dynamic)(*args))[0]
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        if not isinstance(wanted, torch.Tensor):
            assert result == wanted
            continue
        assert result.dtype == wanted.dtype
        assert result.shape == wanted.shape
        if wanted.numel():
            real = [d for d, size in enumerate(wanted.shape) if size > 1]  # others may have any stride
            assert [result.stride(d) for d in real] == [wanted.stride(d) for d in real]
        torch.testing.assert_close(result, wanted, equal_nan=True, rtol=rtol, atol=atol)


def backend() -> Callable[..., Any]:
    """The backend itself, so that tests need no installed entry point."""
    return xpu_aten


def python(code: str, *args: str, env: Mapping[str, str] | None = None, timeout: float = 240, **kwargs: Any) -> Any:
    """Run ``code`` in a fresh interpreter, and return the finished process with its output as text."""
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=env,
        **kwargs,
    )
