"""A fixed slice of PyTorch's OpInfo database, for every change. The whole of it: ``python tests/numerics/run.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from numerics import opinfo
from numerics.opinfo import Outcome, Verdict

pytestmark = [pytest.mark.device, pytest.mark.slow]


def _names(text: str) -> list[str]:
    return text.split()


FLOATS = _names(
    "add sub mul div.no_rounding_mode true_divide pow exp log1p sin tanh erf erfinv digamma i0 special.i1e "
    "special.ndtri lgamma sigmoid logit nn.functional.gelu nn.functional.silu nn.functional.mish "
    "nn.functional.softplus nn.functional.hardswish nn.functional.elu maximum fmin clamp where lerp addcmul "
    "addcdiv round.decimals_3 atan2 copysign nextafter hypot xlogy logaddexp float_power sum mean prod amax "
    "argmax max.reduction_with_dim var std logsumexp linalg.vector_norm norm any all softmax log_softmax "
    "nn.functional.layer_norm nn.functional.group_norm nn.functional.batch_norm nn.functional.rms_norm cat stack "
    "nn.functional.pad.constant nn.functional.pad.reflect flip roll repeat tile gather index_select take triu "
    "tril unfold as_strided permute reshape expand split chunk diagonal slice_scatter select_scatter "
    "diagonal_scatter nn.functional.max_pool2d nn.functional.avg_pool2d nn.functional.adaptive_avg_pool2d "
    "max_pool2d_with_indices_backward nn.functional.interpolate.bilinear nn.functional.interpolate.nearest "
    "nn.functional.grid_sample nn.functional.unfold nn.functional.mse_loss nn.functional.nll_loss "
    "nn.functional.cross_entropy nn.functional.embedding full linspace"
)
HALVES = _names(
    "add mul exp eq lt where clamp sum mean amax argmax softmax nn.functional.layer_norm nn.functional.gelu cat to"
)
INTEGERS = _names(
    "add sub mul pow abs neg bitwise_and bitwise_left_shift bitwise_right_shift eq lt clamp where maximum sum "
    "prod amax argmax cat gather div.floor_rounding remainder true_divide float_power isfinite sign"
)
BOOLS = _names("add mul logical_and logical_not bitwise_xor eq lt sum any all amax where cat cumsum")
LAYOUTS = _names("add mul exp tanh sum amax argmax std maximum view_copy native_dropout_backward")
DYNAMIC = _names("add sum softmax cat gather permute nn.functional.layer_norm nn.functional.gelu argmax slice_scatter")

LEFT_TO_ATEN = {
    "remainder": {"aten.remainder.Tensor"},
    "div.floor_rounding": {"aten.div.Tensor_mode"},
    "pow": {"aten.pow.Tensor_Tensor"},
}
"""Ops of the slice that may keep calls of ATen, with these; all others must keep none."""


def _cases() -> Iterator[object]:
    table = {
        "float32": FLOATS, "bfloat16": HALVES, "float16": HALVES, "int64": INTEGERS, "uint8": INTEGERS, "bool": BOOLS,
    }  # fmt: skip
    for dtype, names in table.items():
        for name in names:
            yield pytest.param(name, dtype, id=f"{dtype}-{name}")


def _check(outcomes: list[Outcome]) -> None:
    faults = [
        f"[{o.sample}] {o.verdict.value}: {o.detail}" for o in outcomes if o.verdict in (Verdict.WRONG, Verdict.ERROR)
    ]
    assert not faults, "\n".join(faults)
    assert any(o.verdict is Verdict.OK for o in outcomes), [o.detail for o in outcomes]
    left = {op for o in outcomes for op, _ in o.externs}
    assert left <= LEFT_TO_ATEN.get(outcomes[0].op, set())


@pytest.mark.parametrize(("name", "dtype"), list(_cases()))
def test_samples_are_eagers(name: str, dtype: str) -> None:
    _check([opinfo.judge(name, s) for s in opinfo.samples(name, getattr(torch, dtype), 2)])


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_layout_of_the_arguments(name: str) -> None:
    _check([opinfo.judge(name, s) for s in opinfo.layout_samples(name, torch.float32)])


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_shapes(name: str) -> None:
    _check([opinfo.judge(name, s, dynamic=True) for s in opinfo.samples(name, torch.float32, 2)])


@pytest.mark.parametrize(("name", "dtype"), list(opinfo.KNOWN), ids=str)
def test_known_differences_are_still_there(name: str, dtype: torch.dtype) -> None:
    assert any(opinfo.judge(name, s).verdict is Verdict.KNOWN for s in opinfo.samples(name, dtype, 2))
