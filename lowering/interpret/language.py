"""The kernel language over NumPy arrays: each name as ``runtime/kernel_language.py`` defines it for a device.

Nothing is promoted: float32 stays float32. Functions of OpenCL's library are computed in float64 and rounded, which is
within half a step of exact where a device's may be four steps off; all other operations give the device's bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]

FLOATS = (np.dtype("float32"), np.dtype("float64"))
INTEGERS = tuple(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))
BOOL = np.dtype(bool)
LOGICAL = (*INTEGERS, BOOL)


class TypeMismatch(TypeError):
    """Operand types that an operation of the language does not take."""


def one_type(name: str, args: tuple[Array, ...], allowed: tuple[np.dtype[Any], ...]) -> np.dtype[Any]:
    """The one type that all operands have."""
    first = args[0].dtype
    if first not in allowed or any(a.dtype != first for a in args):
        raise TypeMismatch(f"{name}({', '.join(str(a.dtype) for a in args)}) is not in the kernel language")
    return first


FUNCTIONS: dict[str, Function] = {}
"""Every function that computes one work-item's value from its own values. ``sdiv`` and ``srem`` by zero are the
machine's to refuse."""


def _define(name: str, allowed: tuple[np.dtype[Any], ...], function: Function, result: str | None = None) -> None:
    def checked(*args: Array) -> Array:
        dtype = one_type(name, args, allowed)
        return np.asarray(function(*args)).astype(result or dtype, copy=False)

    FUNCTIONS[name] = checked


# ---- mathematical functions ------------------------------------------------------------------------------------------


def _of_torch(name: str) -> Function:
    function = getattr(torch, name)
    return lambda x: function(torch.from_numpy(np.ascontiguousarray(x))).numpy().reshape(x.shape)


def _elementwise(function: Callable[..., float]) -> Function:
    """A function of the standard library element by element, by C's rules where Python raises."""

    def one(*args: float) -> float:
        try:
            return function(*args)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return np.vectorize(one, otypes=[np.float64])


def _round_away(x: Array) -> Array:
    return np.where(np.abs(x) < 2.0**52, np.copysign(np.floor(np.abs(x) + 0.5), x), x)


_LIBRARY: dict[str, Function] = {
    **{n: getattr(np, n) for n in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt")},
    **{n: getattr(np, n) for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "rint")},
    **{n: getattr(np, n.replace("a", "arc", 1)) for n in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    **{n: _of_torch(n) for n in ("erf", "erfc", "lgamma")},
    "exp10": lambda x: np.power(10.0, x),
    "logb": lambda x: np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.frexp(x)[1] - 1.0)),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sinpi": lambda x: np.sin(np.pi * np.remainder(x, 2.0)),
    "tgamma": _elementwise(math.gamma),
    "round": _round_away,
    "fabs": np.abs,
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "remainder": _elementwise(math.remainder),
    "fma": lambda a, b, c: a * b + c,  # exact products of float32; one rounding too many in float64
}


def _in_double(function: Function) -> Function:
    return lambda *args: function(*(a.astype(np.float64) for a in args))


for _name, _function in _LIBRARY.items():
    _define(_name, FLOATS, _in_double(_function))
_define("nextafter", FLOATS, np.nextafter)
_define("isnan", FLOATS, np.isnan, "bool")
_define("isinf", FLOATS, np.isinf, "bool")


# ---- integers --------------------------------------------------------------------------------------------------------


