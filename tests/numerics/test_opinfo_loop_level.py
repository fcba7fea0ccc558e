"""A slice of OpInfo through xpu_inductor; ``tests/numerics/run.py --backend xpu_inductor`` runs all of it."""

from __future__ import annotations

import pytest
import torch

from numerics.opinfo import Verdict, judge, samples

pytestmark = pytest.mark.device

OPS = (
    *("add", "argmax", "cumsum", "div.floor_rounding", "gather", "index_put", "logcumsumexp", "nn.functional.gelu"),
    *("nn.functional.interpolate.bilinear", "nn.functional.max_pool2d", "polygamma.polygamma_n_1", "scatter_add"),
    *("softmax", "special.bessel_j0", "unfold", "var"),
)


@pytest.mark.parametrize("name", OPS)
def test_float32(name):
    for sample in samples(name, torch.float32, 1):
        outcome = judge(name, sample, backend="xpu_inductor")
        assert outcome.verdict is Verdict.OK, outcome.detail


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "bitwise_left_shift", "amax", "sum"])
def test_int64(name):
    for sample in samples(name, torch.int64, 1):
        outcome = judge(name, sample, backend="xpu_inductor")
        assert outcome.verdict is Verdict.OK, outcome.detail
