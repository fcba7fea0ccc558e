"""Index algebra: integer polynomials over axes and size symbols, with exact division and remainder.

An index is a sum of integer multiples of products of atoms. Atoms are axes of the iteration space (0 <= axis < size),
size symbols known only at run time, quotients and remainders that did not simplify, and data-dependent values. Keeping
indexes as polynomials makes the two questions that a lowering asks cheap: "which stride has this axis here?" and "does
this division vanish?". Sympy would answer them too, at a cost per node that a graph of ten thousand nodes cannot bear.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping


@dataclasses.dataclass(frozen=True)
class Axis:
    """A loop of the iteration space: 0 <= axis < size."""

    name: str
    size: Index

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Symbol:
    """An integer known at run time on the host, at least ``low``. ``text`` is a Python expression over other symbols,
    or None when the symbol is itself an input of the graph."""

    name: str
    low: int = 0
    text: str | None = None

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Quotient:
    """floor(num / den) for den >= 1, which did not simplify."""

    num: Index
    den: Index

    def __str__(self) -> str:
        return f"(({self.num}) // ({self.den}))"


@dataclasses.dataclass(frozen=True)
class Remainder:
    """num mod den for den >= 1, which did not simplify."""

    num: Index
    den: Index

    def __str__(self) -> str:
        return f"(({self.num}) % ({self.den}))"


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A data-dependent index: the value ``value`` of the group, already checked to lie in [0, size)."""

    value: int
    size: Index

    def __hash__(self) -> int:
        return hash((Loaded, self.value))

    def __str__(self) -> str:
        return f"v{self.value}"


Atom = Axis | Symbol | Quotient | Remainder | Loaded
Monomial = tuple[Atom, ...]


class Index:
    """An immutable integer polynomial. Compares and hashes by its terms."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: dict[Monomial, int] = {m: c for m, c in terms.items() if c}
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __add__(self, other: Index | int) -> Index:
        terms = dict(self.terms)
        for m, c in index(other).terms.items():
            terms[m] = terms.get(m, 0) + c
        return Index(terms)

    def __mul__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index({m: c * other for m, c in self.terms.items()})
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                product = tuple(sorted(m + n, key=str)) if m and n else m or n
                terms[product] = terms.get(product, 0) + c * d
        return Index(terms)

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | int) -> Index:
        return self + index(other) * -1

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Index | int) -> Index:
        return index(other) - self

    def __str__(self) -> str:
        return render(self, str)

    def __repr__(self) -> str:
        return f"Index({self})"

    @property
    def constant(self) -> int | None:
        """The value, when no atom is left; else None."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 and () in self.terms else None

    @property
    def atoms(self) -> set[Atom]:
        """Atoms at the top of the polynomial (not those inside quotients and remainders)."""
        return {a for m in self.terms for a in m}

    def leaves(self) -> set[Atom]:
        """Axes, symbols and loaded values anywhere in the index."""
        found: set[Atom] = set()
        for atom in self.atoms:
            if isinstance(atom, (Quotient, Remainder)):
                found |= atom.num.leaves() | atom.den.leaves()
            else:
                found.add(atom)
        return found


ZERO = Index({})
ONE = Index({(): 1})


@functools.lru_cache(maxsize=4096)
def _constant(value: int) -> Index:
    return Index({(): value})


def index(value: Index | int) -> Index:
    """``value`` as an Index."""
    return value if isinstance(value, Index) else _constant(int(value))


def atom(a: Atom) -> Index:
    """The polynomial that is just ``a``."""
    return Index({(a,): 1})


def product(values: Iterable[Index | int]) -> Index:
    """The product of ``values``; one when there are none."""
    return functools.reduce(lambda a, b: a * b, map(index, values), ONE)


def divide_exactly(num: Index, den: Index) -> Index | None:
    """num / den when den is a single term dividing every term of num, else None."""
    if num == den:
        return ONE
    if not den.terms:
        return None
    if len(den.terms) != 1:
        return _divide_polynomial(num, den)
    ((monomial, coefficient),) = den.terms.items()
    out = {}
    for m, c in num.terms.items():
        rest = _without(m, monomial)
        if rest is None or c % coefficient:
            return None
        out[rest] = c // coefficient
    return Index(out)


