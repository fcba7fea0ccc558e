"""Whole programs: what users of torch.compile do beside calling a function on a tensor."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from functorch.experimental.control_flow import map as functorch_map
from torch._dynamo.utils import counters
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def compiled(fn, **options):
    return torch.compile(fn, backend="xpu_aten", **options)


def same(fn, *args, **tolerance):
    """``fn`` gives the same numbers with the same random stream, eager and compiled."""
    torch.manual_seed(5)
    expected = fn(*args)
    torch.manual_seed(5)
    torch.testing.assert_close(compiled(fn)(*args), expected, **tolerance)


def gradients(fn, x):
    torch.manual_seed(3)
    leaf = x.clone().requires_grad_()
    fn(leaf).sum().backward()
    return leaf.grad


class Doubled(torch.autograd.Function):
    """exp with twice its gradient, so that a gradient found by other means would differ."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.exp() * 2


@torch.library.custom_op("xpu_aten_tests::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@triple.register_fake
def _(x):
    return torch.empty_like(x)


FUNCTIONS = {
    "vmap": torch.func.vmap(lambda row: row.sin().sum()),
    "grad": torch.func.grad(lambda y: (y**3).sum()),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
    "cond": lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,)),
    "while_loop": lambda x: while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 1.1), (torch.tensor(0), x)),
    "map": lambda x: functorch_map(lambda row: row.sin() + 1, x),
    "custom op": lambda x: triple(x + 1) * 2,
    "dropout": lambda x: F.dropout(x * 2, 0.5),
    "sparse": lambda x: torch.sparse.mm(x.to_sparse(), x.t()) + 1,
    "complex": lambda x: (torch.view_as_complex(x.view(8, 8, 2)) * 2j).abs(),
    "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize() + 1,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    same(FUNCTIONS[name], torch.randn(8, 16))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32))

    def run(x):
        with torch.autocast("cpu", dtype):
            return model(x)

    same(run, torch.randn(8, 16), rtol=2e-2, atol=2e-2)


def test_checkpoint_repeats_its_dropout():
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Dropout(0.3))

    def run(x):
        return checkpoint(model, x, use_reentrant=False)

    x = torch.randn(8, 16)
    torch.testing.assert_close(gradients(compiled(run), x), gradients(run, x))


def test_custom_gradient():
    x = torch.randn(8, 16)
    torch.testing.assert_close(gradients(compiled(Doubled.apply), x), gradients(Doubled.apply, x))


def test_double_backward_is_refused_by_torch_not_wrong():
    f = compiled(lambda x: (x**3).sum())
    x = torch.randn(4, requires_grad=True)
    (grad,) = torch.autograd.grad(f(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        grad.sum().backward()


def test_outputs_alias_as_in_eager():
    def run(x):
        y = x + 1
        return y, y.view(-1), y[0], x.t()

    x = torch.randn(8, 16)
    y, flat, row, transposed = compiled(run)(x)
    y.zero_()
    assert (flat == 0).all() and (row == 0).all()
    assert transposed.data_ptr() == x.data_ptr()


def test_inputs_are_changed_in_place():
    def run(cache, position, value, counter):
        cache.index_copy_(1, position, value)
        counter.add_(1)
        return cache.sum(1), counter

    position, value = torch.tensor([3, 4]), torch.randn(2, 2, 4)
    mine, theirs = ([torch.zeros(2, 10, 4), position, value, torch.zeros(())] for _ in range(2))
    torch.testing.assert_close(compiled(run)(*mine), run(*theirs))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("settings", [{"foreach": True}, {}, {"amsgrad": True}])
def test_optimizer_step_is_a_few_kernels(settings):
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(6)])
    twin = copy.deepcopy(model)
    mine, theirs = (torch.optim.AdamW(m.parameters(), lr=1e-2, **settings) for m in (model, twin))
    counters.clear()
    step = compiled(mine.step)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(8, 16)
        for m, update in ((model, step), (twin, theirs.step)):
            m.zero_grad()
            F.mse_loss(m(x), x).backward()
            update()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
    assert counters["xpu_aten"]["kernel_calls"] <= 4 * counters["xpu_aten"]["graphs"]
    assert counters["xpu_aten"]["fallback_nodes"] == 0


def test_threads_share_a_compiled_function():
    def run(x):
        return torch.softmax(x * 2, -1) @ x.t()

    f = compiled(run)
    f(torch.randn(8, 16))
    faults: list[float] = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(50):
            x = torch.randn(8, 16, generator=generator)
            error = (f(x) - run(x)).abs().max().item()
            if not error < 1e-4:
                faults.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_loader_workers_forked_after_a_compile():
    compiled(lambda x: x * 2 + 1)(torch.randn(4))
    data = torch.utils.data.TensorDataset(torch.arange(32.0))
    assert sum(batch.sum().item() for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)) == 496


def test_torch_compilers_contract():
    x = torch.randn(8, 16)
    torch.testing.assert_close(compiled(torch.sin, fullgraph=True, mode="reduce-overhead")(x), x.sin())
    torch.compiler.cudagraph_mark_step_begin()
    f = compiled(lambda y: y + (1 if torch.compiler.is_compiling() else 2))
    torch.testing.assert_close(f(x), x + 1)
    torch.compiler.reset()
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(f(x), x + 2)
