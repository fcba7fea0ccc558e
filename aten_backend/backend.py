"""The TorchDynamo backend ``xpu_aten``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from aten_backend.observe import StageRunner, observers
from aten_backend.options import Options
from aten_backend.pipeline import compile_graph, compiler_for
from lowering.decompose import decompositions


def xpu_aten(gm: GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None,
             options: Mapping[str, Any] | None = None) -> Any:
    """Compile a Dynamo graph: AOTAutograd decomposes it to ATen or Prims IR, ``pipeline.compile_graph`` does the rest.

    ``options`` and ``mode`` are those of ``torch.compile``; see ``aten_backend.options``. Raises OptionError for an option
    that does not exist, and the lowering's and the runtime's named errors under ``fallback="error"``.
    """
    chosen = Options.parse(mode, options)
    compiler_for(chosen).start()  # workers take seconds to start: meanwhile AOTAutograd traces
    run = StageRunner(observers(chosen))

    def compile_one(graph: GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        return compile_graph(graph, chosen, run).run

    backend = aot_autograd(
        fw_compiler=compile_one, bw_compiler=compile_one, inference_compiler=compile_one,
        decompositions=decompositions(chosen.ir), partition_fn=min_cut_rematerialization_partition,
    )  # fmt: skip
    with torch._dynamo.utils.dynamo_timed("xpu_aten"):
        return backend(gm, example_inputs)
