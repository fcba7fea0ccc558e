"""Inductor's pointwise operations by the rows of this project's op table."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._inductor.codegen.common import OpOverrides, pointwise_overrides_data
from torch._inductor.virtualized import V
from torch.utils._sympy.value_ranges import ValueRanges

from aten_backend.loop_level.values import Value, labelled, operand, promoted
from lowering.dtypes import compute_name, is_float
from lowering.ops.pointwise import Formula, formula
from lowering.values import Scalar, where

_SAME = (
    *("abs", "exp", "exp2", "expm1", "sqrt", "rsqrt", "relu", "sin", "cos", "tan", "asin", "acos", "atan", "sinh"),
    *("cosh", "tanh", "asinh", "acosh", "atanh", "lgamma", "erf", "erfc", "log", "log2", "log10", "log1p", "sigmoid"),
    *("signbit", "isinf", "isnan", "round", "floor", "ceil", "trunc", "sign", "neg", "reciprocal", "square"),
    *("logical_not", "logical_and", "logical_or", "logical_xor", "bitwise_not", "bitwise_and", "bitwise_or"),
    *("bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "eq", "ne", "lt", "gt", "le", "ge", "add", "sub"),
    *("mul", "remainder", "fmod", "minimum", "maximum", "atan2", "copysign", "hypot", "nextafter"),
)
_RENAMED = {
    "and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "floordiv": "floor_divide", "truediv": "div", "mod": "fmod",
}  # fmt: skip
"""Inductor's names for ATen's operations, where they differ."""

_COMPARES = frozenset(
    ("eq", "ne", "lt", "gt", "le", "ge", "isinf", "isnan", "signbit")
    + ("logical_and", "logical_or", "logical_xor", "logical_not")
)
"""Operations whose result is a bool: they see what a tensor of their operands' type holds."""

_DIVIDES = frozenset(("floordiv", "mod", "remainder", "fmod"))
"""Integer operations in which eager raises for a zero."""

OVERLOADS = ("Tensor", "default", "Tensor_Tensor", "self")


def row_formula(name: str) -> Formula | None:
    """The formula of the ATen operation ``name`` over tensors, if the op table has one."""
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return None
    overloads = [getattr(packet, o) for o in OVERLOADS if o in packet.overloads()]
    return next((f for f in map(formula, overloads) if f is not None), None)


def special_formulas() -> dict[str, Formula | None]:
    """Inductor's special functions, each with the op table's formula, or None where it has none."""
    return {name: row_formula(data.name) for name, data in pointwise_overrides_data.items()}


class Overrides(OpOverrides):
    """What Inductor's loop bodies call, as statements of the group under construction. Every method returns Values."""

    @staticmethod
    def constant(value: bool | float | int, dtype: torch.dtype) -> Value:
        """A literal."""
        return Value(V.kernel.body.const(value, compute_name(dtype)), dtype)

    @staticmethod
    def to_dtype(
        x: Value, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> Value:
        """``x`` converted; to an integer or bool from what a tensor of its type holds."""
        scalar = x.scalar if dtype.is_floating_point else x.exact()
        return Value(scalar.to(compute_name(dtype)), dtype)

    @staticmethod
    def identity(value: Value) -> Value:
        """``value``."""
        return value

    @staticmethod
    def where(a: Value, b: Any, c: Any) -> Value:
        """``b`` where ``a`` holds, else ``c``."""
        dtype = promoted([b, c]) if isinstance(b, Value) or isinstance(c, Value) else torch.float32
        body = V.kernel.body
        return labelled(where(a.exact().to("bool"), operand(body, b, dtype), operand(body, c, dtype)), dtype)

    @staticmethod
    def masked(mask: Value, body: Callable[[], Any], other: Any) -> Value:
        """``body()`` where ``mask`` holds, in which nothing is read or checked elsewhere; ``other`` elsewhere."""
        with V.kernel.under(mask.exact().to("bool")):
            result = body()
        result = getattr(result, "value", result)
        dtype = result.torch_dtype
        scalar = where(mask.exact().to("bool"), result.scalar, operand(V.kernel.body, other, dtype))
        return Value(scalar, dtype, result.bounds | _bounds(other))

    @staticmethod
    def index_expr(expr: sympy.Expr, dtype: torch.dtype) -> Value:
        """An index as a value."""
        return Value(V.kernel.reader.scalar(expr).to(compute_name(dtype)), dtype)

    value_expr = index_expr

    def indirect_indexing(self, var: Value, size: Any, check: bool = True, wrap_neg: bool = True) -> sympy.Symbol:
        """A symbol for the index ``var``; what is outside of ``size`` is reported after the kernel."""
        return V.kernel.loaded_index(var, size, check)

    @staticmethod
    def pow(a: Any, b: Any) -> Value:
        """``a`` to the power ``b``."""
        power = row_formula("pow")
        assert power is not None
        return _apply("pow", power, a, b)

    @staticmethod
    def truncdiv(a: Any, b: Any) -> Value:
        """The quotient of integers, cut off."""
        divide = formula(torch.ops.aten.div.Tensor_mode)
        assert divide is not None
        return _apply("mod", functools.partial(divide, rounding_mode="trunc"), a, b)

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Value:
        """The quotient of integers as a float64."""
        return Overrides.truediv(Overrides.to_dtype(a, torch.float64), Overrides.to_dtype(b, torch.float64))

    @staticmethod
    def fma(x: Value, y: Value, z: Value) -> Value:
        """``x * y + z``, rounded once."""
        fused = formula(torch.ops.prims.fma.default)
        assert fused is not None
        return _apply("fma", fused, x, y, z)


def _bounds(other: Any) -> Any:
    if isinstance(other, Value):
        return other.bounds
    return ValueRanges.wrap(other) if other == other else ValueRanges.unknown()


def _apply(name: str, of: Formula, *args: Any) -> Value:
    """One operation: its operands promoted, its formula written out."""
    dtype = promoted(list(args))
    body, compares = V.kernel.body, name in _COMPARES
    scalars: list[Scalar] = [operand(body, a, dtype, exact=compares) for a in args]
    if name in _DIVIDES and not is_float(scalars[0].dtype):
        scalars[1] = V.kernel.nonzero(scalars[1])
    return labelled(of(*scalars), dtype)


def _define(name: str, of: Formula) -> None:
    setattr(Overrides, name, staticmethod(functools.partial(_apply, name, of)))


for _name in (*_SAME, *_RENAMED):
    _formula = row_formula(_RENAMED.get(_name, _name))
    assert _formula is not None, _name
    _define(_name, _formula)
for _name, _special in special_formulas().items():
    if _special is not None:
        _define(_name, _special)
