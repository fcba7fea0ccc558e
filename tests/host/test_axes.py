"""Axis inference: unifying, splitting and taking back."""

from __future__ import annotations

import random

import pytest

from lowering.axes import Axes
from lowering.index import ONE, Symbol, atom, index, product


def sizes(axes, dim):
    return [axes.size(a).constant for a in axes.leaves(dim)]


def dims(axes, *shape):
    return axes.fresh_dims(map(index, shape))


def test_size_one_has_no_axis():
    axes = Axes()
    assert axes.fresh(ONE) == ()
    assert dims(axes, 1, 3, 1)[0] == ()


def test_equal_sizes_unify():
    axes = Axes()
    a, b = dims(axes, 4, 6), dims(axes, 4, 6)
    assert axes.unify_dims(a, b)
    assert [axes.leaves(d) for d in a] == [axes.leaves(d) for d in b]


def test_different_sizes_do_not():
    axes = Axes()
    a, b = dims(axes, 4), dims(axes, 6)
    assert not axes.unify(a[0], b[0])
    assert not axes.unify_dims(dims(axes, 4, 6), dims(axes, 4))


def test_a_product_splits_an_axis():
    axes = Axes()
    (whole,), parts = dims(axes, 24), dims(axes, 2, 3, 4)
    assert axes.unify(whole, tuple(a for d in parts for a in d))
    assert sizes(axes, whole) == [2, 3, 4]
    assert axes.leaves(whole) == axes.leaves(a for d in parts for a in d)


def test_two_splits_refine_each_other():
    axes = Axes()
    left, right = dims(axes, 4, 6), dims(axes, 2, 12)
    assert axes.unify(left[0] + left[1], right[0] + right[1])
    assert sizes(axes, left[0] + left[1]) == [2, 2, 6]
    assert sizes(axes, right[1]) == [2, 6]


def test_splits_that_do_not_fit():
    axes = Axes()
    left, right = dims(axes, 4, 6), dims(axes, 3, 8)
    assert not axes.unify(left[0] + left[1], right[0] + right[1])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((4, 6), (24,), [[4, 6]]),
        ((24,), (2, 3, 4), [[2], [3], [4]]),
        ((2, 3, 4), (6, 4), [[2, 3], [4]]),
        ((6, 4), (2, 12), [[2], [3, 4]]),
        ((6, 1, 4), (1, 6, 4, 1), [[], [6], [4], []]),
        ((4, 6), (3, 8), None),
        ((), (1, 1), [[], []]),
    ],
)
def test_reshape(before, after, expected):
    axes = Axes()
    found = axes.reshape(dims(axes, *before), tuple(map(index, after)))
    assert (None if found is None else [sizes(axes, d) for d in found]) == expected


def test_reshape_with_symbols():
    axes = Axes()
    s = atom(Symbol("s0", 2))
    before = axes.fresh_dims((s, index(12)))
    after = axes.reshape(before, (s * 3, index(4)))
    assert after is not None
    assert [product(axes.size(a) for a in axes.leaves(d)) for d in after] == [s * 3, index(4)]


def test_undo():
    axes = Axes()
    a, b, parts = dims(axes, 24), dims(axes, 24), dims(axes, 4, 6)
    mark = axes.mark()
    assert axes.unify_dims(a, b)
    assert axes.unify(a[0], parts[0] + parts[1])
    assert sizes(axes, b[0]) == [4, 6]
    axes.undo(mark)
    assert axes.leaves(a[0]) == a[0]
    assert axes.leaves(b[0]) == b[0]
    assert axes.unify(b[0], parts[0] + parts[1]), "and the same can be done again"


def test_distinct():
    axes = Axes()
    a, b = dims(axes, 4, 4)
    assert axes.distinct([a, b])
    axes.unify(a, b)
    assert not axes.distinct([a, b])


def factors(random_, number):
    """A random factorisation, in order."""
    found = []
    while number > 1:
        f = random_.choice([d for d in range(2, number + 1) if number % d == 0])
        found.append(f)
        number //= f
    return tuple(found) or (1,)


@pytest.mark.parametrize("seed", range(60))
def test_unification_keeps_sizes_and_order(seed):
    """Whatever is unified: products stay what they were, and both sides are the same axes in the same order."""
    random_ = random.Random(seed)
    axes = Axes()
    number = random_.choice((12, 24, 36, 48, 60))
    sides = [dims(axes, *factors(random_, number)) for _ in range(3)]
    for left, right in ((sides[0], sides[1]), (sides[1], sides[2])):
        mark = axes.mark()
        before = [[sizes(axes, d) for d in side] for side in sides]
        flat = [tuple(a for d in side for a in d) for side in (left, right)]
        if axes.unify(*flat):
            assert axes.leaves(flat[0]) == axes.leaves(flat[1])
        else:
            axes.undo(mark)
            assert [[sizes(axes, d) for d in side] for side in sides] == before
        for side in sides:
            assert product(axes.size(a) for d in side for a in axes.leaves(d)) == index(number)
