"""The settings under which AOTAutograd makes the graphs that the lowering takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd

from lowering.decompose import decompositions


def aot_backend(compiler: Callable[..., Any], ir: str) -> Callable[..., Any]:
    """A TorchDynamo backend that gives each graph (forward, backward and inference), decomposed to ``ir``, to
    ``compiler``. Writes to inputs stay in the graphs: the lowering makes them where the values are computed."""
    return aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions(ir),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
