"""Ops that write at places that depend on data: order of duplicates, indexes out of range, every way to reduce."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from lowering.ops.externs import HALF_SUMS
from support import backend, check, lowered

pytestmark = pytest.mark.device

IRS = ("aten", "prims")
TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.uint8)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers that every type of TYPES holds, none zero."""
    return torch.randint(1, 6, shape).to(dtype)


def places(limit: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, limit, shape)


def compiled(fn: Any, dynamic: bool | None = None) -> Any:
    torch._dynamo.reset()
    return torch.compile(fn, backend=backend(), dynamic=dynamic)


def runs_in_kernels(fn: Any, *args: Any) -> None:
    """The same results as eager's, and nothing left to ATen but sums of half types."""
    check(fn, *args)
    refused = [r.reason for lo in lowered(fn, *args) for r in lo.partition.refusals]
    assert set(refused) <= {HALF_SUMS}


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_scatter_add_meets_duplicates(dtype, dim):
    x, source = numbers(4, 5, 6, dtype=dtype), numbers(3, 4, 5, dtype=dtype)
    runs_in_kernels(lambda x, i, s: x.scatter_add(dim, i, s) * 2, x, places(4, 3, 4, 5), source)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
def test_scatter_reduce(reduce, include_self, dtype):
    def f(x, i, s):
        return x.scatter_reduce(1, i, s, reduce, include_self=include_self)

    runs_in_kernels(f, numbers(3, 5, dtype=dtype), places(5, 3, 4), numbers(3, 4, dtype=dtype))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "amax", "amin", "mean"])
def test_index_reduce(reduce, include_self):
    def f(x, i, s):
        return x.index_reduce(1, i, s, reduce, include_self=include_self)

    runs_in_kernels(f, numbers(3, 5, 2), places(5, 7), numbers(3, 7, 2))


def test_nan_wins():
    x, source = torch.zeros(3), torch.tensor([1.0, float("nan"), 2.0, 3.0])
    for reduce in ("amax", "amin"):
        runs_in_kernels(lambda x, i, s, r=reduce: x.scatter_reduce(0, i, s, r), x, torch.tensor([0, 0, 0, 2]), source)


@pytest.mark.parametrize("ir", IRS)
def test_last_of_equal_places_stays(ir):
    x, at, source = numbers(6), torch.tensor([2, 2, 5, 2]), torch.arange(4.0)
    check(lambda x, i, s: (x.scatter(0, i, s), x.index_copy(0, i, s), x.index_put((i,), s)), x, at, source, ir=ir)
    check(lambda x, i: (x.scatter(0, i, 7.5), x.scatter(0, i, 2, reduce="multiply")), x, at, ir=ir)
    check(lambda x, i, s: x.scatter(0, i, s, reduce="add"), x, at, source, ir=ir)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_half_types_are_eagers(dtype):
    x, source = torch.zeros(2, dtype=dtype), torch.full((1000,), 0.1, dtype=dtype)
    check(lambda x, i, s: x.scatter_add(0, i, s), x, torch.zeros(1000, dtype=torch.int64), source)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("accumulate", [True, False])
def test_index_put(accumulate, dtype):
    x = numbers(4, 5, 6, dtype=dtype)
    first, second = torch.tensor([[0, -1], [0, 2]]), torch.tensor([1, -5])
    for indices, shape in (
        ((first,), (2, 2, 5, 6)), ((first, second), (2, 2, 6)), ((None, second), (4, 2, 6)),
        ((first, None, second), (2, 2, 5)), ((None, first, second), (2, 1)), ((first[:1, :, None], second), ()),
        ((None, None, second), (2,)),
    ):  # fmt: skip
        values = numbers(*shape, dtype=dtype)
        if not accumulate:  # which of several values for one place stays is not said
            values = torch.ones(shape, dtype=dtype)
        runs_in_kernels(lambda x, v, ix=indices: torch.ops.aten.index_put(x, ix, v, accumulate), x, values)


@pytest.mark.parametrize("ir", IRS)
def test_along_a_dimension(ir):
    x, at, source = numbers(4, 5, 6), torch.tensor([3, 0, 3]), numbers(4, 3, 6)
    check(lambda x, i, s: x.index_add(1, i, s), x, at, source, ir=ir)
    check(lambda x, i, s: x.index_add(1, i, s, alpha=2), x, at, source, ir=ir)
    check(lambda x, i: (x.index_fill(1, i - 4, 7), x.index_fill(-1, i, x[0, 0, 0])), x, at, ir=ir)
    check(lambda x, i, s: x.index_copy(1, i, s), x, at[:2], source[:, :2], ir=ir)


def test_put_and_as_strided():
    x, at = numbers(4, 5), torch.tensor([[3, -1], [3, 0]])
    for accumulate in (True, False):
        values = numbers(2, 2) if accumulate else torch.ones(2, 2)
        runs_in_kernels(lambda x, i, v, a=accumulate: x.put(i, v, accumulate=a), x.t(), at, values)
    runs_in_kernels(lambda x, s: x.as_strided_scatter(s, (2, 3), (6, 2), 1), x, numbers(2, 3))


@pytest.mark.parametrize("padding", [None, 2])
def test_gradient_of_an_embedding(padding):
    def f(grad, ids):
        return torch.ops.aten.embedding_dense_backward(grad, ids, 9, -1 if padding is None else padding, False)

    runs_in_kernels(f, torch.randn(3, 5, 4), places(9, 3, 5))


