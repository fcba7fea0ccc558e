"""Special functions whose formulas are tables or split numbers, and what comparisons do with equal operands."""

from __future__ import annotations

import math

import pytest
import torch

from aten_backend.numerics.policy import Work, compare
from support import backend, check

pytestmark = pytest.mark.device

BESSEL = (
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "airy_ai", "erfcx",
)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tabulated_functions(dtype):
    edges = torch.tensor(
        [0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5.0, 2.0, 2.09, -2.09, 1e-20, 100.0, 8.0, 24.0]
    )
    x = torch.cat([edges, torch.linspace(-9, 30, 150)]).to(dtype)

    def f(x):
        return tuple(getattr(torch.special, name)(x) for name in BESSEL)

    torch._dynamo.reset()
    found = torch.compile(f, backend=backend(), options={"fallback": "error"})(x)
    for name, ours in zip(BESSEL, found, strict=True):
        function = getattr(torch.special, name)
        # a sum of two terms that cancel near its zeros, each of them of size one at most
        work = Work(pointwise="modified" in name or name == "erfcx", magnitude=1.0)
        fault = compare([ours], [function(x)], [function(x.double())] if dtype == torch.float32 else None, work)
        assert fault is None, f"{name}: {fault}"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_frexp_at_every_power_of_two(dtype):
    powers = 2.0 ** torch.arange(-1074, 1024, dtype=torch.float64)
    below = torch.nextafter(powers, torch.zeros((), dtype=torch.float64))
    x = torch.cat([powers, -below, torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan])]).to(dtype)
    check(torch.frexp, x, rtol=0, atol=0)


def test_of_zeros_of_both_signs_the_first_stays():
    plus, minus = torch.zeros(5), -torch.zeros(5)

    def f(p, m):
        kept = torch.maximum(m, p), torch.minimum(p, m), torch.fmax(m, p), torch.fmin(p, m)
        return *kept, m.relu(), m.clamp(0.0, 1.0), p.clamp(min=m), m.clamp(max=p)

    torch._dynamo.reset()
    found = torch.compile(f, backend=backend(), options={"fallback": "error"})(plus, minus)
    assert [bool(t.signbit().any()) for t in found] == [bool(t.signbit().any()) for t in f(plus, minus)]


def test_roll_keeps_channels_last():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    check(lambda x: (x.roll(1, 0), x.roll((1, 2), (1, 3)), x.roll(3)), x)
