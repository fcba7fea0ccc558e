"""Complex numbers: the scalar functions over pairs of real values, and the ops that make and take apart such pairs.

Sums, products and quotients are those of c10::complex, to which ATen's loops come down: no recovery of infinities from
NaN in a product, Smith's method scaled by the larger part of the divisor in a quotient. The elementary functions are
the C standard's (annex G): the textbook formula, and what to say of zeros, infinities and NaN in its place. For
complex64 they are computed in float64, where nothing overflows on the way and no cancellation reaches float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from torch.fx import Node

from .. import graph
from ..index import ONE, ZERO
from ..values import PAIRED, Pair, Scalar, coordinate, where
from .pointwise import angle, pointwise, sign
from .reads import read
from .table import Coords, Scope

Formula = Callable[..., Scalar]


def _paired(*names: str) -> Callable[[Formula], Formula]:
    """Register a formula over pairs for the scalar functions ``names``."""

    def register(formula: Formula) -> Formula:
        PAIRED.update(dict.fromkeys(names, formula))
        return formula

    return register


def _wide(formula: Formula) -> Formula:
    """``formula`` in float64 also for complex64."""

    @functools.wraps(formula)
    def widened(*args: Scalar) -> Scalar:
        return formula(*(a.to("complex128") for a in args)).to(args[0].dtype)

    return widened


# ---- arithmetic ------------------------------------------------------------------------------------------------------


@_paired("add")
def _add(x: Pair, y: Pair) -> Pair:
    return Pair(*(a + b for a, b in zip(x.parts, y.parts, strict=True)))


@_paired("sub")
def _sub(x: Pair, y: Pair) -> Pair:
    return Pair(*(a - b for a, b in zip(x.parts, y.parts, strict=True)))


@_paired("neg")
def _neg(x: Pair) -> Pair:
    return Pair(*(0 - part for part in x.parts))  # as ATen's vectors do: no negative zero


@_paired("mul")
def multiply(x: Pair, y: Pair) -> Pair:
    """The product as C programs write it."""
    (a, b), (c, d) = x.parts, y.parts
    return Pair(a * c - b * d, a * d + b * c)


@_paired("div")
def divide(x: Pair, y: Pair) -> Pair:
    """Smith's quotient; by zero, each part by the absolute zero."""
    call = x.body.call
    (a, b), (c, d) = x.parts, y.parts
    size_c, size_d = call("abs", c), call("abs", d)
    first = size_c >= size_d
    ratio = where(first, d, c) / where(first, c, d)
    scale = 1 / (where(first, c, d) + where(first, d, c) * ratio)
    re = (where(first, a, b) + where(first, b, a) * ratio) * scale
    im = where(first, b - a * ratio, b * ratio - a) * scale
    zero = (size_c == 0) & (size_d == 0)
    return Pair(where(zero, a / size_c, re), where(zero, b / size_d, im))


@_paired("eq")
def _eq(x: Pair, y: Pair) -> Scalar:
    return (x.parts[0] == y.parts[0]) & (x.parts[1] == y.parts[1])


@_paired("ne")
def _ne(x: Pair, y: Pair) -> Scalar:
    return (x.parts[0] != y.parts[0]) | (x.parts[1] != y.parts[1])


@_paired("where")
def _where(condition: Scalar, x: Pair, y: Pair) -> Pair:
    return Pair(*(where(condition, a, b) for a, b in zip(x.parts, y.parts, strict=True)))


@_paired("abs")
def size(x: Pair) -> Scalar:
    """The absolute value, a real one."""
    return x.body.call("hypot", *x.parts)


def _argument(x: Pair) -> Scalar:
    return x.body.call("atan2", x.parts[1], x.parts[0])


def _times(x: Pair, factor: Scalar | float) -> Pair:
    return Pair(*(part * factor for part in x.parts))


def _swapped(x: Scalar) -> Pair:
    """i times the conjugate: between this and itself, an odd hyperbolic function is the trigonometric one."""
    re, im = x.parts
    return Pair(im, re)


def _conjugate(x: Scalar) -> Scalar:
    return Pair(x.parts[0], -x.parts[1]) if isinstance(x, Pair) else x


def _like(x: Scalar, value: float) -> Scalar:
    return x.body.const(value, x.dtype)


def _is_finite(x: Scalar) -> Scalar:
    return x.body.call("abs", x) < math.inf


def _is_infinite(x: Scalar) -> Scalar:
    return x.body.call("abs", x) == math.inf


