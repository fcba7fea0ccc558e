"""How far graphs are taken apart before they are lowered."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lowering.decompose import decompositions
from lowering.ops import TABLE
from support import graphs_of

r = torch.randn


def ops(fn, *args, ir="aten"):
    return {str(n.target) for gm in graphs_of(fn, *args, ir=ir) for n in gm.graph.nodes if n.op == "call_function"}


@pytest.mark.parametrize("ir", ["aten", "prims"])
def test_what_stays_one_call(ir):
    assert "aten.mm.default" in ops(torch.mm, r(4, 4), r(4, 4), ir=ir)
    assert "aten.convolution.default" in ops(torch.conv2d, r(1, 2, 5, 5), r(3, 2, 3, 3), ir=ir)
    attention = ops(F.scaled_dot_product_attention, r(1, 2, 8, 4), r(1, 2, 8, 4), r(1, 2, 8, 4), ir=ir)
    assert any("_scaled_dot_product_flash_attention_for_cpu" in op for op in attention)


@pytest.mark.parametrize("ir", ["aten", "prims"])
@pytest.mark.parametrize("fn", [F.dropout, torch.rand_like, lambda x: torch.bernoulli(x.sigmoid())])
def test_random_numbers_are_drawn_by_aten(fn, ir):
    """The generator's stream must be eager's: the op that draws stays whole."""
    found = ops(fn, r(4, 4), ir=ir)
    names = {op.split(".")[1] for op in found if "." in op}
    assert names & {"native_dropout", "rand", "rand_like", "bernoulli", "bernoulli_"}


def test_levels():
    aten, prims = (ops(lambda x: torch.softmax(x, -1), r(4, 4), ir=ir) for ir in ("aten", "prims"))
    assert "aten.exp.default" in aten
    assert not any(op.startswith("prims.") for op in aten)
    assert "prims.exp.default" in prims


@pytest.mark.parametrize("ir", ["aten", "prims"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.softmax(x, -1),
        lambda x: F.layer_norm(x, (8,)),
        lambda x: F.group_norm(x[None], 4),
        lambda x: F.cross_entropy(x, torch.arange(8)),
        lambda x: F.hardtanh(x) + F.elu(x) + F.leaky_relu(x),
    ],
)
def test_composites_are_taken_apart(fn, ir):
    """What is left is in the op table: nothing composite stands between two kernels."""
    gms = graphs_of(fn, r(8, 8), ir=ir)
    calls = [
        n
        for gm in gms
        for n in gm.graph.nodes
        if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload)
    ]
    assert all(n.target in TABLE for n in calls), [str(n.target) for n in calls if n.target not in TABLE]


def test_tables_are_made_once():
    assert decompositions("aten") is decompositions("aten")
    assert len(decompositions("prims")) > len(decompositions("aten"))


@pytest.mark.parametrize("ir", ["aten", "prims"])
def test_tensor_literals(ir):
    """A literal is a real tensor among fake ones while the graph is traced."""
    graphs_of(lambda x: x[torch.tensor([0, -1, 0])] * torch.tensor(2.0), r(4, 4), ir=ir)
