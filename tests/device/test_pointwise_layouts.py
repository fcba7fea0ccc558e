"""Pointwise kernels over every layout and type: eager's numbers, sizes and strides."""

from __future__ import annotations

import itertools

import pytest
import torch

from support import backend, check

pytestmark = pytest.mark.device

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
DTYPES = [*FLOATS, *INTEGERS, torch.bool]
IRS = ("aten", "prims")


def make(shape, dtype=torch.float32):
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    if dtype is torch.bool:
        return torch.rand(shape) > 0.5
    return torch.randint(0, 50, shape).to(dtype)


def double(x):
    return x * 2 + 1


@pytest.mark.parametrize("rank", range(10))
def test_rank(rank):
    check(lambda x, y: x * y + 1, make((2,) * rank), make((2,) * rank))


@pytest.mark.parametrize("rank", [2, 3, 4, 6, 8])
def test_reversed_dimensions(rank):
    """As many dimensions as will not merge: a range has three, the rest is decoded."""
    shape = tuple(range(2, 2 + rank))
    if rank > 6:
        shape = (2, 1, 3, 2, 2, 1, 2, 3)
    x, y = make(shape), make(shape[::-1])
    check(lambda x, y: x.permute(*reversed(range(x.dim()))) * 2 + y, x, y)


LAYOUTS = {
    "plain": lambda: make((6, 8)),
    "transposed": lambda: make((8, 6)).t(),
    "expanded": lambda: make((6, 1)).expand(6, 8),
    "expanded_row": lambda: make((8,)).expand(6, 8),
    "scalar_expanded": lambda: make(()).expand(6, 8),
    "stepped": lambda: make((12, 16))[::2, ::2],
    "shifted": lambda: make((9, 10))[2:8, 1:9],
    "offset": lambda: make((60,))[12:].view(6, 8),
    "overlapping": lambda: make((24,)).as_strided((6, 8), (2, 1), 3),
    "column_of_wide": lambda: make((6, 8, 5))[:, :, 3],
    "diagonal_of_blocks": lambda: make((6, 8, 8)).diagonal(dim1=1, dim2=2),
    "unfolded": lambda: make((13,)).unfold(0, 8, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_input_layout(layout):
    check(lambda x, y: (double(x), x + y, y.t() * x.t()), LAYOUTS[layout](), make((6, 8)))


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(LAYOUTS, 2))[::6], ids=str)
def test_two_layouts_at_once(first, second):
    check(lambda x, y: x * y - 1, LAYOUTS[first](), LAYOUTS[second]())


@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype(dtype, ir):
    def f(x, y):
        return (
            x == y,
            torch.where(x > y, x, y),
            torch.maximum(x, y),
            x.float() + y.double(),
            x.to(torch.int32),
            ~(x < y),
        )

    check(f, make((5, 7), dtype), make((5, 7), dtype), ir=ir)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not torch.bool], ids=str)
def test_arithmetic(dtype):
    check(
        lambda x, y: (x + y, x - y, x * y, -x if dtype.is_signed else x, abs(x)), make((4, 9), dtype), make((9,), dtype)
    )


MIXED = list(itertools.combinations(DTYPES, 2))


@pytest.mark.parametrize(("left", "right"), MIXED, ids=str)
def test_mixed_dtypes(left, right):
    """Promotion of tensors, and of a tensor without dimensions, which counts less."""
    check(lambda x, y, s: (x + y, x * s, y < x), make((3, 5), left), make((5,), right), make((), right), dynamic=False)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 3), (1, 0, 1)], ids=str)
def test_no_elements(shape):
    check(lambda x: (double(x), x.t() if x.dim() == 2 else x.flatten(), x.sum(), x.sum(0)), make(shape))


def test_no_elements_beside_some():
    check(lambda x, y: (torch.cat([x, y]) * 2, x + y[:0]), make((0, 4)), make((3, 4)))


@pytest.mark.parametrize("ir", IRS)
def test_no_dimensions(ir):
    check(lambda x, y: (double(x), x + y, y.sum() * x, x.exp() > 0), make(()), make((3,)), ir=ir)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_host_numbers(dtype):
    check(lambda x: (x + 2, 3 - x, x * True, x / 4, x > 1, x**2), make((4, 4), dtype))


def test_large_and_special_numbers():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3e38, 1e-40, -1e-45])
    check(lambda x: (x * 2, -x, x.abs(), x.relu(), x == x, torch.maximum(x, x.flip(0)), x.sign(), x.isnan()), x)


def test_channels_last_is_kept():
    x = make((2, 5, 4, 3)).to(memory_format=torch.channels_last)
    y = make((5, 1, 1))
    check(lambda x, y: (torch.relu(x + y), (x * 2).sum(1), x.mean((2, 3), keepdim=True)), x, y)


def test_channels_last_through_a_convolution():
    x = make((2, 3, 8, 8)).to(memory_format=torch.channels_last)
    w = make((4, 3, 3, 3))
    check(lambda x, w: torch.relu(torch.conv2d(x, w, padding=1)) + 1, x, w, rtol=1e-4, atol=1e-4)


def test_outputs_have_strides_of_eager():
    x, y = make((4, 6)).t(), make((5, 4, 6))
    check(lambda x, y: (x + 1, y.permute(2, 0, 1) * 2, (y + 1).transpose(0, 1), x.contiguous() + 1, y[:, 0] + 1), x, y)


def test_outputs_that_are_views():
    check(
        lambda x: (double(x).view(24), double(x).t(), double(x)[1:, ::2], double(x).unsqueeze(1).expand(4, 3, 6)),
        make((4, 6)),
    )


def test_outputs_that_share_memory():
    """Views of one result stay views of one memory."""

    def f(x):
        y = x * 2
        return y, y.t(), y.view(-1)[3:]

    x = make((3, 4))
    whole, transposed, part = torch.compile(f, backend=backend())(x)
    torch.testing.assert_close((whole, transposed, part), f(x))
    assert whole.data_ptr() == transposed.data_ptr() == part.data_ptr() - 12


def test_views_between_kernels():
    def f(x, w):
        y = (x * 2).view(2, 3, 8).transpose(1, 2)
        z = torch.softmax(y, -1).reshape(16, 3) @ w
        return z.view(2, 8, 5).permute(2, 0, 1)[1:, :, ::2].relu() + 1

    check(f, make((6, 8)), make((3, 5)))


def test_views_of_views_with_offsets():
    def f(x):
        y = x[1:, 2:].t()[::2]
        return y + 1, (y * 2)[1:].t() + x[1:, 4::2][:, : y.shape[0] - 1], x.narrow(1, 3, 4).select(0, 2) * 3

    check(f, make((5, 12)))


def test_split_and_chunk():
    check(lambda x: [a * (n + 1) for n, a in enumerate(x.split([2, 5, 1], 1))], make((3, 8)))
    check(lambda x: [a.sin() for a in x.chunk(3, -1)], make((2, 9)))


def test_writes_in_place():
    def f(x, y):
        x = x.clone()
        x[:, 1:3] = y[:, :2] * 2
        x[0].add_(1)
        x.t()[1].mul_(3)
        return x, x.sum(0)

    check(f, make((4, 6)), make((4, 6)))


@pytest.mark.parametrize("sizes", [(3, 5), (8, 16), (1, 7), (2, 1)], ids=str)
def test_sizes_known_at_run_time(sizes):
    check(
        lambda x, y: (x * y.t() + x.shape[0], torch.cat([x, x + 1], 1), x.reshape(-1) / x.numel()),
        make(sizes),
        make(sizes[::-1]),
        dynamic=True,
    )