def _signed(value: Scalar | float, sign: Scalar) -> Scalar:
    return sign.body.call("copysign", value if isinstance(value, Scalar) else _like(sign, value), sign)


# ---- exponentials and logarithms -------------------------------------------------------------------------------------

_LARGE = 709.0
"""Where the exponential of a float64 is about to overflow, though a small sine may bring the product back."""

_HUGE, _TINY = 2.0**500, 2.0**-500
"""Beyond these, squares of float64 leave its range."""


@_paired("exp")
@_wide
def exponential(x: Pair) -> Pair:
    """exp(a) (cos b + i sin b)."""
    call = x.body.call
    a, b = x.parts
    large = a > _LARGE
    growth = call("exp", where(large, a * 0.5, a))
    again = where(large, growth, 1.0)
    re, im = growth * call("cos", b) * again, growth * call("sin", b) * again
    lost = ~_is_finite(b)
    falls, rises = a == -math.inf, a == math.inf
    re = where(lost & falls, 0.0, where(lost & rises, a, re))
    return Pair(re, where(b == 0, b, where(lost & falls, _signed(0.0, b), im)))


@_paired("exp2")
def _exp2(x: Pair) -> Scalar:
    return exponential(_times(x, math.log(2)))


@_paired("expm1")
@_wide
def _expm1(x: Pair) -> Scalar:
    """As c10's: exp(a) cos b - 1 without cancellation."""
    call = x.body.call
    a, b = x.parts
    half = call("sin", b / 2)
    return Pair(call("expm1", a) * call("cos", b) - 2 * half * half, call("exp", a) * call("sin", b))


def _log_size(x: Pair) -> Scalar:
    """log |x|; near one from |x|**2 - 1, with all that its products and sums lose added up again."""
    call = x.body.call
    a, b = x.parts
    high, low = (call(extreme, call("abs", a), call("abs", b)) for extreme in ("fmax", "fmin"))
    square, small = high * high, low * low
    lost = call("fma", high, high, -square) + call("fma", low, low, -small)
    difference = square - 1
    lost = lost + (square - (difference + 1))
    total = difference + small
    kept = total - difference
    lost = lost + ((difference - (total - kept)) + (small - kept))
    near = 0.5 * call("log1p", total + lost)
    # far from one a power of two keeps the squares in range
    power = where(high > _HUGE, _like(high, -600), where(high < _TINY, _like(high, 600), _like(high, 0)))
    scale = call("exp2", power)
    far = call("log", call("hypot", a * scale, b * scale)) - power * math.log(2)
    return where((a * a + b * b >= 0.5) & (a * a + b * b <= 2.0), near, far)


@_paired("log")
@_wide
def logarithm(x: Pair) -> Pair:
    """log |x| + i arg x."""
    return Pair(_log_size(x), _argument(x))


@_paired("log2")
def _log2(x: Pair) -> Scalar:
    return Pair(*(part / math.log(2) for part in logarithm(x).parts))


@_paired("log10")
def _log10(x: Pair) -> Scalar:
    return Pair(*(part / math.log(10) for part in logarithm(x).parts))


@_paired("log1p")
@_wide
def _log1p(x: Pair) -> Scalar:
    """As c10's: log(1 + x), corrected by what the sum lost."""
    a, b = x.parts
    raised, held = Pair(a + 1, b), Pair(a + 1 - 1, b)
    log = logarithm(raised)
    return where(raised == 1, x, where(held == x, log, log * (x / held)))


@_paired("pow")
@_wide
def _pow(x: Pair, y: Pair) -> Scalar:
    """exp(y log x)."""
    return exponential(multiply(y, logarithm(x)))


# ---- roots -----------------------------------------------------------------------------------------------------------


@_paired("sqrt")
@_wide
def root(x: Pair) -> Pair:
    """The root with a real part of zero or more, by the half of |x| + |a|, which does not cancel."""
    call = x.body.call
    a, b = x.parts
    biggest = call("fmax", call("abs", a), call("abs", b))
    power = where(biggest > _HUGE, _like(a, -600), where(biggest < _TINY, _like(a, 600), _like(a, 0)))
    c, d = a * call("exp2", power), b * call("exp2", power)
    half = call("sqrt", 0.5 * (call("hypot", c, d) + call("abs", c)))
    other = where(half == 0, 0.0, call("abs", d) / (2.0 * half))
    back, left = call("exp2", power * -0.5), a < 0
    re, im = where(left, other, half) * back, _signed(where(left, half, other) * back, b)
    rest = b - b  # zero, or NaN
    re = where(a == math.inf, a, where(a == -math.inf, rest, re))
    im = where(a == math.inf, _signed(rest, b), where(a == -math.inf, _signed(math.inf, b), im))
    up = _is_infinite(b)
    return Pair(where(up, math.inf, re), where(up, b, im))


