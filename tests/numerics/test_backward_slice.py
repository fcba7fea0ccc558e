"""A fixed slice of gradients: ops of the OpInfo database, and modules in train and eval mode, forward and backward.

The whole of it: ``python tests/numerics/run.py --backward --samples 2`` and ``python tests/numerics/run.py --modules``.
"""

from __future__ import annotations

import pytest
import torch

from aten_backend.numerics.policy import compare, work_of
from numerics import modules, opinfo
from numerics.opinfo import Outcome, Verdict

pytestmark = [pytest.mark.device, pytest.mark.slow]


def _names(text: str) -> list[str]:
    return text.split()


OPS = _names(
    "mul pow where softmax sum amax std cat gather index_put index_select scatter_add cumsum nn.functional.gelu "
    "nn.functional.layer_norm nn.functional.batch_norm nn.functional.cross_entropy nn.functional.embedding "
    "nn.functional.max_pool2d nn.functional.interpolate.bilinear matmul linalg.vector_norm"
)
MODULES = _names("nn.BatchNorm2d nn.LayerNorm nn.GRUCell nn.CrossEntropyLoss nn.MaxPool2d nn.TransformerEncoderLayer")


def _check(outcomes: list[Outcome]) -> None:
    faults = [
        f"[{o.sample}] {o.verdict.value}: {o.detail}" for o in outcomes if o.verdict in (Verdict.WRONG, Verdict.ERROR)
    ]
    assert not faults, "\n".join(faults)
    assert any(o.verdict is Verdict.OK and o.graphs for o in outcomes), [o.detail for o in outcomes]


@pytest.mark.parametrize("name", OPS)
def test_gradients_of_ops(name: str) -> None:
    _check([opinfo.judge(name, s) for s in opinfo.samples(name, torch.float32, 2, backward=True)])


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, mode: str) -> None:
    found = modules.samples(f"{name}.{mode}", torch.float32, 2)
    _check([opinfo.judge(f"{name}.{mode}", s) for s in found])


def test_a_wrong_gradient_is_seen() -> None:
    """The judge itself: results agree, the gradient does not."""

    class Lies(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * (2 if torch.compiler.is_compiling() else 1)

    x = torch.randn(4, requires_grad=True)
    sample = opinfo.Sample("0", lambda t: Lies.apply(t) if torch.compiler.is_compiling() else t * 1, (x,), {}, True)
    fault = compare(opinfo.compiled(sample, "eager", False), opinfo.run_eager(sample), None, work_of([x], False))
    assert fault is not None and "result 1" in fault
