"""The TorchDynamo backend ``xpu_inductor``: Inductor's pipeline down to its loop IR, this project's kernels from there.

Everything above the kernels is Inductor's: decompositions, lowering to loops, fusion, memory planning, the wrapper.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codegen.common import pointwise_overrides_data
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch.fx import GraphModule, Node

from aten_backend.cached import tag
from aten_backend.loop_level.overrides import special_formulas
from aten_backend.loop_level.scheduling import Scheduling
from aten_backend.loop_level.switch import NAME, compiling, register
from aten_backend.loop_level.wrapper import GraphWrapper
from aten_backend.options import OptionError, Options
from aten_backend.pipeline import compiler_for
from lowering import graph
from lowering.dtypes import is_lowered

NOT_HERE = ("ir", "fallback", "autotune", "disable_ops", "fusion_fuel", "aot_cache")
"""Options of xpu_aten for what is Inductor's own here."""

NO_FORMULA = ("erfinv", "frexp", "ldexp", "_assert_async")
"""ATen ops that Inductor would lower to loops with functions that the scalar table lacks."""

INDUCTOR: dict[str, Any] = {
    "fallback_random": True,  # the generator's stream is eager's, as in xpu_aten
    "triton.coalesce_tiling_analysis": False,  # there are no tiles to choose
}


def xpu_inductor(
    gm: GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Any:
    """Compile a Dynamo graph with Inductor, and its fused loops with this project's emitter.

    ``options`` are those of ``xpu_aten`` that concern kernels: device, cache, cache_dir, compile_workers,
    compiler_python, verify and dump_dir. Raises OptionError for any other.
    """
    wrong = sorted(set(options or {}) & set(NOT_HERE))
    if wrong:
        raise OptionError(f"{NAME}: {', '.join(wrong)} set what is Inductor's own here; they are options of xpu_aten.")
    chosen = Options.parse(mode, options)
    start(chosen)
    with _settings(chosen):
        return compile_fx(gm, example_inputs, inner_compile=functools.partial(compile_graph, chosen))


def start(options: Options) -> None:
    """Make Inductor ask this project for kernels where ``options`` are in force, and start the compiler."""
    register(Scheduling, GraphWrapper)
    compiler_for(options).start()


def compile_graph(options: Options, gm: GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
    """One graph, forward or backward: the latter is compiled later, out of the scope of the former's settings."""
    for module in gm.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                if _left_to_aten(node):
                    node.meta["should_fallback"] = True  # Inductor's mark
    with _settings(options):
        return compile_fx_inner(gm, example_inputs, **kwargs)


@contextlib.contextmanager
def _settings(options: Options) -> Iterator[None]:
    settings: Any = torch.compiler.config
    ours = settings.patch(cache_key_tag=f"{settings.cache_key_tag}{tag(NAME, options)}")
    dumped = {} if options.dump_dir is None else _dumping(options.dump_dir)
    with compiling(options), ours, config.patch({**INDUCTOR, **dumped}):
        yield


def _dumping(folder: str) -> dict[str, Any]:
    """Inductor's own writer of what became of a graph: FX graphs, loop IR before and after fusion, the wrapper."""
    return {"trace.enabled": True, "trace.debug_dir": folder, "force_disable_caches": True}


@functools.cache
def _unwritten() -> frozenset[torch._ops.OpOverloadPacket]:
    """Ops whose loops would call what the op table has no formula for."""
    names = {pointwise_overrides_data[n].name for n, formula in special_formulas().items() if formula is None}
    packets = [(torch.ops.aten, n) for n in (*names, *NO_FORMULA)] + [(torch.ops.prims, n) for n in names]
    return frozenset(getattr(space, name) for space, name in packets if hasattr(space, name))


def _left_to_aten(node: Node) -> bool:
    """Whether kernels cannot compute ``node``, so that ATen does."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    if node.target.overloadpacket in _unwritten() or node.target is torch.ops.aten.view.dtype:
        return True
    values = [graph.value_of(n) for n in (node, *node.all_input_nodes)]
    return any(isinstance(v, torch.Tensor) and not v.is_complex() and not is_lowered(v.dtype) for v in values)
