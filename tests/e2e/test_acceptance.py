"""What a user is promised of `torch.compile(model, backend="xpu_aten")`, met from outside."""

from __future__ import annotations

import importlib.metadata
import os
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters

from aten_backend import explain
from lowering.errors import UnsupportedOpError
from support import ROOT, backend, python

pytestmark = pytest.mark.device


def is_installed() -> bool:
    points = importlib.metadata.entry_points(group="torch_dynamo_backends")
    return any(point.name == "xpu_aten" for point in points)


ONE_LINE = """
import sys, torch
f = torch.compile(lambda x: torch.softmax(x * 2 + 1, -1), backend="xpu_aten")
x = torch.randn(64, 100)
print(float((f(x) - torch.softmax(x * 2 + 1, -1)).abs().max()))
heavy = {"numba", "numba_dpex", "dpnp", "llvmlite", "mkl"}
inductor = {"torch._inductor.lowering", "torch._inductor.graph", "torch._inductor.compile_fx"}
print(sorted(m for m in sys.modules if m.partition(".")[0] in heavy or m in inductor))
"""


@pytest.mark.skipif(not is_installed(), reason="the package is not installed, so torch cannot find it by name")
@pytest.mark.parametrize("verify", ["off", "artifacts"])
def test_one_line_in_a_fresh_process(tmp_path, verify):
    """No import of ours, from another folder; afterwards no compiler is in the user's process."""
    environment = {**os.environ, "XPU_ATEN_VERIFY": verify}
    environment.pop("PYTHONPATH", None)
    done = python(ONE_LINE, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    difference, modules = done.stdout.splitlines()
    assert float(difference) <= 1e-6
    assert modules == "[]"
    assert "Warning" not in done.stderr


@pytest.mark.skipif(not is_installed(), reason="the package is not installed, so torch cannot find it by name")
def test_listed_among_the_backends():
    assert "xpu_aten" in torch._dynamo.list_backends()


def bits(x):
    return (x * 2).view(torch.int32) + 1


def test_fallback_error_names_the_op_and_the_line():
    compiled = torch.compile(bits, backend=backend(), options={"fallback": "error"})
    with pytest.raises(BackendCompilerFailed, match=r"aten.view.dtype") as raised:
        compiled(torch.randn(8))
    inner = raised.value.inner_exception
    assert isinstance(inner, UnsupportedOpError)
    assert inner.op == "aten.view.dtype"
    assert inner.reason
    assert "test_acceptance.py" in inner.source
    assert "(x * 2).view(torch.int32) + 1" in inner.source
    assert inner.source in str(raised.value)


def test_fallback_eager_runs_and_is_explained():
    x = torch.randn(8)
    counters.clear()
    result = torch.compile(bits, backend=backend(), options={"fallback": "eager"})(x)
    torch.testing.assert_close(result, bits(x))
    assert counters["xpu_aten"]["fallback_nodes"] == 1
    (left,) = explain(bits, x).externs
    assert left.op == "aten.view.dtype"
    assert left.reason and not left.deliberate
    assert "test_acceptance.py" in left.source
    assert "aten.view.dtype" in str(explain(bits, x))


def test_deliberate_externs_are_no_fallback():
    x = torch.randn(8, 8)
    compiled = torch.compile(lambda x: (x @ x).relu(), backend=backend(), options={"fallback": "error"})
    torch.testing.assert_close(compiled(x), (x @ x).relu())


def test_unknown_option_raises_with_the_list():
    with pytest.raises(BackendCompilerFailed, match=r"unknown option 'fallbak'.*Did you mean 'fallback'.*disable_ops"):
        torch.compile(bits, backend=backend(), options={"fallbak": "error"})(torch.randn(8))


def test_bad_value_and_bad_mode_raise():
    with pytest.raises(BackendCompilerFailed, match="option 'ir' takes one of 'aten', 'prims'"):
        torch.compile(bits, backend=backend(), options={"ir": "triton"})(torch.randn(8))
    torch._dynamo.reset()
    with pytest.raises(BackendCompilerFailed, match="mode takes None, 'default'"):
        torch.compile(bits, backend=backend(), mode="fastest")(torch.randn(8))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes(mode):
    x = torch.randn(8, 8)
    torch.testing.assert_close(torch.compile(torch.sin, backend=backend(), mode=mode)(x), torch.sin(x))


def test_disable_ops():
    x = torch.randn(8, 8)
    counters.clear()
    options: Any = {"disable_ops": ["aten.exp"], "fallback": "eager"}
    result = torch.compile(lambda x: (x + 1).exp() * 2, backend=backend(), options=options)(x)
    torch.testing.assert_close(result, (x + 1).exp() * 2)
    assert counters["xpu_aten"]["extern_calls"] == 1
    assert counters["xpu_aten"]["kernel_calls"] == 2


def test_counters():
    """Two layer norms of one kind are one kernel and two launches; a matmul is one extern call."""
    x, y = torch.randn(4, 16), torch.randn(16, 16)

    def f(x, y):
        return torch.softmax(torch.softmax(x, -1) @ y, -1)

    counters.clear()
    torch.testing.assert_close(torch.compile(f, backend=backend())(x, y), f(x, y))
    counted = dict(counters["xpu_aten"])
    expected = {"graphs": 1, "sycl_kernels": 1, "kernel_calls": 2, "extern_calls": 1, "fallback_nodes": 0}
    assert {name: counted.get(name, 0) for name in expected} == expected


def test_counts_by_graph():
    counters.clear()
    compiled = torch.compile(torch.cos, backend=backend(), dynamic=False)
    for size in (3, 5):
        compiled(torch.randn(size))
    assert counters["xpu_aten"]["graphs"] == 2
    compiled(torch.randn(5))
    assert counters["xpu_aten"]["graphs"] == 2, "a graph that is known is not compiled again"


def test_reset():
    x = torch.randn(8)
    compiled = torch.compile(torch.cos, backend=backend())
    compiled(x)
    torch.compiler.reset()
    counters.clear()
    torch.testing.assert_close(compiled(x), torch.cos(x))
    assert counters["xpu_aten"]["graphs"] == 1, "after a reset everything is compiled anew"


def test_training_step():
    x, w = torch.randn(8, 16), torch.randn(16, 16, requires_grad=True)

    def loss(x, w):
        return torch.nn.functional.gelu(x @ w).square().mean()

    loss(x, w).backward()
    expected, w.grad = w.grad, None
    torch.compile(loss, backend=backend())(x, w).backward()
    torch.testing.assert_close(w.grad, expected)


def test_inputs_are_written_as_in_eager():
    def step(weight, grad):
        weight.mul_(0.9).sub_(grad * 0.1)
        return weight.sum()

    weight, grad = torch.randn(8, 8), torch.randn(8, 8)
    expected = weight.clone()
    total = step(expected, grad)
    result = torch.compile(step, backend=backend())(weight, grad)
    torch.testing.assert_close(weight, expected)
    torch.testing.assert_close(result, total)


def test_logging_shows_every_stage():
    code = """
import torch
from aten_backend.backend import xpu_aten
torch.compile(lambda x: x.exp() + 1, backend=xpu_aten)(torch.randn(4))
"""
    loggers = "+lowering.partition,+lowering.emit,+runtime.plan"
    done = python(code, env={**os.environ, "TORCH_LOGS": loggers, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    for text in ("partition took", "emit took", "plan took", "def exp_add_", "def call(args):"):
        assert text in done.stderr
