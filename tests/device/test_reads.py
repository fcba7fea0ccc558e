"""Ops that read elsewhere: concatenation, padding, lookups; and what happens to an index out of range."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

from support import backend, check

pytestmark = pytest.mark.device

IRS = ("aten", "prims")
r = torch.randn


@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat(dim, ir):
    parts = [r(3, 4, 5), r(3, 4, 5).transpose(0, 1).contiguous().transpose(0, 1), r(3, 4, 10)[..., ::2]]
    check(lambda a, b, c: torch.cat([a + 1, b, c * 2], dim).relu(), *parts, ir=ir)


def test_cat_of_different_sizes_types_and_nothing():
    check(
        lambda a, b, c: torch.cat([a, b.double(), c, a[:0]], 0) * 2,
        r(2, 3),
        r(5, 3),
        torch.ones(1, 3, dtype=torch.int32),
    )


def test_cat_of_what_kernels_compute():
    check(lambda x: torch.cat([torch.softmax(x, -1), x.sum(-1, keepdim=True), x.amax(-1, keepdim=True)], -1), r(6, 10))


def test_stack():
    check(lambda a, b: torch.stack([a * 2, b, a + b], 1), r(4, 3), r(4, 3))


@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("pads", [(1, 2), (0, 3, 2, 0), (-1, 2), (-1, -1, 1, -2)], ids=str)
def test_pad(pads, ir):
    check(lambda x: F.pad(x * 2, pads, value=0.5) + 1, r(4, 6), ir=ir)


def test_flip_roll_repeat():
    check(lambda x: (x.flip(0, -1) + 1, x.roll(2, 1), x.roll((1, -1), (0, 1)) * 2, x.repeat(2, 1, 3) + 1), r(3, 5))


@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("index", [torch.int64, torch.int32], ids=str)
def test_embedding(index, ir):
    ids = torch.randint(0, 20, (3, 7)).to(index)
    check(lambda w, i, p: F.layer_norm(F.embedding(i, w) + p, (8,)), r(20, 8), ids, r(7, 8), ir=ir)


@pytest.mark.parametrize("ir", IRS)
def test_gather(ir):
    check(
        lambda x, i: (x.gather(1, i) * 2, x.gather(0, i[:, :4] % 3)),
        r(3, 6),
        torch.randint(0, 6, (3, 9)),
        ir=ir,
        fused=ir == "aten",
    )


def test_index_select():
    check(lambda x, i: (x.index_select(0, i), x.index_select(1, i[:2]) + 1), r(6, 5), torch.tensor([4, 0, 0, 3]))


@pytest.mark.parametrize("ir", IRS)
def test_index(ir):
    i, j = torch.tensor([3, -1, 0]), torch.tensor([[1], [-5]])

    def f(x, i, j):
        return x[i], x[:, i] + 1, x[j, i], x[i, 1:, i], x[..., j], x[None, i] * 2

    check(f, r(5, 5, 5), i, j, ir=ir)


OUT_OF_RANGE = {
    "index": (lambda x, i: x[i] * 2, torch.tensor([0, 5])),
    "index_negative": (lambda x, i: x[i] * 2, torch.tensor([-6, 1])),
    "gather": (lambda x, i: x.gather(0, i) * 2, torch.tensor([[0, 7, 1, 2]])),
    "gather_negative": (lambda x, i: x.gather(0, i) * 2, torch.tensor([[0, -1, 1, 2]])),
    "embedding": (lambda x, i: F.embedding(i, x) * 2, torch.tensor([4, 5])),
    "embedding_far": (lambda x, i: F.embedding(i, x) * 2, torch.tensor([1 << 40])),
    "index_select": (lambda x, i: x.index_select(0, i) * 2, torch.tensor([9])),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE)
def test_index_out_of_range_raises(case):
    function, bad = OUT_OF_RANGE[case]
    compiled = torch.compile(function, backend=backend(), dynamic=False)
    x, good = r(5, 4), bad % 5
    with pytest.raises((IndexError, RuntimeError)) as eager:
        function(x, bad)
    with pytest.raises(eager.type, match=re.escape(str(eager.value))):
        compiled(x, bad)
    torch.testing.assert_close(compiled(x, good), function(x, good))  # and it goes on


def test_index_out_of_range_that_is_not_read():
    """What the mask of a concatenation leaves out is no error."""
    i = torch.tensor([0, 1, 2, 3])
    check(lambda x, i: torch.cat([x[i[:2]], x[i[2:] - 2]]) + 1, r(4, 3), i)
