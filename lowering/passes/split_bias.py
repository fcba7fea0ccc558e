"""addmm to mm and add, where a kernel reads the result anyway: the bias then costs nothing, while the library would
first copy it over the whole output. Where another library call reads the result, the bias stays with the matmul."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from .. import graph
from ..classify import refusal
from ..ops import TABLE

aten = torch.ops.aten


def run(gm: GraphModule) -> int:
    """Split what is worth splitting; returns how many."""
    chosen = [n for n in gm.graph.nodes if n.target is aten.addmm.default and not n.kwargs and _is_read_by_kernels(n)]
    for node in chosen:
        bias, left, right = node.args
        with gm.graph.inserting_before(node):
            product = gm.graph.call_function(aten.mm.default, (left, right))
            total = gm.graph.call_function(aten.add.Tensor, (product, bias))
        product.meta.update(node.meta, val=aten.mm.default(graph.value_of(left), graph.value_of(right)))
        total.meta.update(node.meta)  # the very same value: views of it share its storage
        node.replace_all_uses_with(total)
        gm.graph.erase_node(node)
    return len(chosen)


def _is_read_by_kernels(node: Node) -> bool:
    users = [u for u in node.users if u.op == "call_function"]
    return len(users) == len(node.users) and bool(users) and all(_is_kernel_reader(u) for u in users)


def _is_kernel_reader(user: Node) -> bool:
    if graph.view_source(user) is not None:
        return _is_read_by_kernels(user)
    return user.target in TABLE and refusal(user) is None
