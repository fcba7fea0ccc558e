"""Special functions as formulas over the scalar table. Both sides of a case are evaluated, the wanted one is selected.

The Chebyshev series of the Bessel functions, the asymptotic series of digamma and the rational functions of ndtri are
those of the Cephes Math Library (Copyright (c) 1984-2018 Stephen L. Moshier, under its 3-clause BSD license), which
ATen uses as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch.fx import Node

from ..values import Scalar, where
from .externs import DATA_LOOP
from .pointwise import pointwise

FLOAT32_FLOOR = 3e-9
"""Leading terms of a series below this are lost in float32."""


def polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Horner's scheme, the highest power first."""
    result = x.body.const(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        result = result * x + c
    return result


def chebyshev(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Clenshaw's scheme, the highest order first; terms that float32 cannot see are left out there."""
    if x.dtype == "float32":
        first = next(i for i, c in enumerate(coefficients) if abs(c) > FLOAT32_FLOOR)
        coefficients = coefficients[first:]
    b0, b1, b2 = x.body.const(coefficients[0], x.dtype), x.body.const(0.0, x.dtype), x.body.const(0.0, x.dtype)
    for c in coefficients[1:]:
        b0, b1, b2 = x * b0 - b1 + c, b0, b1
    return 0.5 * (b0 - b2)


# ---- modified Bessel functions of the first kind ---------------------------------------------------------------------

# exp(-x) I0(x) in [0, 8], and exp(-x) sqrt(x) I0(x) in the inverted interval [8, infinity]
_I0_NEAR = (
    -4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16, 1.71539128555513303061e-15,
    -1.16853328779934516808e-14,
    7.67618549860493561688e-14, -4.85644678311192946090e-13, 2.95505266312963983461e-12, -1.72682629144155570723e-11,
    9.67580903537323691224e-11,
    -5.18979560163526290666e-10, 2.65982372468238665035e-9, -1.30002500998624804212e-8, 6.04699502254191894932e-8,
    -2.67079385394061173391e-7,
    1.11738753912010371815e-6, -4.41673835845875056359e-6, 1.64484480707288970893e-5, -5.75419501008210370398e-5,
    1.88502885095841655729e-4,
    -5.76375574538582365885e-4, 1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
    -2.37374148058994688156e-2,
    4.93052842396707084878e-2, -9.49010970480476444210e-2, 1.71620901522208775349e-1, -3.04682672343198398683e-1,
    6.76795274409476084995e-1,
)  # fmt: skip
_I0_FAR = (
    -7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17, 3.46122286769746109310e-17,
    -2.82762398051658348494e-16,
    -3.42548561967721913462e-16, 1.77256013305652638360e-15, 3.81168066935262242075e-15, -9.55484669882830764870e-15,
    -4.15056934728722208663e-14,
    1.54008621752140982691e-14, 3.85277838274214270114e-13, 7.18012445138366623367e-13, -1.79417853150680611778e-12,
    -1.32158118404477131188e-11,
    -3.14991652796324136454e-11, 1.18891471078464383424e-11, 4.94060238822496958910e-10, 3.39623202570838634515e-9,
    2.26666899049817806459e-8,
    2.04891858946906374183e-7, 2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3,
    8.04490411014108831608e-1,
)  # fmt: skip
# exp(-x) I1(x) / x and exp(-x) sqrt(x) I1(x) in the same intervals
_I1_NEAR = (
    2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16, -1.10559694773538630805e-15,
    7.60068429473540693410e-15,
    -5.04218550472791168711e-14, 3.22379336594557470981e-13, -1.98397439776494371520e-12, 1.17361862988909016308e-11,
    -6.66348972350202774223e-11,
    3.62559028155211703701e-10, -1.88724975172282928790e-9, 9.38153738649577178388e-9, -4.44505912879632808065e-8,
    2.00329475355213526229e-7,
    -8.56872026469545474066e-7, 3.47025130813767847674e-6, -1.32731636560394358279e-5, 4.78156510755005422638e-5,
    -1.61760815825896745588e-4,
    5.12285956168575772895e-4, -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
    2.47264490306265168283e-2,
    -5.29459812080949914269e-2, 1.02643658689847095384e-1, -1.76416518357834055153e-1, 2.52587186443633654823e-1,
)  # fmt: skip
_I1_FAR = (
    7.51729631084210481353e-18, 4.41434832307170791151e-18, -4.65030536848935832153e-17, -3.20952592199342395980e-17,
    2.96262899764595013876e-16,
    3.30820231092092828324e-16, -1.88035477551078244854e-15, -3.81440307243700780478e-15, 1.04202769841288027642e-14,
    4.27244001671195135429e-14,
    -2.10154184277266431302e-14, -4.08355111109219731823e-13, -7.19855177624590851209e-13, 2.03562854414708950722e-12,
    1.41258074366137813316e-11,
    3.25260358301548823856e-11, -1.89749581235054123450e-11, -5.58974346219658380687e-10, -3.83538038596423702205e-9,
    -2.63146884688951950684e-8,
    -2.51223623787020892529e-7, -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
    7.78576235018280120474e-1,
)  # fmt: skip


def _i0e(x: Scalar) -> Scalar:
    size = x.body.call("abs", x)
    far = chebyshev(32.0 / size - 2.0, _I0_FAR) / x.body.call("sqrt", size)
    return where(size <= 8.0, chebyshev(size * 0.5 - 2.0, _I0_NEAR), far)


def i0(x: Scalar) -> Scalar:
    """The modified Bessel function of order zero."""
    size = x.body.call("abs", x)
    growth = x.body.call("exp", size)
    far = growth * chebyshev(32.0 / size - 2.0, _I0_FAR) / x.body.call("sqrt", size)
    return where(size <= 8.0, growth * chebyshev(size * 0.5 - 2.0, _I0_NEAR), far)


def _i1e(x: Scalar) -> Scalar:
    size = x.body.call("abs", x)
    far = chebyshev(32.0 / size - 2.0, _I1_FAR) / x.body.call("sqrt", size)
    return odd(x, where(size <= 8.0, chebyshev(size * 0.5 - 2.0, _I1_NEAR) * size, far))


def i1(x: Scalar) -> Scalar:
    """The modified Bessel function of order one."""
    size = x.body.call("abs", x)
    growth = x.body.call("exp", size)
    far = growth * chebyshev(32.0 / size - 2.0, _I1_FAR) / x.body.call("sqrt", size)
    return odd(x, where(size <= 8.0, growth * size * chebyshev(size * 0.5 - 2.0, _I1_NEAR), far))


def odd(x: Scalar, size: Scalar) -> Scalar:
    """``size`` with its sign changed where ``x`` is negative."""
    return where(x < 0.0, -size, size)


# ---- the gamma function's kin ----------------------------------------------------------------------------------------

_DIGAMMA = (8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3,
            -4.16666666666666666667e-3,
            3.96825396825396825397e-3, -8.33333333333333333333e-3, 8.33333333333333333333e-2)  # fmt: skip


def _pi_over_tan(x: Scalar) -> Scalar:
    """pi / tan(pi * x) by the fraction of x, folded to a quarter turn, where the tangent keeps its digits."""
    call = x.body.call
    turn = x - call("round", x)  # in [-1/2, 1/2], exactly
    size = call("abs", turn)
    folded = where(size > 0.25, call("tan", math.pi * (0.5 - size)), 1.0 / call("tan", math.pi * size))
    return math.pi * odd(turn, folded)


def _digamma(x: Scalar) -> Scalar:
    call = x.body.call
    negative = x < 0.0
    y = where(negative, 1.0 - x, x)
    shift = x.body.const(0.0, x.dtype)
    for _ in range(10):  # the recurrence takes every positive argument to ten and above
        small = y < 10.0
        shift = where(small, shift - 1.0 / y, shift)
        y = where(small, y + 1.0, y)
    square = 1.0 / (y * y)
    series = where(y < 1e17, square * polynomial(square, _DIGAMMA), 0.0)
    positive = shift + call("log", y) - 0.5 / y - series
    pole = call("trunc", x) == x
    reflected = where(pole, x.body.const(math.nan, x.dtype), positive - _pi_over_tan(x))
    at_zero = call("copysign", x.body.const(math.inf, x.dtype), -x)
    return where(x == 0.0, at_zero, where(negative, reflected, positive))


def _trigamma(x: Scalar) -> Scalar:
    low = x < 0.5
    sine = x.body.call("sin", math.pi * x)
    result = where(low, -(math.pi * math.pi) / (sine * sine), 0.0)
    y = where(low, 1.0 - x, x)
    for _ in range(6):
        result = result + 1.0 / (y * y)
        y = y + 1.0
    square = 1.0 / (y * y)
    result = result + (1.0 + 1.0 / (2.0 * y) + square * (1.0 / 6 - square * (1.0 / 30 - square * (1.0 / 42)))) / y
    return where(low, -result, result)


def _polygamma(order: int, x: Scalar) -> Scalar:
    return _digamma(x) if order == 0 else _trigamma(x)


def _refuse_high_order(node: Node) -> str | None:
    order = node.args[0]
    return None if order in (0, 1) else DATA_LOOP


# ---- the error function's kin ----------------------------------------------------------------------------------------


def _erfinv(y: Scalar) -> Scalar:
    """A rational start (as in ATen) and two steps of Newton; far out the residual comes from erfc."""
    call = y.body.call
    size = call("abs", y)
    z = y * y
    near = (
        size
        * polynomial(z, (-0.140543331, 0.914624893, -1.645349621, 0.886226899))
        / polynomial(z, (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0))
    )
    w = call("sqrt", -call("log", (1.0 - size) * 0.5))
    far = polynomial(w, (1.641345311, 3.429567803, -1.624906493, -1.970840454)) / polynomial(
        w, (1.637067800, 3.543889200, 1.0)
    )
    central = size <= 0.7
    x = where(central, near, far)
    for _ in range(2):
        residual = where(central, call("erf", x) - size, (1.0 - size) - call("erfc", x))
        x = x - residual / (2.0 / math.sqrt(math.pi) * call("exp", -x * x))
    edge = where(size == 1.0, x.body.const(math.inf, x.dtype), x)
    return call("copysign", where(size > 1.0, x.body.const(math.nan, x.dtype), edge), y)


_NDTRI_MIDDLE = ((-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1,
                 1.39312609387279679503e1, -1.23916583867381258016e0),
                 (1.0, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1,
                  -2.25462687854119370527e2, 2.00260212380060660359e2,
                  -8.20372256168333339912e1, 1.59056225126211695515e1, -1.18331621121330003142e0))  # fmt: skip
_NDTRI_TAIL = ((4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1,
               4.40805073893200834700e1, 1.46849561928858024014e1,
                2.18663306850790267539e0, -1.40256079171354495875e-1, -3.50424626827848203418e-2,
                -8.57456785154685413611e-4),
               (1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1,
                1.50425385692907503408e1, 2.50464946208309415979e0,
                -1.42182922854787788574e-1, -3.80806407691578277194e-2, -9.33259480895457427372e-4))  # fmt: skip
_NDTRI_FAR = ((3.23774891776946035970e0, 6.91522889068984211695e0, 3.93881025292474443415e0, 1.33303460815807542389e0,
              2.01485389549179081538e-1,
               1.23716634817820021358e-2, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
               6.23974539184983293730e-9),
              (1.0, 6.02427039364742014255e0, 3.67983563856160859403e0, 1.37702099489081330271e0,
               2.16236993594496635890e-1, 1.34204006088543189037e-2,
               3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9))  # fmt: skip


def _rational(x: Scalar, parts: tuple[Sequence[float], Sequence[float]]) -> Scalar:
    return polynomial(x, parts[0]) / polynomial(x, parts[1])


def _ndtri(p: Scalar) -> Scalar:
    call, limit = p.body.call, 0.13533528323661269189  # exp(-2)
    upper = p > 1.0 - limit
    y = where(upper, 1.0 - p, p)
    centred = y - 0.5
    square = centred * centred
    middle = (centred + centred * (square * _rational(square, _NDTRI_MIDDLE))) * math.sqrt(2 * math.pi)
    x = call("sqrt", -2.0 * call("log", y))
    z = 1.0 / x
    tail = x - call("log", x) / x - z * where(x < 8.0, _rational(z, _NDTRI_TAIL), _rational(z, _NDTRI_FAR))
    inside = where(y > limit, middle, where(upper, tail, -tail))
    infinity = p.body.const(math.inf, p.dtype)
    outside = where((p < 0.0) | (p > 1.0), p.body.const(math.nan, p.dtype), inside)
    return where(p == 0.0, -infinity, where(p == 1.0, infinity, outside))


_ERFCX_TERMS = 12


def _erfcx(x: Scalar) -> Scalar:
    """exp(x**2) erfc(x), with what the square loses put back by fma; far out, where erfc leaves the range of the type,
    by its asymptotic series in 1 / (2 x**2)."""
    call = x.body.call
    square = x * x
    lost = where(square < math.inf, call("fma", x, x, -square), 0.0)
    near = call("exp", square) * (1.0 + lost) * call("erfc", x)
    terms = [1.0]
    for n in range(1, _ERFCX_TERMS):
        terms.append(-terms[-1] * (2 * n - 1))
    far = polynomial(0.5 / square, terms[::-1]) / (math.sqrt(math.pi) * x)
    return where(x > (8.0 if x.dtype == "float32" else 24.0), far, near)


def _ndtr(x: Scalar) -> Scalar:
    return 0.5 * x.body.call("erfc", x * -math.sqrt(0.5))


def _sinc(x: Scalar) -> Scalar:
    product = math.pi * x
    return where(x == 0.0, x.body.const(1.0, x.dtype), x.body.call("sin", product) / product)


pointwise("aten.i0 aten.special_modified_bessel_i0 prims.bessel_i0", i0, cost=120)
pointwise("aten.special_i0e prims.bessel_i0e", _i0e, cost=110)
pointwise("aten.special_i1 aten.special_modified_bessel_i1 prims.bessel_i1", i1, cost=120)
pointwise("aten.special_i1e prims.bessel_i1e", _i1e, cost=110)
pointwise("aten.digamma prims.digamma", _digamma, cost=120)
pointwise("aten.polygamma", _polygamma, raw="n", cost=120, refuse=_refuse_high_order)
pointwise("aten.erfinv prims.erf_inv", _erfinv, cost=160)
pointwise("aten.special_ndtri prims.ndtri", _ndtri, cost=160)
pointwise("aten.special_ndtr", _ndtr, cost=40)
pointwise("aten.special_erfcx prims.erfcx", _erfcx, cost=60)
pointwise("aten.sinc", _sinc, cost=40)
