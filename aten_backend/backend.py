"""The TorchDynamo backend ``xpu_aten``."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from aten_backend import cached
from aten_backend.cached import CachedGraph
from aten_backend.dump.story import Follower
from aten_backend.dump.writer import Dump
from aten_backend.observe import StageRunner, observers
from aten_backend.options import Options
from aten_backend.pipeline import compile_graph, compiler_for, device_opens
from aten_backend.tracing import aot_backend
from runtime import memory


def xpu_aten(
    gm: GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Any:
    """Compile a Dynamo graph: AOTAutograd decomposes it to ATen or Prims IR, ``pipeline.compile_graph`` does the rest.

    ``options`` and ``mode`` are those of ``torch.compile``; see ``aten_backend.options``. Raises OptionError for an
    option that does not exist, and the lowering's and the runtime's named errors under ``fallback="error"``.
    """
    return compile_dynamo_graph(gm, example_inputs, Options.parse(mode, options))


def compile_dynamo_graph(
    gm: GraphModule, example_inputs: Sequence[Any], chosen: Options, follower: Follower | None = None
) -> Any:
    """The backend with its options read; ``follower`` looks on, beside the dump that the options may ask for."""
    followers = [f for f in (Dump.wanted(chosen), follower) if f is not None]
    run = StageRunner(observers(chosen, followers))

    def compiler(kind: str) -> Any:
        def compile_one(graph: GraphModule, inputs: Sequence[Any]) -> CachedGraph:
            run(kind, lambda: graph)
            compiled = compile_graph(graph, chosen, run)
            for one in followers:
                assert compiled.graph is not None
                compiled.graph = dataclasses.replace(compiled.graph, run=one.watch(compiled.graph))
            return compiled

        return cached.cacheable(compile_one, chosen)

    run("dynamo", lambda: gm)
    backend = aot_backend(compiler, chosen.ir, lambda joint: run("joint", lambda: joint))
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
