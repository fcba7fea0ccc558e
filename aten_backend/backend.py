"""The TorchDynamo backend ``xpu_aten``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from aten_backend import cached
from aten_backend.cached import CachedGraph
from aten_backend.observe import StageRunner, observers
from aten_backend.options import Options
from aten_backend.pipeline import compile_graph, compiler_for, device_opens
from lowering.decompose import decompositions
from runtime import memory


def xpu_aten(
    gm: GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Any:
    """Compile a Dynamo graph: AOTAutograd decomposes it to ATen or Prims IR, ``pipeline.compile_graph`` does the rest.

    ``options`` and ``mode`` are those of ``torch.compile``; see ``aten_backend.options``. Raises OptionError for an
    option that does not exist, and the lowering's and the runtime's named errors under ``fallback="error"``.
    """
    chosen = Options.parse(mode, options)
    run = StageRunner(observers(chosen))

    def compile_one(graph: GraphModule, inputs: Sequence[Any]) -> CachedGraph:
        return compile_graph(graph, chosen, run)

    compilers = ("fw_compiler", "bw_compiler", "inference_compiler")
    backend = aot_autograd(
        **{name: cached.cacheable(compile_one, chosen) for name in compilers},
        decompositions=decompositions(chosen.ir),
        partition_fn=min_cut_rematerialization_partition,
    )
    with (
        _early_workers(chosen),
        cached.enabled(chosen, lambda: device_opens(chosen)),
        torch._dynamo.utils.dynamo_timed("xpu_aten"),
    ):
        return backend(gm, example_inputs)


xpu_aten.reset = memory.pool.clear  # type: ignore[attr-defined]  # torch.compiler.reset calls it


@contextlib.contextmanager
def _early_workers(options: Options) -> Iterator[None]:
    """Start the compiler processes while AOTAutograd traces, as they take seconds; not where its cache is asked for
    and has the graph."""
    timer = threading.Timer(CACHE_LOOKUP if options.aot_cache else 0.0, compiler_for(options).start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


CACHE_LOOKUP = 0.2
"""Seconds in which a graph that is in AOTAutograd's cache has been found."""
