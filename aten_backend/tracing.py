"""The settings under which AOTAutograd makes the graphs that the lowering takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from lowering.decompose import Table, decompositions

aten = torch.ops.aten

COMPILERS = {"fw_compiler": "forward", "bw_compiler": "backward", "inference_compiler": "inference"}
"""AOTAutograd's arguments, and the kinds of graph that it gives to each."""


def aot_backend(
    compiler: Callable[[str], Callable[..., Any]],
    ir: str,
    joint: Callable[[GraphModule], object] = lambda gm: None,
    table: Table | None = None,
) -> Callable[..., Any]:
    """A TorchDynamo backend that gives each graph, decomposed to ``ir``, to the ``compiler`` of its kind: "forward",
    "backward" or "inference". ``joint`` is shown each graph of forward and backward before it is cut in two. ``table``
    has decompositions to take instead of those of ``ir``. Writes to inputs stay in the graphs: the lowering makes them
    where the values are computed."""

    def cut(both: GraphModule, *args: Any, **kwargs: Any) -> Any:
        joint(both)
        _skip_detach(both)
        return min_cut_rematerialization_partition(both, *args, **kwargs)

    return aot_autograd(
        **{name: compiler(kind) for name, kind in COMPILERS.items()},
        decompositions=decompositions(ir) if table is None else dict(table),
        partition_fn=cut,
        keep_inference_input_mutations=True,
    )


def _skip_detach(both: GraphModule) -> None:
    """Have what reads a detached value read the value. To the partitioner ``detach`` is an op like any other, which it
    neither fuses nor computes again: it would keep the logarithms of a softmax for the backward pass, where a row's
    maximum and sum do."""
    for node in both.graph.find_nodes(op="call_function", target=aten.detach.default):
        source = node.args[0]
        if source.op == "call_function" and not any(user.op == "output" for user in (*node.users, *source.users)):
            node.replace_all_uses_with(source)
            both.graph.erase_node(node)
    both.recompile()