def test_masks_for_one_value():
    x, value = numbers(4, 5, 6), torch.tensor(2.0)
    for mask, accumulate in ((x > 3, False), (x > 3, True), (x[:, :, 0] > 3, True)):
        runs_in_kernels(lambda x, m, v, a=accumulate: x.index_put((m,), v, accumulate=a), x, mask, value)
    runs_in_kernels(lambda x, m, v: torch.ops.aten.index_put(x, (None, m), v), x, x[0, :, 0] > 3, value)


def test_no_dimensions_and_no_elements():
    zero, none = torch.tensor(0), torch.zeros(0, dtype=torch.int64)
    runs_in_kernels(lambda x, i, s: x.scatter_add(0, i, s), torch.tensor(1.5), zero, torch.tensor(2.0))
    runs_in_kernels(
        lambda x, i, s: (x.index_add(0, i, s), x.index_copy(0, i, s)), torch.tensor(1.5), zero, torch.tensor(2.0)
    )
    runs_in_kernels(lambda x, i: x.index_fill(0, i, 3), torch.tensor(1.5), zero)
    runs_in_kernels(
        lambda x, i, s: x.scatter_add(0, i, s), numbers(3, 2), torch.zeros(0, 2, dtype=torch.int64), numbers(0, 2)
    )
    runs_in_kernels(lambda x, i, s: x.index_add(0, i, s), numbers(3, 2), none, numbers(0, 2))
    runs_in_kernels(lambda x, i, s: x.index_put((i,), s, accumulate=True), numbers(3, 2), none, numbers(0, 2))
    runs_in_kernels(
        lambda x, i, s: x.scatter(1, i, s), numbers(0, 2), torch.zeros(0, 2, dtype=torch.int64), numbers(0, 2)
    )
    check(lambda x, i, s: x.index_put((i,), s), numbers(0, 2), none, numbers(0, 2))


@pytest.mark.parametrize("bad", [4, -5])
def test_out_of_range(bad):
    x, at = torch.randn(4, 3), torch.tensor([1, bad])
    for f in (
        lambda x, i: x.index_put((i,), x[0]), lambda x, i: x.index_fill(0, i, 2), lambda x, i: x.index_add(0, i, x[:2]),
        lambda x, i: x.index_copy(0, i, x[:2]), lambda x, i: x.scatter(0, i[:, None], x),
        lambda x, i: x.put(i * 4, x[0, :2]),
    ):  # fmt: skip
        with pytest.raises((IndexError, RuntimeError)) as eager:
            f(x, at)
        said = str(eager.value).removeprefix("index_copy_(): ")
        with pytest.raises(eager.type, match=re.escape(said)):
            compiled(f)(x, at)


def test_negative_indexes_only_where_eager_takes_them():
    x, at = torch.randn(4, 3), torch.tensor([1, -1])
    for f in (lambda x, i: x.index_add(0, i, x[:2]), lambda x, i: x.scatter(0, i[:, None], x)):
        with pytest.raises(RuntimeError, match="index -1 is out of bounds for dimension 0 with size 4"):
            compiled(f)(x, at)


def test_any_size_by_one_compile():
    def f(x, i, s):
        return (
            x.scatter_add(0, i, s).relu(),
            x.index_put((i[0],), s[0], accumulate=True),
            x.index_add(1, i[:, 0], x[:, : i.shape[0]]),
        )

    anything = compiled(f, dynamic=True)
    for n in (4, 7, 12):
        args = numbers(n, n + 1), places(n, 3, n + 1), numbers(3, n + 1)
        for got, want in zip(anything(*args), f(*args), strict=True):
            torch.testing.assert_close(got, want)


def test_neighbours_are_kernels_of_their_own():
    def f(x, i, s):
        return (x + 1).scatter_add(0, i, s * 2).relu().sum(-1)

    args = torch.randn(40, 5000), places(40, 3, 5000), torch.randn(3, 5000)
    check(f, *args)
    assert [lo.plan.extern_calls for lo in lowered(f, *args)] == [0]


def test_many_updates_of_one_row_are_left_to_aten():
    for count, externs in ((2**11, 0), (2**11 + 1, 1)):
        (one,) = lowered(lambda x, i, s: x.scatter_add(0, i, s), torch.zeros(50), places(50, count), torch.ones(count))
        assert one.plan.extern_calls == externs


def test_any_layout():
    wide = numbers(2, 4, 6, 6).to(memory_format=torch.channels_last)
    at = torch.tensor([1, 1])
    runs_in_kernels(lambda x, i, s: x.index_add(1, i, s), wide, at, numbers(2, 2, 6, 6))
    runs_in_kernels(lambda x, i: x.index_fill(0, i[:1], 1.5), wide, at)
    runs_in_kernels(lambda x, i, s: x.scatter_add(0, i, s), numbers(3, 4).t(), places(4, 2, 3), numbers(2, 3))
    runs_in_kernels(lambda x, i, s: x.scatter_add(1, i, s), numbers(2, 1).expand(2, 4), places(4, 2, 2), numbers(2, 2))


def test_select_scatter_at_a_number_known_at_run_time():
    compiled_once = compiled(lambda x, s, at: x.select_scatter(s, 1, at), dynamic=True)
    x, source = numbers(4, 5), numbers(4)
    for at in (2, 4, -1, -5):
        torch.testing.assert_close(compiled_once(x, source, at), x.select_scatter(source, 1, at))
