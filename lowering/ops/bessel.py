"""Bessel functions of the first and second kind, modified ones of the second, spherical ones and Airy's, as formulas.

The intervals and the coefficients of the rational functions and Chebyshev series are those of the Cephes Math Library
(Copyright (c) 1984-2018 Stephen L. Moshier, under its 3-clause BSD license), which ATen uses as well. Where Cephes
leaves out a denominator's leading coefficient because it is one, ATen takes the next for the first, which is off by
up to some 1e-7 of the value; so do these, as numbers are eager's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from ..values import Scalar, where
from .pointwise import pointwise
from .special import chebyshev, i0, i1, odd, polynomial

# ---- first and second kind -------------------------------------------------------------------------------------------

# modulus and phase of order zero and one, in (5 / x)**2
_P0_P = (
    7.96936729297347051624e-4, 8.28352392107440799803e-2, 1.23953371646414299388, 5.44725003058768775090,
    8.74716500199817011941, 5.30324038235394892183, 9.99999999999999997821e-1,
)  # fmt: skip
_P0_Q = (
    9.24408810558863637013e-4, 8.56288474354474431428e-2, 1.25352743901058953537, 5.47097740330417105182,
    8.76190883237069594232, 5.30605288235394617618, 1.00000000000000000218,
)  # fmt: skip
_Q0_P = (
    -1.13663838898469149931e-2, -1.28252718670509318512, -1.95539544257735972385e1, -9.32060152123768231369e1,
    -1.77681167980488050595e2, -1.47077505154951170175e2, -5.14105326766599330220e1, -6.05014350600728481186,
)  # fmt: skip
_Q0_Q = (
    6.43178256118178023184e1, 8.56430025976980587198e2, 3.88240183605401609683e3, 7.24046774195652478189e3,
    5.93072701187316984827e3, 2.06209331660327847417e3, 2.42005740240291393179e2,
)  # fmt: skip
_P1_P = (
    7.62125616208173112003e-4, 7.31397056940917570436e-2, 1.12719608129684925192, 5.11207951146807644818,
    8.42404590141772420927, 5.21451598682361504063, 1.00000000000000000254,
)  # fmt: skip
_P1_Q = (
    5.71323128072548699714e-4, 6.88455908754495404082e-2, 1.10514232634061696926, 5.07386386128601488557,
    8.39985554327604159757, 5.20982848682361821619, 9.99999999999999997461e-1,
)  # fmt: skip
_Q1_P = (
    5.10862594750176621635e-2, 4.98213872951233449420, 7.58238284132545283818e1, 3.66779609360150777800e2,
    7.10856304998926107277e2, 5.97489612400613639965e2, 2.11688757100572135698e2, 2.52070205858023719784e1,
)  # fmt: skip
_Q1_Q = (
    7.42373277035675149943e1, 1.05644886038262816351e3, 4.98641058337653607651e3, 9.56231892404756170795e3,
    7.99704160447350683650e3, 2.82619278517639096600e3, 3.36093607810698293419e2,
)  # fmt: skip
# between the zeros of J0 and J1 below five, and of Y0 and Y1 without their logarithms, in x**2
_J0_P = (
    -4.79443220978201773821e9, 1.95617491946556577543e12, -2.49248344360967716204e14,
    9.70862251047306323952e15,
)  # fmt: skip
_J0_Q = (
    4.99563147152651017219e2, 1.73785401676374683123e5, 4.84409658339962045305e7, 1.11855537045356834862e10,
    2.11277520115489217587e12, 3.10518229857422583814e14, 3.18121955943204943306e16, 1.71086294081043136091e18,
)  # fmt: skip
_J1_P = (
    -8.99971225705559398224e8, 4.52228297998194034323e11, -7.27494245221818276015e13,
    3.68295732863852883286e15,
)  # fmt: skip
_J1_Q = (
    6.20836478118054335476e2, 2.56987256757748830383e5, 8.35146791431949253037e7, 2.21511595479792499675e10,
    4.74914122079991414898e12, 7.84369607876235854894e14, 8.95222336184627338078e16, 5.32278620332680085395e18,
)  # fmt: skip
_Y0_P = (
    1.55924367855235737965e4, -1.46639295903971606143e7, 5.43526477051876500413e9, -9.82136065717911466409e11,
    8.75906394395366999549e13, -3.46628303384729719441e15, 4.42733268572569800351e16,
    -1.84950800436986690637e16,
)  # fmt: skip
_Y0_Q = (
    1.04128353664259848412e3, 6.26107330137134956842e5, 2.68919633393814121987e8, 8.64002487103935000337e10,
    2.02979612750105546709e13, 3.17157752842975028269e15, 2.50596256172653059228e17,
)  # fmt: skip
_Y1_P = (
    1.26320474790178026440e9, -6.47355876379160291031e11, 1.14509511541823727583e14,
    -8.12770255501325109621e15, 2.02439475713594898196e17, -7.78877196265950026825e17,
)  # fmt: skip
_Y1_Q = (
    5.94301592346128195359e2, 2.35564092943068577943e5, 7.34811944459721705660e7, 1.87601316108706159478e10,
    3.88231277496238566008e12, 6.20557727146953693363e14, 6.87141087355300489866e16, 3.97270608116560655612e18,
)  # fmt: skip


Rational = tuple[Sequence[float], Sequence[float]]

_ZEROS = ((5.78318596294678452118, 3.04712623436620863991e1), (1.46819706421238932572e1, 4.92184563216946036703e1))
"""Squares of the zeros of J0 and J1 below ten."""


def _ratio(x: Scalar, parts: Rational) -> Scalar:
    return polynomial(x, parts[0]) / polynomial(x, parts[1])


_MODULUS, _PHASE = ((_P0_P, _P0_Q), (_P1_P, _P1_Q)), ((_Q0_P, _Q0_Q), (_Q1_P, _Q1_Q))


def _far(x: Scalar, order: int) -> tuple[Scalar, Scalar]:
    """J and Y of ``order`` for ``x`` above five, by modulus and phase."""
    call = x.body.call
    inverse = 5.0 / x
    square = inverse * inverse
    modulus, phase = _ratio(square, _MODULUS[order]), inverse * _ratio(square, _PHASE[order])
    angle = x - (math.pi / 4 if order == 0 else 3 * math.pi / 4)
    sine, cosine = call("sin", angle), call("cos", angle)
    scale = math.sqrt(2 / math.pi) / call("sqrt", x)
    return (modulus * cosine - phase * sine) * scale, (modulus * sine + phase * cosine) * scale


def _near(x: Scalar, order: int) -> Scalar:
    """J of ``order`` for ``x`` in [0, 5], between its zeros."""
    square = x * x
    between = (square - _ZEROS[order][0]) * (square - _ZEROS[order][1])
    return between * _ratio(square, (_J0_P, _J0_Q)) if order == 0 else x * between * _ratio(square, (_J1_P, _J1_Q))


def _j0(x: Scalar) -> Scalar:
    size = x.body.call("abs", x)
    near = where(size < 1e-5, 1.0 - size * size * 0.25, _near(size, 0))
    return where(size <= 5.0, near, _far(size, 0)[0])


def _j1(x: Scalar) -> Scalar:
    size = x.body.call("abs", x)
    return odd(x, where(size <= 5.0, _near(size, 1), _far(size, 1)[0]))


def _of_positive(x: Scalar, at_zero: float, value: Scalar) -> Scalar:
    """``value``, NaN for negative ``x``, and the pole at zero."""
    negative = where(x < 0.0, x.body.const(math.nan, x.dtype), value)
    return where(x == 0.0, x.body.const(at_zero, x.dtype), negative)


def _y0(x: Scalar) -> Scalar:
    near = _ratio(x * x, (_Y0_P, _Y0_Q)) + 2 / math.pi * x.body.call("log", x) * _j0(x)
    return _of_positive(x, -math.inf, where(x <= 5.0, near, _far(x, 0)[1]))


def _y1(x: Scalar) -> Scalar:
    near = x * _ratio(x * x, (_Y1_P, _Y1_Q)) + 2 / math.pi * (_j1(x) * x.body.call("log", x) - 1.0 / x)
    return _of_positive(x, -math.inf, where(x <= 5.0, near, _far(x, 1)[1]))


def _spherical_j0(x: Scalar) -> Scalar:
    """sin(x) / x, by its Taylor series near zero."""
    square = x * x
    near = polynomial(square, [(-1) ** n / math.factorial(2 * n + 1) for n in range(6, -1, -1)])
    size = x.body.call("abs", x)
    return where(size == math.inf, 0.0, where(size < 0.5, near, x.body.call("sin", x) / x))


# ---- modified, second kind -------------------------------------------------------------------------------------------

# K0(x) + log(x / 2) I0(x) and x (K1(x) - log(x / 2) I1(x)) in x**2 - 2 up to two, exp(x) sqrt(x) K(x) in 8 / x - 2
# above
_K0_NEAR = (
    1.37446543561352307156e-16, 4.25981614279661018399e-14, 1.03496952576338420167e-11,
    1.90451637722020886025e-9, 2.53479107902614945675e-7, 2.28621210311945178607e-5, 1.26461541144692592338e-3,
    3.59799365153615016266e-2, 3.44289899924628486886e-1, -5.35327393233902768720e-1,
)  # fmt: skip
_K0_FAR = (
    5.30043377268626276149e-18, -1.64758043015242134646e-17, 5.21039150503902756861e-17,
    -1.67823109680541210385e-16, 5.51205597852431940784e-16, -1.84859337734377901440e-15,
    6.34007647740507060557e-15, -2.22751332699166985548e-14, 8.03289077536357521100e-14,
    -2.98009692317273043925e-13, 1.14034058820847496303e-12, -4.51459788337394416547e-12,
    1.85594911495471785253e-11, -7.95748924447710747776e-11, 3.57739728140030116597e-10,
    -1.69753450938905987466e-9, 8.57403401741422608519e-9, -4.66048989768794782956e-8,
    2.76681363944501510342e-7, -1.83175552271911948767e-6, 1.39498137188764993662e-5,
    -1.28495495816278026384e-4, 1.56988388573005337491e-3, -3.14481013119645005427e-2, 2.44030308206595545468,
)  # fmt: skip
_K1_NEAR = (
    -7.02386347938628759343e-18, -2.42744985051936593393e-15, -6.66690169419932900609e-13,
    -1.41148839263352776110e-10, -2.21338763073472585583e-8, -2.43340614156596823496e-6,
    -1.73028895751305206302e-4, -6.97572385963986435018e-3, -1.22611180822657148235e-1,
    -3.53155960776544875667e-1, 1.52530022733894777053,
)  # fmt: skip
_K1_FAR = (
    -5.75674448366501715755e-18, 1.79405087314755922667e-17, -5.68946255844285935196e-17,
    1.83809354436663880070e-16, -6.05704724837331885336e-16, 2.03870316562433424052e-15,
    -7.01983709041831346144e-15, 2.47715442448130437068e-14, -8.97670518232499435011e-14,
    3.34841966607842919884e-13, -1.28917396095102890680e-12, 5.13963967348173025100e-12,
    -2.12996783842756842877e-11, 9.21831518760500529508e-11, -4.19035475934189648750e-10,
    2.01504975519703286596e-9, -1.03457624656780970260e-8, 5.74108412545004946722e-8,
    -3.50196060308781257119e-7, 2.40648494783721712015e-6, -1.93619797416608296024e-5,
    1.95215518471351631108e-4, -2.85781685962277938680e-3, 1.03923736576817238437e-1, 2.72062619048444266945,
)  # fmt: skip


def _k_near(x: Scalar, order: int) -> Scalar:
    """K of ``order`` for ``x`` up to two, by its logarithm and a series."""
    log, square = x.body.call("log", 0.5 * x), x * x - 2.0
    return chebyshev(square, _K0_NEAR) - log * i0(x) if order == 0 else log * i1(x) + chebyshev(square, _K1_NEAR) / x


def _modified(order: int, scaled: bool, x: Scalar) -> Scalar:
    """K of ``order``, or exp(x) times that."""
    decay = x.body.call("exp", -x)
    far = chebyshev(8.0 / x - 2.0, _K0_FAR if order == 0 else _K1_FAR) / x.body.call("sqrt", x)
    near = _k_near(x, order)
    near, far = (near * x.body.call("exp", x), far) if scaled else (near, decay * far)
    return _of_positive(x, math.inf, where(x <= 2.0, near, far))


# ---- Airy's function -------------------------------------------------------------------------------------------------

# Ai in 1 / zeta far to the right, modulus and phase in 1 / zeta**2 far to the left
_AI_P = (
    3.46538101525629032477e-1, 1.20075952739645805542e1, 7.62796053615234516538e1, 1.68089224934630576269e2,
    1.59756391350164413639e2, 7.05360906840444183113e1, 1.40264691163389668864e1, 9.99999999999999995305e-1,
)  # fmt: skip
_AI_Q = (
    5.67594532638770212846e-1, 1.47562562584847203173e1, 8.45138970141474626562e1, 1.77318088145400459522e2,
    1.64234692871529701831e2, 7.14778400825575695274e1, 1.40959135607834029598e1, 1.00000000000000000470,
)  # fmt: skip
_AI_SINE_P = (
    -1.31696323418331795333e-1, -6.26456544431912369773e-1, -6.93158036036933542233e-1,
    -2.79779981545119124951e-1, -4.91900132609500318020e-2, -4.06265923594885404393e-3,
    -1.59276496239262096340e-4, -2.77649108155232920844e-6, -1.67787698489114633780e-8,
)  # fmt: skip
_AI_SINE_Q = (
    1.33560420706553243746e1, 3.26825032795224613948e1, 2.67367040941499554804e1, 9.18707402907259625840,
    1.47529146771666414581, 1.15687173795188044134e-1, 4.40291641615211203805e-3, 7.54720348287414296618e-5,
    4.51850092970580378464e-7,
)  # fmt: skip
_AI_COSINE_P = (
    1.97339932091685679179e-2, 3.91103029615688277255e-1, 1.06579897599595591108, 9.39169229816650230044e-1,
    3.51465656105547619242e-1, 6.33888919628925490927e-2, 5.85804113048388458567e-3, 2.82851600836737019778e-4,
    6.98793669997260967291e-6, 8.11789239554389293311e-8, 3.41551784765923618484e-10,
)  # fmt: skip
_AI_COSINE_Q = (
    9.30892908077441974853, 1.98352928718312140417e1, 1.55646628932864612953e1, 5.47686069422975497931,
    9.54293611618961883998e-1, 8.64580826352392193095e-2, 4.12656523824222607191e-3, 1.01259085116509135510e-4,
    1.17166733214413521882e-6, 4.91834570062930015649e-9,
)  # fmt: skip


_AI_TERMS = 14
"""Of Maclaurin's series, so that none is left that float64 could see below the switch at 2.09."""