def _divide_polynomial(num: Index, den: Index) -> Index | None:
    """Long division by a polynomial of several terms, when it leaves no rest and each step uses the leading terms."""
    lead, coefficient = max(den.terms.items(), key=lambda t: (len(t[0]), str(t[0])))
    quotient, rest = ZERO, num
    for _ in range(len(num.terms) + 1):
        if not rest.terms:
            return quotient
        m, c = max(rest.terms.items(), key=lambda t: (len(t[0]), str(t[0])))
        over = _without(m, lead)
        if over is None or c % coefficient:
            return None
        step = Index({over: c // coefficient})
        quotient, rest = quotient + step, rest - step * den
    return None


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for a in factor:
        if a not in rest:
            return None
        rest.remove(a)
    return tuple(rest)


def upper_bound(ix: Index) -> Index | None:
    """A bound that ``ix`` never exceeds, over size symbols only; None when none is known."""
    total = ZERO
    for m, c in ix.terms.items():
        bound = index(c)
        for a in m:
            largest = _largest(a)
            if largest is None:
                return None
            bound = bound * largest
        if c < 0 and any(not isinstance(a, Symbol) for a in m):
            continue  # a negative multiple of something that may be zero is at most zero
        total = total + bound
    return total


def _largest(a: Atom) -> Index | None:
    if isinstance(a, (Axis, Loaded)):
        return a.size - 1
    if isinstance(a, Remainder):
        return a.den - 1
    if isinstance(a, Symbol):
        return atom(a)
    bound = upper_bound(a.num)
    if bound is None:
        return None
    top, divisor = bound.constant, a.den.constant
    return index(top // divisor) if top is not None and divisor else bound


def is_nonnegative(ix: Index) -> bool:
    """Whether ``ix`` >= 0 is certain, given that axes, quotients and symbols lie at or above their lower bounds.

    Size symbols are shifted to their lower bound (at least one: an empty iteration space evaluates no index), so that
    a polynomial with only non-negative coefficients is proof.
    """
    shifted = ix
    for a in ix.atoms:
        if isinstance(a, Symbol):
            if a.low < 0:
                return False
            shifted = substitute(shifted, {a: atom(a) + max(a.low, 1)})
    return all(c >= 0 for c in shifted.terms.values())


def is_below(ix: Index, limit: Index) -> bool:
    """Whether 0 <= ix < limit is certain."""
    if not is_nonnegative(ix):
        return False
    bound = upper_bound(ix)
    return bound is not None and is_nonnegative(limit - 1 - bound)


def _split(num: Index, den: Index) -> tuple[Index, Index]:
    """num = whole * den + rest, with in ``whole`` every term that den divides."""
    whole, rest = ZERO, {}
    for m, c in num.terms.items():
        term = Index({m: c})
        exact = divide_exactly(term, den)
        if exact is None and den.constant and abs(c) > den.constant:
            steps = c // den.constant
            whole, rest[m] = whole + Index({m: steps}), c - steps * den.constant
        elif exact is None:
            rest[m] = c
        else:
            whole = whole + exact
    return whole, Index(rest)


@functools.lru_cache(maxsize=65536)
def floor_divide(num: Index, den: Index) -> Index:
    """floor(num / den) for num >= 0, den >= 1, simplified as far as ranges allow."""
    if den == ONE:
        return num
    exact = divide_exactly(num, den)
    if exact is not None:
        return exact
    if num.constant is not None and den.constant:
        return index(num.constant // den.constant)
    whole, rest = _split(num, den)
    if is_below(rest, den):
        return whole
    factored = _factor(rest, den)
    if factored is not None:
        return whole + floor_divide(factored[1], factored[2])
    if len(rest.terms) == 1:
        ((m, c),) = rest.terms.items()
        if c == 1 and len(m) == 1 and isinstance(m[0], Quotient):  # (x // a) // b
            return whole + floor_divide(m[0].num, m[0].den * den)
    return whole + atom(Quotient(rest, den))


@functools.lru_cache(maxsize=65536)
def modulo(num: Index, den: Index) -> Index:
    """num mod den for num >= 0, den >= 1, simplified as far as ranges allow."""
    if den == ONE or divide_exactly(num, den) is not None:
        return ZERO
    if num.constant is not None and den.constant:
        return index(num.constant % den.constant)
    _, rest = _split(num, den)
    if is_below(rest, den):
        return rest
    factored = _factor(rest, den)
    if factored is not None:
        step, whole, left, low = factored
        return step * modulo(whole, left) + low
    return atom(Remainder(rest, den))


def _factor(num: Index, den: Index) -> tuple[Index, Index, Index, Index] | None:
    """(f, w, e, r) with num = f*w + r, den = f*e and r certainly in [0, f), for some f > 1 among num's strides.

    Then num // den is w // e, and num % den is f * (w % e) + r.
    """
    for m, c in num.terms.items():
        for stride in (Index({tuple(a for a in m if isinstance(a, Symbol)): abs(c)}), index(abs(c))):
            left = divide_exactly(den, stride) if stride != ONE else None
            if left is None or left == ONE:
                continue
            whole, low = _split(num, stride)
            if is_below(low, stride):
                return stride, whole, left, low
    return None


def recombine(ix: Index) -> Index:
    """Undo splits: k*d*(n // d) + k*(n % d) is k*n, and k*d*((n // d) % e) + k*(n % d) is k*(n % (d*e))."""
    for m, c in list(ix.terms.items()):
        for a in m:
            if not isinstance(a, Remainder):
                continue
            others = Index({_without(m, (a,)) or (): c})
            slow = atom(Quotient(a.num, a.den))
            for whole, part in ((slow, a.num), *_remainders_of(slow, a, ix)):
                pair = others * a.den * whole
                if pair.terms and all(ix.terms.get(k) == v for k, v in pair.terms.items()):
                    return recombine(ix - pair - others * atom(a) + others * part)
    return ix


def _remainders_of(slow: Index, fast: Remainder, ix: Index) -> list[tuple[Index, Index]]:
    """(slow % e, n % (d*e)) for every remainder of ``slow`` in ``ix``, where ``fast`` is n % d."""
    found = (b for b in ix.atoms if isinstance(b, Remainder) and b.num == slow)
    return [(atom(b), modulo(fast.num, fast.den * b.den)) for b in found]


def substitute(ix: Index, values: Mapping[Atom, Index]) -> Index:
    """``ix`` with atoms replaced, also inside quotients and remainders, which are simplified anew."""
    total = ZERO
    for m, c in ix.terms.items():
        term = index(c)
        for a in m:
            if a in values:
                term = term * values[a]
            elif isinstance(a, Quotient):
                term = term * floor_divide(substitute(a.num, values), substitute(a.den, values))
            elif isinstance(a, Remainder):
                term = term * modulo(substitute(a.num, values), substitute(a.den, values))
            else:
                term = term * atom(a)
        total = total + term
    return total


def coefficient(ix: Index, a: Atom) -> Index | None:
    """The stride of ``a`` in ``ix`` when ``ix`` is linear in it, else None."""
    total = ZERO
    for m, c in ix.terms.items():
        count = m.count(a)
        if count > 1 or any(isinstance(b, (Quotient, Remainder)) and a in b.num.leaves() for b in m):
            return None
        if count:
            total = total + Index({_without(m, (a,)) or (): c})
    return total


def linearize(coords: Iterable[Index], strides: Iterable[Index]) -> Index:
    """The address offset of ``coords`` in a layout of ``strides``, in elements."""
    total = ZERO
    for c, s in zip(coords, strides, strict=True):
        total = total + c * s
    return recombine(total)


def contiguous_strides(shape: Iterable[Index]) -> tuple[Index, ...]:
    """Row-major strides of ``shape``."""
    strides: list[Index] = []
    step = ONE
    for size in reversed(list(shape)):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def unflatten(flat: Index, shape: tuple[Index, ...]) -> tuple[Index, ...]:
    """The coordinates in ``shape`` of the row-major position ``flat``; zeros where there are no positions."""
    if ZERO in shape:
        return (ZERO,) * len(shape)
    coords = []
    for i, stride in enumerate(contiguous_strides(shape)):
        quotient = floor_divide(flat, stride)
        coords.append(quotient if i == 0 else modulo(quotient, shape[i]))
    return tuple(ZERO if s == ONE else c for c, s in zip(coords, shape, strict=True))


def kernel_text(ix: Index, symbols: dict[Symbol, str], values: Mapping[int, str]) -> str:
    """``ix`` as kernel text. ``symbols`` names size symbols, and takes those that are new to it; ``values`` has the
    text of data-dependent ones."""

    def name(a: Atom) -> str:
        if isinstance(a, Axis):
            return a.name
        if isinstance(a, Symbol):
            return symbols.setdefault(a, f"n{len(symbols)}")
        if isinstance(a, Loaded):
            return values[a.value]
        function = "sdiv" if isinstance(a, Quotient) else "srem"
        num, den = (kernel_text(part, symbols, values) for part in (a.num, a.den))
        return f"{function}(np.int64({num}), np.int64({den}))"

    return render(ix, name)


def render(ix: Index, name: Callable[[Atom], str]) -> str:
    """``ix`` as a Python expression; ``name`` renders atoms."""
    parts = []
    for m, c in sorted(ix.terms.items(), key=lambda t: (-len(t[0]), str([str(a) for a in t[0]]))):
        factors = [name(a) for a in m]
        if c != 1 or not factors:
            factors.append(str(c))
        parts.append("*".join(factors))
    return " + ".join(parts) if parts else "0"