def truncated_quotient(a: Array, b: Array) -> Array:
    """a / b towards zero; zero where ``b`` is."""
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe)
    if a.dtype.kind == "i":
        quotient = quotient + ((np.remainder(a, safe) != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.where(b == 0, np.zeros_like(quotient), quotient)


def _shift(function: Function, filled: Function) -> Function:
    """A shift by at least the width has no defined result: ``filled`` stands in."""

    def shifted(a: Array, by: Array) -> Array:
        width = a.dtype.itemsize * 8
        inside = (by >= 0) & (by < width)
        return np.where(inside, function(a, np.where(inside, by, np.zeros_like(by))), filled(a))

    return shifted


_define("sdiv", INTEGERS, truncated_quotient)
_define("srem", INTEGERS, lambda a, b: a - truncated_quotient(a, b) * b)
_define("shl", INTEGERS, _shift(np.left_shift, np.zeros_like))
_define("shr", INTEGERS, _shift(np.right_shift, lambda a: np.where(a < 0, ~np.zeros_like(a), np.zeros_like(a))))
for _name, _function in (("iadd", np.add), ("isub", np.subtract), ("imul", np.multiply)):
    _define(_name, INTEGERS, _function)
for _name, _function in (("iand", np.bitwise_and), ("ior", np.bitwise_or), ("ixor", np.bitwise_xor)):
    _define(_name, LOGICAL, _function)
_define("inot", LOGICAL, np.invert)
_define("ineg", INTEGERS, lambda a: np.zeros_like(a) - a)


def _select(condition: Array, a: Array, b: Array) -> Array:
    one_type("select", (condition,), (BOOL,))
    one_type("select", (a, b), (*FLOATS, *LOGICAL))
    return np.where(condition, a, b)


FUNCTIONS["select"] = _select


# ---- casts -----------------------------------------------------------------------------------------------------------


def _float_to_signed(x: Array, bits: int) -> Array:
    """Towards zero; out of range and NaN give the lowest integer."""
    limit = 2.0 ** (bits - 1)
    inside = (x >= -limit) & (x < limit)
    lowest = np.array(-(2 ** (bits - 1)), f"int{bits}")
    return np.where(inside, np.where(inside, x, 0).astype(f"int{bits}"), lowest)


def _float_to_uint64(x: Array) -> Array:
    big = x >= 2.0**63
    high = _float_to_signed(x - x.dtype.type(2.0**63), 64).view(np.uint64) ^ np.uint64(2**63)
    return np.where(big, high, _float_to_signed(x, 64).view(np.uint64))


def cast(x: Array, target: np.dtype[Any]) -> Array:
    """``x`` converted as ``cast_<target>`` does."""
    if target == BOOL:
        return x != 0
    if x.dtype not in FLOATS or target in FLOATS:
        return x.astype(target)
    if target == np.dtype("uint64"):
        return _float_to_uint64(x)
    return _float_to_signed(x, 64 if target.name in ("int64", "uint8", "uint32") else 32).astype(target)


_CASTS: tuple[np.dtype[Any], ...] = (*FLOATS, *LOGICAL)
FUNCTIONS |= {f"cast_{t.name}": functools.partial(cast, target=t) for t in _CASTS}


def _define_fixed(name: str, source: str, function: Function, result: str) -> None:
    _define(name, (np.dtype(source),), function, result)


def _bf16_to_f32(x: Array) -> Array:
    return (x.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _f32_to_bf16(x: Array) -> Array:
    bits = x.view(np.uint32)
    rounded = (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FC0), rounded)


def _f32_to_f16(x: Array) -> Array:
    sign = (x.view(np.uint32) >> np.uint32(16)) & np.uint32(0x8000)
    return np.where(np.isnan(x), sign | np.uint32(0x7E00), x.astype(np.float16).view(np.uint16))


_define_fixed("bitcast_f32_u32", "float32", lambda x: x.view(np.uint32), "uint32")
_define_fixed("bitcast_u32_f32", "uint32", lambda x: x.view(np.float32), "float32")
_define_fixed("bitcast_f64_u64", "float64", lambda x: x.view(np.uint64), "uint64")
_define_fixed("bitcast_u64_f64", "uint64", lambda x: x.view(np.float64), "float64")
_define_fixed("bf16_to_f32", "uint16", _bf16_to_f32, "float32")
_define_fixed("f32_to_bf16", "float32", _f32_to_bf16, "uint16")
_define_fixed("f16_to_f32", "uint16", lambda x: x.view(np.float16).astype(np.float32), "float32")
_define_fixed("f32_to_f16", "float32", _f32_to_f16, "uint16")


# ---- work-group operations: over arrays of (groups, lanes) -----------------------------------------------------------


def _reduced(function: np.ufunc) -> Function:
    return lambda x: np.broadcast_to(function.reduce(x, axis=1, keepdims=True), x.shape)


def _exclusive_sum(x: Array) -> Array:
    return np.concatenate([np.zeros_like(x[:, :1]), np.add.accumulate(x, axis=1)[:, :-1]], axis=1)


GROUP_TYPES = (*FLOATS, *(np.dtype(t) for t in ("int32", "int64", "uint32", "uint64")))

GROUP_FUNCTIONS: dict[str, Function] = {
    "group_add": _reduced(np.add),
    "group_max": _reduced(np.fmax),  # SPIR-V's pass over NaN
    "group_min": _reduced(np.fmin),
    "group_max_nan": _reduced(np.maximum),
    "group_min_nan": _reduced(np.minimum),
    "group_scan_inclusive_add": lambda x: np.add.accumulate(x, axis=1),
    "group_scan_inclusive_max": lambda x: np.fmax.accumulate(x, axis=1),
    "group_scan_inclusive_min": lambda x: np.fmin.accumulate(x, axis=1),
    "group_scan_exclusive_add": _exclusive_sum,
}
"""Each gives every work-item of a group the result; the order of float sums is a device's own choice."""
