"""Merging of loops: fewer axes, the same addresses."""

from __future__ import annotations

import itertools

import pytest
import torch

from lowering import ir
from lowering.index import Axis, Index, atom, index
from lowering.simplify import collapse
from lowering.verify import evaluate
from support import lowered


def body(shape, strides, out, cols=()) -> ir.GroupIR:
    """A copy from one layout to another."""
    axes = [Axis(f"i{n}", index(s)) for n, s in enumerate(shape)]
    places = []
    for layout in (strides, out):
        total = Index({})
        for a, s in zip(axes, layout, strict=True):
            total = total + atom(a) * s
        places.append(total)
    buffers = (ir.Buffer("x", "float32", False), ir.Buffer("y", "float32", True))
    statements = (ir.Load(0, places[0], "float32"), ir.Store(1, places[1], 0))
    rows = tuple(a for n, a in enumerate(axes) if n not in cols)
    return ir.GroupIR(("aten.clone.default",), rows, tuple(axes[n] for n in cols), buffers, statements)


def pairs(group: ir.GroupIR) -> set[tuple[int, ...]]:
    """All (read, written) places."""
    axes = group.rows + group.cols
    indexes = [s.index for s in group.body if isinstance(s, (ir.Load, ir.Store))]
    found = set()
    for values in itertools.product(*(range(a.size.constant or 0) for a in axes)):
        at = dict(zip(axes, values, strict=True)).__getitem__
        found.add(tuple(evaluate(ix, at) for ix in indexes))  # type: ignore[arg-type]
    return found


CASES = [
    ((2, 3, 4), (12, 4, 1), (12, 4, 1), 1),
    ((2, 3, 4), (12, 4, 1), (1, 2, 6), 3),
    ((2, 3, 4), (24, 8, 2), (12, 4, 1), 1),
    ((2, 3, 4), (12, 4, 1), (24, 4, 1), 2),
    ((2, 3, 4), (0, 4, 1), (12, 4, 1), 2),
    ((2, 3, 4), (0, 0, 0), (12, 4, 1), 1),
    ((2, 3, 2, 5), (1, 10, 5, 30), (30, 10, 5, 1), 3),
    ((3, 4), (1, 3), (1, 3), 1),
]


@pytest.mark.parametrize(("shape", "strides", "out", "expected"), CASES)
def test_axes_that_remain(shape, strides, out, expected):
    before = body(shape, strides, out)
    after = collapse(before)
    assert len(after.rows) == expected
    assert pairs(after) == pairs(before)


def test_rows_and_cols_stay_apart():
    before = body((4, 6), (6, 1), (6, 1), cols=(1,))
    after = collapse(before)
    assert (len(after.rows), len(after.cols)) == (1, 1)


def test_contiguous_tensors_are_one_loop():
    (one,) = lowered(lambda x, y: (x + y).relu() * 2, *(torch.randn(2, 3, 4, 5, 6) for _ in range(2)))
    (kernel,) = one.plan.kernels
    assert len(kernel.group.rows) == 1
    assert kernel.group.rows[0].size == index(720)


def test_what_is_read_more_than_once_keeps_its_loop():
    (one,) = lowered(lambda x, b: x + b, torch.randn(4, 5, 6), torch.randn(5, 1))
    assert [a.size.constant for a in one.plan.kernels[0].group.rows] in ([4, 5, 6], [6, 5, 4], [4, 6, 5], [5, 4, 6])
