"""Complex numbers: pairs of real values in kernels, with eager's special values, layouts and bits."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from aten_backend.numerics.policy import Work, compare
from support import backend, check, kernel_count, lowered

pytestmark = pytest.mark.device

DTYPES = (torch.complex64, torch.complex128)
INF, NAN = math.inf, math.nan
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-3, 30.0, -100.0, 1e30, INF, -INF, NAN)


def c(*shape, dtype=torch.complex64):
    return torch.randn(*shape, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(dtype):
    def f(x, y, z):
        return x + y, x - 2 * y, x * y, x / y, 1 / x, x * 2j, z * x, z + x, -x, x.square(), x == y, x != x, x**2, x**0.5

    check(f, c(3, 5, dtype=dtype), c(3, 5, dtype=dtype), torch.randn(3, 5))


def _numbers(dtype):
    """Every pair of edges, numbers at random, and some on the unit circle, where the logarithm is small."""
    grid = torch.tensor([complex(a, b) for a in EDGES for b in EDGES], dtype=dtype)
    turns = torch.polar(torch.ones(100, dtype=torch.float64), torch.linspace(-3, 3, 100, dtype=torch.float64))
    return torch.cat([grid, torch.randn(300, dtype=dtype) * 3, turns.to(dtype)])


ELEMENTARY = ("exp", "log", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "atan",
              "asinh", "acosh", "atanh", "abs", "angle", "sgn", "reciprocal")  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_at_their_edges_and_between(dtype):
    x = _numbers(dtype)
    names = ELEMENTARY if dtype == torch.complex128 else (*ELEMENTARY, "acos", "expm1")  # eager's acos cancels there

    def f(x):
        return tuple(getattr(torch, name)(x) for name in names)

    torch._dynamo.reset()
    found = torch.compile(f, backend=backend(), options={"fallback": "error"})(x)
    for name, ours in zip(names, found, strict=True):
        wide = getattr(torch, name)(x.to(torch.complex128))
        fault = compare([ours], [getattr(torch, name)(x)], [wide], Work(pointwise=True))
        assert fault is None, f"{name}: {fault}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_and_quotients_of_infinities_are_eagers(dtype):
    x = torch.tensor([complex(a, b) for a in (0.0, 1.0, INF, NAN) for b in (0.0, -2.0, INF, NAN)], dtype=dtype)
    check(lambda x, y: (x * y, x / y, x + y, x - y, x * 2, x / 2), x.repeat(16), x.repeat_interleave(16))


def test_making_and_taking_apart():
    def f(x, r):
        real, imag = torch.view_as_real(x * 2).unbind(-1)
        return real, imag, x.real + x.imag, torch.complex(r, r + 1), torch.polar(r, r), torch.view_as_real(x * x)

    check(f, c(4, 6), torch.randn(4, 6))


def test_views_between_real_and_complex_fuse():
    """The rotary embedding of Llama."""

    def f(q, turn):
        pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turn).flatten(-2).type_as(q)

    q, turn = torch.randn(2, 8, 4, 16, dtype=torch.bfloat16), c(8, 1, 8)
    check(f, q, turn)
    assert kernel_count(f, q, turn) == 1


def test_a_part_fuses_with_what_computes_it():
    assert kernel_count(lambda x: ((x * 2j).real + 1, (x * 2j).imag.exp()), c(5, 7)) == 1


def test_conjugates_and_negatives_are_bits_of_what_is_read():
    def f(x, y):
        return x * 2, x.conj() * y, x.imag + 1, x.real, (x + y).conj().imag * 3, x.mH + y.t(), torch.resolve_conj(x)

    check(f, c(4, 6).conj(), c(4, 6))
    check(lambda n: n * 2, c(4, 6).conj().imag)
    check(lambda x: x[1:].conj().t()[1:] * 2, c(4, 6))


def test_a_library_call_reads_a_conjugate_as_a_view():
    def f(x):
        return (x + 1) @ (x * 2).mH

    check(f, c(4, 6))
    (one,) = lowered(f, c(4, 6))
    assert "_conj(reinterpret(" in one.plan.text


@pytest.mark.parametrize("layout", [lambda x: x, lambda x: x.t().contiguous().t(), lambda x: x[:, ::2]], ids="abc")
def test_layouts(layout):
    x = layout(c(6, 8))
    check(lambda x: (x * 2, torch.cat([x, x.conj()]), F.pad(x, (1, 2)), x.flip(0), x.t().contiguous(), x.roll(1, 1)), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_and_scans(dtype):
    def f(x):
        return x.sum(), x.sum(0), x.mean(1), x.var(0), x.std(), x.cumsum(1), (x * x).abs().amax(0), x.any(), x.norm()

    check(f, c(7, 300, dtype=dtype))
    check(lambda x: (x * 2).sum(), c(200_000, dtype=dtype), rtol=1e-4, atol=1e-2)


def test_casts_constants_and_choices():
    def f(x, r, n):
        full = torch.full((3,), 1 + 2j), torch.zeros(2, dtype=torch.complex64), torch.ones_like(x)
        chosen = torch.where(r > 0, x, 2j), x.masked_fill(r > 0, -1), torch.where(r > 0, r, x)
        return *full, *chosen, r.to(torch.complex64), n.to(torch.complex128), x.bool(), x.to(torch.complex128)

    check(f, c(3, 4), torch.randn(3, 4), torch.arange(5))


def test_lookups_and_updates():
    i = torch.tensor([2, 0, 2])
    check(lambda x, i: (x[i] * 2, x.index_select(1, i), x.index_add(0, i, x[:3]), x.index_put((i,), x[0])), c(4, 5), i)


def test_sizes_known_at_run_time():
    def f(x, y):
        return (x * y.conj()).sum(0), torch.view_as_real(x)[..., 0] + 1, torch.cat([x, y]).exp()

    for size in (3, 8, 17):
        check(f, c(size, 5), c(size, 5), dynamic=True)


def test_gradients():
    def loss(x, y):
        return ((x * y).exp() / (y + 3)).abs().sum()

    x, y = c(3, 4).requires_grad_(), c(3, 4)
    expected = torch.autograd.grad(loss(x, y), x)[0]
    torch._dynamo.reset()
    compiled = torch.compile(loss, backend=backend(), options={"fallback": "error"})
    torch.testing.assert_close(torch.autograd.grad(compiled(x, y), x)[0], expected)


def test_what_is_left_to_aten_says_why():
    (one,) = lowered(lambda x: (x.prod(), x.cumprod(0)), c(4, 4))
    assert all("mixes their parts" in r.reason for r in one.partition.refusals)
    (one,) = lowered(lambda x: x + 1, torch.zeros(3, dtype=torch.complex32))
    assert {r.reason for r in one.partition.refusals} == {
        "complex32 is left to ATen, which rounds every step of it to halves"
    }