@_paired("rsqrt")
def _rsqrt(x: Pair) -> Scalar:
    return 1 / root(x)


# ---- hyperbolic and trigonometric functions --------------------------------------------------------------------------


def _sinh_cosh(a: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """sinh a and cosh a, each to be multiplied by a third number at the end, so that nothing overflows before."""
    call = a.body.call
    distance = call("abs", a)
    large = distance > _LARGE
    half = call("exp", distance * 0.5)
    sinh = where(large, _signed(0.5 * half, a), call("sinh", a))
    return sinh, where(large, 0.5 * half, call("cosh", a)), where(large, half, 1.0)


@_paired("sinh")
@_wide
def hyperbolic_sine(x: Pair) -> Pair:
    """sinh a cos b + i cosh a sin b."""
    call = x.body.call
    a, b = x.parts
    sinh, cosh, again = _sinh_cosh(a)
    re = sinh * call("cos", b) * again
    lost = ~_is_finite(b)
    re = where(lost & (a == 0), a, where(lost & _is_infinite(a), math.inf, re))
    return Pair(re, where(b == 0, b, cosh * call("sin", b) * again))


@_paired("cosh")
@_wide
def hyperbolic_cosine(x: Pair) -> Pair:
    """cosh a cos b + i sinh a sin b."""
    call = x.body.call
    a, b = x.parts
    sinh, cosh, again = _sinh_cosh(a)
    lost = ~_is_finite(b)
    re = where(lost & _is_infinite(a), math.inf, cosh * call("cos", b) * again)
    im = where(lost & (a == 0), 0.0, sinh * call("sin", b) * again)
    return Pair(re, where(b == 0, b * _signed(1.0, a), im))


_FLAT = 22.0
"""Where tanh is one in float64."""


@_paired("tanh")
@_wide
def hyperbolic_tangent(x: Pair) -> Pair:
    """(sinh a cosh a + i sin b cos b) / (sinh**2 a + cos**2 b)."""
    call = x.body.call
    a, b = x.parts
    sinh, cosh, sine, cosine = call("sinh", a), call("cosh", a), call("sin", b), call("cos", b)
    below, far = sinh * sinh + cosine * cosine, call("abs", a) > _FLAT
    lost = ~_is_finite(b)
    re = where(far & ~(lost & _is_finite(a)), _signed(1.0, a), sinh * cosh / below)
    im = sine * cosine * where(far, 4.0 * call("exp", -2.0 * call("abs", a)), 1.0 / below)
    im = where(lost & _is_infinite(a), _signed(0.0, b), im)
    return Pair(where(lost & (a == 0), a, re), where(b == 0, b, im))


@_paired("sin")
def _sin(x: Pair) -> Scalar:
    return _swapped(hyperbolic_sine(_swapped(x)))


@_paired("cos")
def _cos(x: Pair) -> Scalar:
    return hyperbolic_cosine(Pair(-x.parts[1], x.parts[0]))


@_paired("tan")
def _tan(x: Pair) -> Scalar:
    return _swapped(hyperbolic_tangent(_swapped(x)))


# ---- their inverses, by Kahan's formulas ("Branch Cuts for Complex Elementary Functions", 1987) ----------------------


def _roots(x: Pair) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """The parts of the roots of 1 - x and 1 + x; infinities are the caller's."""
    a, b = x.parts
    return root(Pair(1.0 - a, -b)).parts, root(Pair(1.0 + a, b)).parts


def _corner(x: Pair) -> Scalar:
    """The angle of an infinite ``x`` from the imaginary axis, in [-pi/2, pi/2]."""
    boxed = [where(p == p, where(_is_infinite(p), _signed(1.0, p), _signed(0.0, p)), p) for p in x.parts]
    return x.body.call("atan2", boxed[0], x.body.call("abs", boxed[1]))


def _any_infinite(x: Pair) -> Scalar:
    return _is_infinite(x.parts[0]) | _is_infinite(x.parts[1])


@_paired("asin")
@_wide
def arc_sine(x: Pair) -> Pair:
    """From the roots of 1 - x and 1 + x, between which nothing cancels."""
    call = x.body.call
    a, b = x.parts
    (c, d), (e, f) = _roots(x)
    re, im = call("atan2", a, c * e - d * f), call("asinh", c * f - d * e)
    infinite = _any_infinite(x)
    return Pair(where(infinite, _corner(x), where(a == 0, a, re)), _signed(where(infinite, math.inf, im), b))


@_paired("acos")
@_wide
def arc_cosine(x: Pair) -> Pair:
    """From the same roots."""
    call = x.body.call
    a, b = x.parts
    (c, d), (e, f) = _roots(x)
    re, im = 2.0 * call("atan2", c, e), call("asinh", e * d - f * c)
    infinite = _any_infinite(x)
    re = where(infinite, math.pi / 2 - _corner(x), where(a == 0, math.pi / 2, re))
    return Pair(re, _signed(where(infinite, math.inf, im), -b))


@_paired("atanh")
@_wide
def arc_tangent(x: Pair) -> Pair:
    """log1p(4 a / |1 - x|**2) / 4 and half the angle of 1 - |x|**2 + 2 b i, for a of zero or more."""
    call = x.body.call
    a, b = x.parts
    size_a = call("abs", a)
    rest = 1.0 - size_a
    scale = call("fmax", call("abs", rest), call("abs", b))
    u, v = rest / scale, b / scale
    growth = 0.25 * call("log1p", 4.0 * (size_a / scale) / scale / (u * u + v * v))
    growth = where(a == 0, 0.0, where((scale == 0) & (a == a) & (b == b), math.inf, growth))
    turn = 0.5 * call("atan2", 2.0 * b, rest * (1.0 + size_a) - b * b)
    infinite = _any_infinite(x)
    quarter = where((a == a) & (b == b) | _is_infinite(b), _like(a, math.pi / 2), _like(a, math.nan))
    return Pair(_signed(where(infinite, 0.0, growth), a), where(infinite, _signed(quarter, b), turn))


@_paired("acosh")
def _acosh(x: Pair) -> Scalar:
    re, im = arc_cosine(x).parts
    return Pair(x.body.call("abs", im), _signed(re, x.parts[1]))


@_paired("asinh")
def _asinh(x: Pair) -> Scalar:
    return _swapped(arc_sine(_swapped(x)))


@_paired("atan")
def _atan(x: Pair) -> Scalar:
    return _swapped(arc_tangent(_swapped(x)))


# ---- the rows --------------------------------------------------------------------------------------------------------


def _sgn(x: Scalar) -> Scalar:
    if not isinstance(x, Pair):
        return sign(x)
    length = size(x)
    return Pair(*(where(length == 0, 0, part / length) for part in x.parts))


def _polar(length: Scalar, turn: Scalar) -> Scalar:
    return Pair(length * length.body.call("cos", turn), length * length.body.call("sin", turn))


def _view_as_real(scope: Scope, node: Node, coords: Coords) -> Scalar:
    re, im = scope.read(node.args[0], coords[:-1]).parts
    if coords[-1].constant is not None:
        return (re, im)[coords[-1].constant]
    return where(coordinate(scope.body, coords[-1]) == 0, re, im)


def _view_as_complex(scope: Scope, node: Node, coords: Coords) -> Scalar:
    return Pair(*(scope.read(node.args[0], (*coords, part)) for part in (ZERO, ONE)))


def _dims_of(node: Node, argument: Node) -> tuple[int | None, ...]:
    """Both ops keep the dimensions that they share."""
    shared = min(len(graph.shape(node)), len(graph.shape(argument)))
    return (*range(shared), *[None] * (len(graph.shape(argument)) - shared))


pointwise("aten.sgn", _sgn, cost=24)
pointwise("aten.angle", lambda x: _argument(x) if isinstance(x, Pair) else angle(x), cost=24)
pointwise("aten.conj_physical aten._conj_physical prims.conj_physical", _conjugate)
pointwise("aten.complex.default", Pair, raw="real imag")
pointwise("aten.polar.default", _polar, raw="abs angle", cost=48)
pointwise("prims.real", lambda x: x.parts[0])
pointwise("prims.imag", lambda x: x.parts[1])
for _names, _lower, _once in (
    ("aten.view_as_real.default", _view_as_real, False),
    ("aten.view_as_complex.default", _view_as_complex, True),
):
    read(_names, _lower, once=_once, aligned=lambda n: {n.args[0]: _dims_of(n, n.args[0])})
