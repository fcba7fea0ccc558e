"""xpu_inductor on programs: eager's numbers, through Inductor's pipeline and this project's kernels."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional as F

from aten_backend.loop_level.backend import xpu_inductor
from aten_backend.loop_level.inductor_code import captured_code, count

pytestmark = pytest.mark.device


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype)


def below(high, *shape, low=0, dtype=torch.int64):
    return torch.randint(low, high, shape, dtype=dtype)


def copies(args):
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]


def check(fn, *args, tolerance=1e-4, dynamic=None):
    """Results and what the call does to its arguments are eager's; how much Inductor has launched."""
    torch._dynamo.reset()
    mine, theirs = copies(args), copies(args)
    expected = fn(*theirs)
    with captured_code() as code:
        result = torch.compile(fn, backend=xpu_inductor, dynamic=dynamic, options={"verify": "artifacts"})(*mine)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
    assert "cpp_pybinding" not in "".join(code)
    return count(code)


PROGRAMS = {
    "columns": (lambda x: (x * x).sum(0), (300, 70)),
    "all in two kernels": (lambda x: (x * x).sum(), (300, 700)),
    "positions": (lambda x: (x.argmax(), x.argmin(1), x.argmax(0)), (30, 70)),
    "positions of a transpose": (lambda x: x.t().argmax(), (30, 70)),
    "positions of a permutation": (lambda x: x.permute(2, 0, 1).argmax(), (5, 6, 7)),
    "softmax": (lambda x: torch.softmax(x, -1), (7, 70)),
    "moments": (lambda x: (x.var(1), x.std(), *torch.var_mean(x, 0)), (6, 70)),
    "scans": (lambda x: (x.cumsum(0), x.cumprod(1), x.logcumsumexp(1)), (9, 17)),
    "running extremes": (lambda x: (x.cummax(1), x.cummin(0)), (9, 17)),
    "flip and roll": (lambda x: x.flip(0) + x.roll(3, 1), (6, 70)),
    "reflection": (lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect"), (1, 2, 6, 7)),
    "pooling": (lambda x: (F.max_pool2d(x, 3, 2), F.avg_pool2d(x, 3, 2, 1)), (2, 3, 9, 9)),
    "upsampling": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 3, 9, 9)),
    "concatenation": (lambda x: torch.cat([x, x * 2], 1) + 1, (3, 5)),
    "transposed result": (lambda x: x.t() + 1, (6, 7)),
    "sizes from data": (lambda x: x[x > 0] * 2, (6, 70)),
    "number from data": (lambda x: x * x.sum().item(), (6, 70)),
    "triangles": (lambda x: x.tril() + x.triu(2), (6, 6)),
    "empty": (lambda x: x + 1, (0, 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    torch.manual_seed(0)
    fn, shape = PROGRAMS[name]
    check(fn, randn(*shape))


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (lambda x, y: (x.add_(y), x.mul_(2).sum(1))[1], [(30, 70), (30, 70)]),
        (lambda x, y: (x.copy_(torch.softmax(x, 1)), x.sum(1), y * 1)[1:], [(30, 70), (30, 70)]),
        (lambda x, y: (x.mul_(2), (x - x.mean(1, keepdim=True)) * y)[1], [(30, 70), (30, 70)]),
    ],
    ids=["in place", "softmax in place", "in place, then over the rows"],
)
def test_arguments_are_changed(fn, args):
    check(fn, *(randn(*a) for a in args))


def test_batch_norm_changes_its_averages():
    def fn(x, mean, var, w, b):
        return F.batch_norm(x, mean, var, w, b, True)

    check(fn, randn(8, 6, 5, 5), randn(6), randn(6).abs(), randn(6), randn(6))


