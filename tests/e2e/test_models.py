"""A BERT and a ResNet through torch.compile: eager's numbers, and what runs where."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from aten_backend import explain
from aten_backend.explanation import Explanation
from support import backend

pytestmark = pytest.mark.models

MATMULS = {
    "aten.mm.default",
    "aten.addmm.default",
    "aten.bmm.default",
    "aten.baddbmm.default",
    "mkldnn._linear_pointwise.default",
}
ATTENTION = {"aten._scaled_dot_product_flash_attention_for_cpu.default"}
IRS = ("aten", "prims")


@functools.cache
def case(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A model of the examples. Imported late: transformers takes seconds."""
    import models

    found: tuple[torch.nn.Module, tuple[torch.Tensor, ...]] = getattr(models, name)()
    return found


@functools.cache
def explained(name: str, ir: str) -> Explanation:
    model, args = case(name)
    with torch.no_grad():
        return explain(model, *args, options={"ir": ir})


def run(name: str, ir: str) -> tuple[Any, Any, dict[str, int]]:
    model, args = case(name)
    counters.clear()
    options: Any = {"ir": ir, "fallback": "eager"}
    with torch.no_grad():
        expected = model(*args)
        result = torch.compile(model, backend=backend(), options=options)(*args)
    return result, expected, dict(counters["xpu_aten"])


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("ir", IRS)
def test_bert(ir):
    result, expected, counted = run("bert", ir)
    torch.testing.assert_close(result.last_hidden_state, expected.last_hidden_state, atol=1e-4, rtol=0)
    torch.testing.assert_close(result.pooler_output, expected.pooler_output, atol=1e-4, rtol=0)
    assert counted["fallback_nodes"] == 0
    # four layers, each with two normalisations and a GELU, and the embedding
    assert counted["sycl_kernels"] <= 6
    assert counted["kernel_calls"] <= 16


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("ir", IRS)
def test_resnet(ir):
    result, expected, counted = run("resnet", ir)
    torch.testing.assert_close(result.logits, expected.logits, atol=1e-4, rtol=0)
    assert counted["kernel_calls"] <= 18  # one for each convolution, less the downsampling ones, which join the sum


@pytest.mark.parametrize("ir", IRS)
def test_what_is_left_to_aten(ir):
    bert = explained("bert", ir)
    assert {e.op for e in bert.externs} <= MATMULS | ATTENTION
    assert all(e.deliberate and e.source for e in bert.externs)
    resnet = explained("resnet", ir)
    assert {e.op for e in resnet.externs} <= MATMULS | {
        "aten.convolution.default",
        "aten.max_pool2d_with_indices.default",
    }


def test_what_runs_in_kernels():
    bert = [op for g in explained("bert", "aten").groups for op in g.ops]
    assert bert.count("aten.embedding.default") == 3
    assert bert.count("aten.gelu.default") == 0, "each is the epilogue of a matmul"
    assert bert.count("aten.var_mean.correction") == 9
    resnet = [op for g in explained("resnet", "aten").groups for op in g.ops]
    assert resnet.count("aten.relu.default") == 17
    assert resnet.count("aten.reciprocal.default") == 20


def test_softmax_of_attention_written_out():
    """With attention in plain ops, every layer's softmax is in a kernel, mask and scaling included."""
    model, args = case("bert")
    plain = copy.deepcopy(model)
    plain.set_attn_implementation("eager")  # type: ignore[operator]
    for ir in IRS:
        with torch.no_grad():
            found = explain(plain, *args, options={"ir": ir})
        assert {e.op for e in found.externs} <= MATMULS
        assert sum("aten.exp.default" in g.ops or "prims.exp.default" in g.ops for g in found.groups) == 4


@pytest.mark.parametrize("name", ["bert", "resnet"])
def test_prims_takes_no_more_kernels(name):
    aten, prims = (explained(name, ir) for ir in IRS)
    gelus = 4 if name == "bert" else 0  # spelled out in prims, so that they are no epilogue there
    assert len(prims.groups) <= len(aten.groups) + gelus
    assert len({g.kernel for g in prims.groups}) <= len({g.kernel for g in aten.groups}) + bool(gelus)
    assert len(prims.externs) <= len(aten.externs)


@pytest.mark.parametrize("ir", IRS)
def test_identical_layers_share_kernels(ir):
    kernels = [g.kernel for g in explained("bert", ir).groups]
    of_every_layer = {k for k in kernels if kernels.count(k) >= 4}
    assert len(of_every_layer) == (2 if ir == "prims" else 1), "one for the normalisations; in prims one for the GELUs"
    assert sum(k in of_every_layer for k in kernels) == (12 if ir == "prims" else 8)
