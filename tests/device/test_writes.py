"""Writes to inputs, run: results and inputs are eager's afterwards."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters

from support import backend

pytestmark = pytest.mark.device
r = torch.randn


def add(x, y):
    x.add_(y).mul_(2)


def returned_too(x, y):
    z = x + y
    x.copy_(z)
    return z, x


def softmax(x, y):
    x.add_(y)
    return torch.softmax(x, -1)


def flip(x, y):
    x.copy_(x.flip(0) + y)


def transposed(x, y):
    x.copy_(x.t().clone() * y)


def slices(x, y):
    x[:, 2:4] = y[:, :2]
    x[1].mul_(3)
    x[2, ::2] = 7
    return x.sum(1)


def nested(x, y):
    x[2:6][1].index_copy_(0, torch.tensor([1, 0]), y[0, :2])
    x[2:6][0:2].add_(1)
    return x * 2


def mask(x, y):
    x[x > 0] = -1.0
    x.masked_fill_(y > 1, 5.0)
    return x + y


def accumulate(x, y):
    x.index_add_(0, torch.tensor([0, 3, 0]), y[:3])
    x.index_put_((torch.tensor([1, 1]),), y[:2], accumulate=True)
    x.scatter_(1, torch.tensor([[0, 3]] * 8), 2.0)
    return x.mean()


def chained(x, y):
    x.index_copy_(0, torch.tensor([1]), y[:1])
    before = x.sum()
    x.index_copy_(0, torch.tensor([1, 4]), y[2:4])
    return before, x.sum()


def from_itself(x, y):
    x.index_copy_(0, torch.tensor([1, 2]), x[2:4] + 1)
    x.index_copy_(0, torch.tensor([5]), x[2:3].clone())
    return x * y


def both(x, y):
    x.add_(1)
    y.add_(x)
    x.mul_(y)
    return x - y


def casts(x, y):
    y.copy_(x.double() * 3)
    x.copy_(y.to(torch.int32))


FUNCTIONS = (
    add, returned_too, softmax, flip, transposed, slices, nested, mask, accumulate, chained, from_itself, both, casts,
)  # fmt: skip
LAYOUTS = {
    "plain": lambda: r(8, 8),
    "transposed": lambda: r(8, 8).t(),
    "offset": lambda: r(65)[1:].view(8, 8),
    "stepped": lambda: r(8, 16)[:, ::2],
}


@pytest.mark.parametrize(("layout", "dynamic"), [*((name, False) for name in LAYOUTS), ("plain", True)])
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_inputs_are_eagers_afterwards(fn, layout, dynamic):
    torch._dynamo.reset()
    first = LAYOUTS[layout](), r(8, 8)
    second = [torch.empty(0).set_(t.untyped_storage().clone(), t.storage_offset(), t.size(), t.stride()) for t in first]
    run = torch.compile(fn, backend=backend(), dynamic=dynamic or None)
    for _ in range(2):  # the second time with what the first one wrote
        torch.testing.assert_close(run(*second), fn(*first), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(second, list(first), rtol=1e-5, atol=1e-5)


def test_inputs_that_share_memory():
    def f(x, y):
        x.add_(1)
        return y * 2

    def views(base):
        return base[:6], base[2:]

    mine, theirs = torch.arange(8.0), torch.arange(8.0)
    torch.testing.assert_close(torch.compile(f, backend=backend())(*views(mine)), f(*views(theirs)))
    torch.testing.assert_close(mine, theirs)


def test_version_counter_moves():
    """Autograd still notices that a saved tensor was overwritten."""
    x, w = r(4), r(4, requires_grad=True)
    loss = (x * w).sum()
    torch.compile(lambda t: t.add_(1), backend=backend())(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_index_out_of_range_still_raises():
    def f(cache, at, new):
        cache.index_copy_(0, at, new)

    with pytest.raises(IndexError):
        torch.compile(f, backend=backend())(r(8, 4), torch.tensor([9]), r(1, 4))


def test_decode_steps_write_into_the_cache():
    def f(cache, at, new):
        cache.index_copy_(1, at, new)
        return cache.sum(1)

    cache, expected = torch.zeros(2, 64, 8), torch.zeros(2, 64, 8)
    run, address = torch.compile(f, backend=backend()), cache.data_ptr()
    counters.clear()
    for step in range(4):
        at, new = torch.tensor([step * 3]), r(2, 1, 8)
        torch.testing.assert_close(run(cache, at, new), f(expected, at, new))
    assert cache.data_ptr() == address and counters["xpu_aten"]["kernel_calls"] == 1
    torch.testing.assert_close(cache, expected)