def test_writes_at_places_that_depend_on_data():
    index, values = below(30, 177, low=-30), randn(177, 70)
    check(lambda x, i, v: x.index_put((i,), v, accumulate=True), randn(30, 70), index, values)
    check(lambda x, i, v: x.scatter(0, i, v) * 2, randn(30, 70), torch.stack([torch.randperm(30) for _ in range(70)], 1)
          [:10], randn(10, 70))  # fmt: skip
    last = torch.zeros(30, 70)
    for i, v in zip(index, values, strict=True):  # eager's own result depends on its threads
        last[i] = v
    found = torch.compile(lambda x, i, v: x.index_put((i,), v), backend=xpu_inductor)(last.clone(), index, values)
    torch.testing.assert_close(found, last, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_floats(dtype):
    x, y = randn(30, 70, dtype=dtype), randn(30, 70, dtype=dtype)
    tolerance = 1e-6 if dtype == torch.float64 else 2e-2
    check(lambda x, y: (F.gelu(x) * y, x > y, (x * y).to(torch.int32), x.sum(1)), x, y, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_integers(dtype):
    low = 0 if dtype == torch.uint8 else -90
    a, b = below(90, 50, low=low, dtype=dtype), below(9, 50, low=1, dtype=dtype)
    check(lambda a, b: (a // b, a % b, a & b, a << 1, a >> 1, a * b, a + 1, a.sum(), a.amax()), a, b)


def test_bools():
    a, b = randn(5, 6) > 0, randn(5, 6) > 0
    check(lambda a, b: (a & b, a | b, a ^ b, ~a, a.sum(), a.any(0), a.all(1)), a, b)


def test_sizes_that_change():
    def fn(x, y):
        return torch.softmax(x.reshape(-1, x.shape[0]) * x.shape[1], 0), x.sum(1) / x.shape[1], x[:, 1:] + y[:-1]

    check(fn, randn(6, 70), randn(70), dynamic=True)
    compiled = torch.compile(fn, backend=xpu_inductor, dynamic=True)
    for rows, cols in ((4, 9), (5, 30), (12, 7)):
        x, y = randn(rows, cols), randn(cols)
        torch.testing.assert_close(compiled(x, y), fn(x, y), rtol=1e-4, atol=1e-4)


def test_calls_of_aten_wait_for_kernels():
    def fn(x, y):
        return torch.sin((x.relu() @ y.sigmoid()).relu()).sum(0)

    found = check(fn, randn(300, 70), randn(70, 5))
    assert found.extern_calls == 1


def test_the_generator_is_eagers():
    torch.manual_seed(3)
    expected = F.dropout(torch.ones(50, 50), 0.5) + torch.rand(50, 50)
    torch.manual_seed(3)
    fn = lambda x: F.dropout(x, 0.5) + torch.rand(50, 50)  # noqa: E731
    torch.testing.assert_close(torch.compile(fn, backend=xpu_inductor)(torch.ones(50, 50)), expected, rtol=0, atol=0)


@pytest.mark.parametrize("fn", [lambda x, i: x[i], lambda x, i: F.embedding(i, x), lambda x, i: x.index_select(0, i)])
def test_an_index_out_of_range_raises(fn):
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=xpu_inductor)
    x = randn(30, 70)
    torch.testing.assert_close(compiled(x, torch.tensor([0, 29])), fn(x, torch.tensor([0, 29])))
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([0, 30]))
    torch.testing.assert_close(compiled(x, torch.tensor([1])), fn(x, torch.tensor([1])))


def test_an_integer_division_by_zero_raises():
    with pytest.raises(RuntimeError, match="ZeroDivision"):
        torch.compile(lambda a, b: a // b, backend=xpu_inductor)(below(9, 5), torch.zeros(5, dtype=torch.int64))


def test_fusion_is_inductors():
    assert check(lambda x, b, z: F.gelu(x + b) * z, randn(8, 9), randn(9), randn(8, 9)).calls == 1
    assert check(lambda x, w: F.layer_norm(x, (70,), w, w), randn(8, 70), randn(70)).calls == 1


def test_small_kernels_share_a_launch():
    """Batch norm in training counts its batches: no launch for each counter."""
    norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(6) for _ in range(4)).train()
    mine, x = copy.deepcopy(norms), randn(8, 6)

    def fn(norms, x):
        return [norm(x * position) for position, norm in enumerate(norms)]

    with captured_code() as code:
        found = torch.compile(functools.partial(fn, mine), backend=xpu_inductor)(x)
    torch.testing.assert_close(found, fn(norms, x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine.state_dict(), norms.state_dict(), rtol=1e-4, atol=1e-5)
    assert count(code).calls <= 2


def test_results_that_several_kernels_write_to_the_same_argument():
    """Each long reduction has memory of its own between its two kernels."""

    def fn(x, y, total):
        total.add_(x.sum())
        y = y @ y
        total.add_(y.sum())
        return total * 2

    check(fn, randn(300, 700), randn(300, 300), torch.zeros(()), tolerance=1e-3)


def test_gradients():
    def fn(x, w):
        return F.cross_entropy(F.layer_norm(F.gelu(x @ w), (10,)), torch.arange(10))

    x, w = randn(10, 7).requires_grad_(), randn(7, 10).requires_grad_()
    expected = torch.autograd.grad(fn(x, w), (x, w))
    found = torch.autograd.grad(torch.compile(fn, backend=xpu_inductor)(x, w), (x, w))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_options():
    with pytest.raises(BackendCompilerFailed, match="fusion_fuel"):
        torch.compile(torch.sin, backend=xpu_inductor, options={"fusion_fuel": 1})(randn(3))
    with pytest.raises(BackendCompilerFailed, match="devise"):
        torch.compile(torch.sin, backend=xpu_inductor, options={"devise": "cpu"})(randn(3))


def test_dump_has_inductors_loops_and_our_kernels(tmp_path):
    torch._dynamo.reset()
    torch.compile(lambda x: x.sin().sum(1), backend=xpu_inductor, options={"dump_dir": str(tmp_path)})(randn(5, 6))
    names = {p.name: p for p in tmp_path.rglob("*") if p.is_file()}
    assert {"ir_pre_fusion.txt", "ir_post_fusion.txt", "output_code.py", "fx_graph_readable.py"} <= set(names)
    assert "kernels.define(" in names["output_code.py"].read_text()
