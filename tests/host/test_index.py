"""Index algebra against plain integers: every identity is tried at random points of random polynomials."""

from __future__ import annotations

import itertools
import random

import pytest

from lowering.index import (
    ONE,
    ZERO,
    Atom,
    Axis,
    Index,
    Quotient,
    Remainder,
    Symbol,
    atom,
    coefficient,
    contiguous_strides,
    divide_exactly,
    floor_divide,
    index,
    is_below,
    is_nonnegative,
    linearize,
    modulo,
    product,
    recombine,
    substitute,
    unflatten,
    upper_bound,
)
from lowering.verify.group import evaluate

SEEDS = range(150)
SYMBOLS = (Symbol("s0", 2), Symbol("s1", 1))


class Draw:
    """Random indexes over a few axes and symbols, and random points for them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.axes = [Axis(f"i{n}", self._size(n)) for n in range(4)]

    def _size(self, number: int) -> Index:
        if self.random.random() < 0.25:
            return atom(self.random.choice(SYMBOLS)) * self.random.choice((1, 1, 2, 3))
        return index(self.random.choice((2, 3, 4, 5, 6, 8, 12)))

    def factor(self) -> Index:
        """A positive size."""
        return index(self.random.choice((1, 2, 3, 4, 6, 12))) * self.random.choice((ONE, ONE, atom(SYMBOLS[0])))

    def polynomial(self) -> Index:
        """A sum of axes times strides: never negative."""
        total = index(self.random.choice((0, 0, 0, 1, 5)))
        for a in self.random.sample(self.axes, self.random.randint(1, 4)):
            total = total + atom(a) * self.factor()
        return total

    def nested(self) -> Index:
        """With quotients and remainders below."""
        inner = self.polynomial()
        if self.random.random() < 0.5:
            inner = floor_divide(inner, self.factor()) * self.factor() + self.polynomial()
        return modulo(inner, self.factor() * 2) + inner if self.random.random() < 0.5 else inner

    def points(self, count: int = 12):
        """Values for every atom, within their ranges."""
        for _ in range(count):
            values: dict[Atom, int] = {s: self.random.randint(max(s.low, 1), 6) for s in SYMBOLS}
            for a in self.axes:
                values[a] = self.random.randrange(evaluate(a.size, values.__getitem__))
            yield values.__getitem__


@pytest.mark.parametrize("seed", SEEDS)
def test_arithmetic(seed):
    draw = Draw(seed)
    a, b = draw.nested(), draw.nested()
    for at in draw.points():
        x, y = evaluate(a, at), evaluate(b, at)
        assert evaluate(a + b, at) == x + y
        assert evaluate(a - b, at) == x - y
        assert evaluate(a * b, at) == x * y
        assert evaluate(-a, at) == -x
        assert evaluate(3 - a, at) == 3 - x
    assert a - a == ZERO
    assert a * b == b * a
    assert hash(a + b) == hash(b + a)


@pytest.mark.parametrize("seed", SEEDS)
def test_division_and_remainder(seed):
    draw = Draw(seed)
    num, den = draw.nested(), draw.factor()
    quotient, remainder = floor_divide(num, den), modulo(num, den)
    for at in draw.points():
        assert (evaluate(quotient, at), evaluate(remainder, at)) == divmod(evaluate(num, at), evaluate(den, at))


@pytest.mark.parametrize("seed", SEEDS)
def test_recombine_keeps_the_value(seed):
    draw = Draw(seed)
    num, den, scale = draw.nested(), draw.factor(), draw.factor()
    whole = floor_divide(num, den) * den * scale + modulo(num, den) * scale + draw.polynomial()
    for at in draw.points():
        assert evaluate(recombine(whole), at) == evaluate(whole, at)


def test_recombine_undoes_a_split():
    i = atom(Axis("i", index(35)))
    split = atom(Quotient(i, index(4))) * 4 + atom(Remainder(i, index(4)))
    assert recombine(split) == i
    assert recombine(split * 6 + 1) == i * 6 + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_upper_bound_is_never_exceeded(seed):
    draw = Draw(seed)
    ix = draw.nested() - draw.polynomial() if seed % 2 else draw.nested()
    bound = upper_bound(ix)
    for at in draw.points():
        assert bound is None or evaluate(ix, at) <= evaluate(bound, at)


@pytest.mark.parametrize("seed", SEEDS)
def test_certainties_are_certain(seed):
    draw = Draw(seed)
    ix, limit = draw.nested() - draw.random.choice((ZERO, ZERO, draw.polynomial())), draw.factor() * draw.factor()
    for at in draw.points():
        if is_nonnegative(ix):
            assert evaluate(ix, at) >= 0
        if is_below(ix, limit):
            assert 0 <= evaluate(ix, at) < evaluate(limit, at)


@pytest.mark.parametrize("seed", SEEDS)
def test_substitute(seed):
    draw = Draw(seed)
    ix, chosen = draw.nested(), draw.random.choice(draw.axes)
    fresh = Axis("k", chosen.size)
    # any value in the axis' range will do: here the axis walked backwards
    changed = substitute(ix, {chosen: chosen.size - 1 - atom(fresh)})
    for at in draw.points():
        leaves: list[Atom] = [*draw.axes, *SYMBOLS]
        values = {a: at(a) for a in leaves}
        values[fresh] = evaluate(chosen.size, at) - 1 - at(chosen)
        assert evaluate(changed, values.__getitem__) == evaluate(ix, at)


@pytest.mark.parametrize("seed", SEEDS)
def test_exact_division(seed):
    draw = Draw(seed)
    den = draw.factor() * draw.factor()
    quotient = draw.polynomial()
    assert divide_exactly(quotient * den, den) == quotient
    other = divide_exactly(draw.polynomial(), den)
    assert other is None or all(evaluate(other * den, at) >= 0 for at in draw.points())


def test_exact_division_by_a_sum():
    s, t = map(atom, SYMBOLS)
    assert divide_exactly(s * t + s, t + 1) == s
    assert divide_exactly(s * s - 1, s + 1) == s - 1
    assert divide_exactly(s * t + 1, t + 1) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_coefficient(seed):
    draw = Draw(seed)
    ix, chosen = draw.polynomial(), draw.random.choice(draw.axes)
    stride = coefficient(ix, chosen)
    rest = substitute(ix, {chosen: ZERO})
    assert stride is not None
    assert rest + stride * atom(chosen) == ix
    assert coefficient(atom(chosen) * atom(chosen), chosen) is None
    assert coefficient(atom(Quotient(atom(chosen), index(7))), chosen) is None


SHAPES = [(), (1,), (6,), (2, 3), (4, 1, 3), (2, 3, 2, 2), (1, 1), (5, 1, 1, 2), (2, 2, 2, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_unflatten_inverts_linearize(shape):
    sizes = tuple(map(index, shape))
    flat = Axis("n", product(sizes))
    coords = unflatten(atom(flat), sizes)
    assert linearize(coords, contiguous_strides(sizes)) in (atom(flat), ZERO)
    for n, expected in enumerate(itertools.product(*map(range, shape))):
        place: dict[Atom, int] = {flat: n}
        assert tuple(evaluate(c, place.__getitem__) for c in coords) == expected


RESHAPES = [
    ((4, 6), (24,)),
    ((24,), (2, 3, 4)),
    ((4, 6), (2, 12)),
    ((2, 3, 4), (6, 4)),
    ((6, 4), (4, 6)),
    ((5, 6), (3, 10)),
]


@pytest.mark.parametrize(("before", "after"), RESHAPES, ids=str)
def test_reshape(before, after):
    """The coordinates that a reshape reads are the ones row-major order says."""
    old, new = tuple(map(index, before)), tuple(map(index, after))
    axes = [Axis(f"i{n}", s) for n, s in enumerate(new)]
    coords = unflatten(linearize(map(atom, axes), contiguous_strides(new)), old)
    positions = itertools.product(*map(range, before))
    for values, expected in zip(itertools.product(*map(range, after)), positions, strict=True):
        place: dict[Atom, int] = dict(zip(axes, values, strict=True))
        assert tuple(evaluate(c, place.__getitem__) for c in coords) == expected


def test_divisions_that_vanish():
    """What a lowering meets all the time must leave no division behind."""
    s0, s1 = SYMBOLS
    i, j = Axis("i", atom(s0)), Axis("j", index(8))
    flat = atom(i) * 8 + atom(j)
    assert (floor_divide(flat, index(8)), modulo(flat, index(8))) == (atom(i), atom(j))
    assert floor_divide(flat, index(4)) == atom(i) * 2 + floor_divide(atom(j), index(4))
    k = Axis("k", atom(s1))
    flat = atom(i) * atom(s1) + atom(k)
    assert (floor_divide(flat, atom(s1)), modulo(flat, atom(s1))) == (atom(i), atom(k))


def test_big_polynomials_stay_cheap():
    total = ZERO
    for n in range(2000):
        total = total + atom(Axis(f"i{n % 20}", index(4))) * n
    assert len(total.terms) == 20
