"""Every step can be switched off, changes something when it is, and the numbers stay."""

from __future__ import annotations

import math

import pytest
import torch

from aten_backend.switches import SWITCHES, without
from support import interpret, lowered


def program(x, w, b, y):
    places = torch.arange(40).float()
    z = torch.softmax(torch.addmm(b, x, w), -1) + places
    sums = torch.tanh(z).sum(0), x.reshape(-1).exp().sum()
    return z[None] + y[:, :, None], *sums, torch.sin(w) @ torch.cos(w + places), torch.sigmoid(y)


def arguments(rows):
    torch.manual_seed(0)
    return torch.randn(rows, 40), torch.randn(40, 40), torch.randn(40), torch.randn(2, rows)


def text(one) -> str:
    return "\n".join([*(k.source.text for k in one.distinct.values()), one.plan.text])


def rotated(x, y):
    return torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)), torch.view_as_complex(x).real.sin()


def cached(cache, at, new):
    return cache.index_copy_(1, at, new).sum(1)


def tanh_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x.pow(3.0))))


def activated(x, w):
    return torch.nn.functional.gelu(torch.mm(x, w))


PROGRAMS = {
    "drop_copies": (lambda x: x.sin().clone(), lambda: (torch.randn(30),)),
    "recompose": (tanh_gelu, lambda: (torch.randn(30),)),
    "onednn_linear": (activated, lambda: (torch.randn(512, 512), torch.randn(512, 512))),
    "take_parts": (rotated, lambda: (torch.randn(30, 20, 2), torch.randn(30, 20, 2))),
    "write_in_place": (cached, lambda: (torch.zeros(4, 1000), torch.tensor([3]), torch.randn(4, 1))),
}
"""Where the usual program has nothing for the step to do."""


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_changes_what_is_made(name):
    function, given = PROGRAMS.get(name, (program, lambda: arguments(1000)))
    (usual,) = lowered(function, *given())
    (plain,) = lowered(function, *given(), options={"disable_passes": [name]})
    assert text(usual) != text(plain)


@pytest.mark.parametrize("dynamic", (False, True), ids=("static", "dynamic"))
@pytest.mark.parametrize("name", (*SWITCHES, "all"))
def test_a_switch_changes_no_number(name, dynamic):
    names = list(SWITCHES) if name == "all" else [name]
    got = interpret(program, *arguments(12), dynamic=dynamic, options={"disable_passes": names})
    for ours, eager in zip(got, program(*arguments(12)), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)


def test_a_name_that_is_none_is_refused():
    with pytest.raises(KeyError):
        without(["nothing"])
