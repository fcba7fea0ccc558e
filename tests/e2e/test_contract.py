"""What torch.compile and its users expect of a backend beside results: torch.compiler's functions, precision, hooks."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._dynamo.utils import counters
from torch.nn import functional as F
from torch.testing._internal.two_tensor import TwoTensor

import aten_backend

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compiled(fn, **options):
    return torch.compile(fn, backend="xpu_aten", **options)


def net():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4))


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode):
    x = torch.randn(4, 8)
    torch.testing.assert_close(compiled(lambda t: t.sin() + 1, mode=mode)(x), x.sin() + 1)


def test_unknown_mode_is_refused():
    with pytest.raises(Exception, match="mode"):
        compiled(torch.sin, mode="fastest")(torch.randn(4))


def test_stances():
    x, f = torch.randn(4, 8), compiled(lambda t: t + (1 if torch.compiler.is_compiling() else 2))
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(f(x), x + 2)
    torch.testing.assert_close(f(x), x + 1)
    with torch.compiler.set_stance("fail_on_recompile"):
        torch.testing.assert_close(f(x), x + 1)
        with pytest.raises(RuntimeError, match="recompile"):
            f(torch.randn(3, 3, 3))


def test_reset_forgets_what_was_compiled():
    f = compiled(lambda t: t * 2)
    counters.clear()
    f(torch.randn(4))
    torch.compiler.reset()
    f(torch.randn(4))
    assert counters["xpu_aten"]["graphs"] == 2


def test_cudagraph_steps_are_harmless():
    f = compiled(lambda t: t * 2, mode="reduce-overhead")
    for _ in range(2):
        torch.compiler.cudagraph_mark_step_begin()
        torch.testing.assert_close(f(torch.ones(4)), torch.full((4,), 2.0))


def test_dynamo_explains_graph_breaks():
    def f(t):
        t = t.sin()
        torch._dynamo.graph_break()
        return t.cos()

    assert torch._dynamo.explain(f)(torch.randn(4)).graph_break_count == 1
    x = torch.randn(4)
    torch.testing.assert_close(compiled(f)(x), x.sin().cos())
    torch._dynamo.reset()  # else the pieces that are there are used
    with pytest.raises(Exception, match="graph_break"):
        compiled(f, fullgraph=True)(x)


def test_train_and_eval_are_two_programs():
    model, x = net(), torch.randn(4, 8)
    run = compiled(model)
    torch.manual_seed(1)
    trained = run(x)
    torch.manual_seed(1)
    torch.testing.assert_close(trained, model(x))
    model.eval()
    torch.testing.assert_close(run(x), model(x))


def test_inference_mode():
    model, x = net().eval(), torch.randn(4, 8)
    with torch.inference_mode():
        result = compiled(model)(x)
        torch.testing.assert_close(result, model(x))
    assert result.is_inference()


def test_default_dtype():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        x = torch.arange(6)
        result = compiled(lambda t: t / 4 + torch.ones(6))(x)
        assert result.dtype is torch.float64
        torch.testing.assert_close(result, x / 4 + 1)
    finally:
        torch.set_default_dtype(before)


def test_grad_scaler():
    """The scaled gradients are unscaled again, and a step with an infinite one is skipped."""
    model, x = torch.nn.Linear(8, 4), torch.randn(4, 8)
    twin = copy.deepcopy(model)
    for m, run in ((model, compiled(model)), (twin, twin)):
        scaler, optimizer = torch.amp.GradScaler("cpu", init_scale=256.0), torch.optim.SGD(m.parameters(), lr=0.1)
        for factor in (1.0, float("inf")):
            optimizer.zero_grad()
            scaler.scale(run(x).pow(2).mean() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 128.0
    torch.testing.assert_close(model.weight, twin.weight)


def test_hooks_run_each_time():
    model, x, seen = net().eval(), torch.randn(4, 8), []
    model[0].register_forward_hook(lambda module, args, result: result * 2)
    expected = model(x)
    run = compiled(model)
    torch.testing.assert_close(run(x), expected)
    leaf = torch.randn(4, 8, requires_grad=True)
    leaf.register_hook(lambda grad: seen.append(grad.shape))
    for _ in range(2):
        run(leaf).sum().backward()
    assert seen == [(4, 8), (4, 8)]


def test_results_go_where_out_says():
    x, y, out = torch.randn(4, 8), torch.randn(4, 8), torch.empty(4, 8)
    result = compiled(lambda a, b, o: torch.add(a, b, out=o))(x, y, out)
    torch.testing.assert_close(out, x + y)
    assert result.data_ptr() == out.data_ptr()


def test_gradients_add_up():
    model, x = torch.nn.Linear(8, 4), torch.randn(4, 8)
    run = compiled(model)
    run(x).sum().backward()
    (once,) = torch.autograd.grad(model(x).sum(), [model.weight])
    run(x).sum().backward()
    torch.testing.assert_close(model.weight.grad, 2 * once)


def test_subclass_is_unwrapped():
    """Both tensors inside go through kernels."""
    a, b = torch.randn(4, 8), torch.randn(4, 8)
    counters.clear()
    result = compiled(lambda t: F.gelu(t) * 2)(TwoTensor(a, b))
    assert isinstance(result, TwoTensor)
    torch.testing.assert_close(result.a, F.gelu(a) * 2)
    torch.testing.assert_close(result.b, F.gelu(b) * 2)
    assert counters["xpu_aten"]["kernel_calls"] >= 1


def test_quantized_tensors_are_left_to_aten_with_a_reason():
    found = aten_backend.explain(
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize() + 1, torch.randn(4, 4)
    )
    left = [e for e in found.externs if e.op.startswith("aten.quantize_per_tensor")]
    assert left and all(e.reason for e in left)


def test_programs_with_sparse_tensors_are_left_to_eager_by_torch():
    def f(x):
        return torch.sparse.mm(x.to_sparse(), x.t()) + 1

    x = torch.randn(4, 4)
    counters.clear()
    torch.testing.assert_close(compiled(f)(x), f(x))
    assert counters["xpu_aten"]["graphs"] == 0
    torch._dynamo.reset()
    with pytest.raises(Exception, match="sparse"):  # the reason
        compiled(f, fullgraph=True)(x)