_AI_AT_ZERO, _AI_SLOPE = 0.355028053887817239260, 0.258819403792806798405


def _airy_series(x: Scalar) -> Scalar:
    """Ai(0) f(x) + Ai'(0) g(x), whose terms in x**3 are ratios of factorials."""
    f, g = [1.0], [1.0]
    for n in range(1, _AI_TERMS):
        f.append(f[-1] / ((3 * n - 1) * 3 * n))
        g.append(g[-1] / (3 * n * (3 * n + 1)))
    cube = x * x * x
    return _AI_AT_ZERO * polynomial(cube, f[::-1]) - _AI_SLOPE * (x * polynomial(cube, g[::-1]))


def _airy_ai(x: Scalar) -> Scalar:
    call = x.body.call
    size = call("abs", x)
    root = call("sqrt", size)
    zeta = 2.0 * size * root / 3.0
    inverse = 1.0 / zeta
    scale = 1 / math.sqrt(math.pi) / call("sqrt", root)
    right = scale * _ratio(inverse, (_AI_P, _AI_Q)) / (2.0 * call("exp", zeta))
    square = inverse * inverse
    sine = 1.0 + square * _ratio(square, (_AI_SINE_P, _AI_SINE_Q))
    cosine = inverse * _ratio(square, (_AI_COSINE_P, _AI_COSINE_Q))
    angle = zeta + math.pi / 4
    left = scale * (call("sin", angle) * sine - call("cos", angle) * cosine)
    value = where(x < -2.09, left, where(x >= 2.09, right, _airy_series(x)))
    value = where(x > 103.892, 0.0, value)
    return where(size == math.inf, x.body.const(math.nan, x.dtype), value)


pointwise("aten.special_bessel_j0 prims.bessel_j0", _j0, cost=160)
pointwise("aten.special_bessel_j1 prims.bessel_j1", _j1, cost=160)
pointwise("aten.special_bessel_y0", _y0, cost=240)
pointwise("aten.special_bessel_y1", _y1, cost=240)
pointwise("aten.special_spherical_bessel_j0 prims.spherical_bessel_j0", _spherical_j0, cost=60)
for _order in (0, 1):
    for _scaled, _name in ((False, "modified_bessel_k"), (True, "scaled_modified_bessel_k")):
        pointwise(f"aten.special_{_name}{_order}", functools.partial(_modified, _order, _scaled), cost=260)
pointwise("aten.special_airy_ai", _airy_ai, cost=200)
