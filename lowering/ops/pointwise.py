"""Pointwise ops: the formula of each, over values that are already promoted and broadcast."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch._functorch.partitioners  # defines prims.fma, which Dynamo puts into graphs of addcmul_ and addcdiv_
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.fx import Node

from .. import graph
from ..dtypes import compute_name, is_lowered
from ..faults import DIVISION
from ..index import ONE
from ..values import Scalar, apply, as_stored, where
from .table import TABLE, Coords, Kind, Row, Scope, register

Formula = Callable[..., Scalar]

COMPLEX_PRODUCT = "a running product of complex numbers mixes their parts, which kernels combine each for itself"


class Compute(enum.Enum):
    """The type in which a formula is evaluated."""

    RESULT = "result"  # the result's compute type
    OPERANDS = "operands"  # the promoted type of the operands: comparisons and predicates


@dataclasses.dataclass(frozen=True)
class _Pointwise:
    formula: Formula
    compute: Compute
    raw: tuple[str, ...]  # arguments that keep their own type, such as conditions
    divides: bool = False  # by its second operand, where a zero raises if they are integers

    def __call__(self, scope: Scope, node: Node, coords: Coords) -> Scalar:
        arguments = [(n, v) for n, v in graph.bound_arguments(node) if n not in _IGNORED]
        promoted = self._compute_type(node, arguments)
        target = compute_name(promoted)
        operands = []
        for name, value in arguments:
            operand = scope.operand(value, coords, len(coords))
            if isinstance(operand, Scalar) and name not in self.raw:
                operand = operand.to(target)
            elif isinstance(operand, (bool, int, float, complex)) and name not in self.raw:
                operand = scope.body.const(operand, target)
            if self.compute is Compute.OPERANDS and name not in self.raw and isinstance(operand, Scalar):
                operand = as_stored(operand, promoted)
            operands.append(operand)
        if self.divides and not operands[0].is_float:
            operands[1] = nonzero(scope, operands[1])
        return self.formula(*operands).to(compute_name(graph.dtype(node)))

    def _compute_type(self, node: Node, arguments: list[tuple[str, Any]]) -> torch.dtype:
        values = [graph.value_of(v) if isinstance(v, Node) else v for n, v in arguments if n not in self.raw]
        result = graph.dtype(node)
        from_complex = any(isinstance(v, torch.Tensor) and v.is_complex() for v in values)
        if self.compute is Compute.RESULT and (result.is_complex or not from_complex):
            return result
        kinds = (torch.Tensor, bool, int, float, complex, torch.SymInt, torch.SymFloat)
        numbers = [v for v in values if isinstance(v, kinds)]
        _, promoted = elementwise_dtypes(*numbers, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
        return promoted


_IGNORED = frozenset(
    {"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "generator", "a_dtype"}
)


def refuse_dtypes(node: Node) -> str | None:
    """A reason where a tensor has an element type that kernels do not take, or is not a plain strided one."""
    for n in (node, *node.all_input_nodes):
        val = graph.value_of(n)
        for tensor in val if isinstance(val, (tuple, list)) else (val,):
            if not isinstance(tensor, torch.Tensor):
                continue
            if tensor.layout is not torch.strided:
                return f"{str(tensor.layout).removeprefix('torch.')} tensors are left to ATen"
            if tensor.dtype == torch.complex32:
                return "complex32 is left to ATen, which rounds every step of it to halves"
            if not is_lowered(tensor.dtype):
                return f"{str(tensor.dtype).removeprefix('torch.')} is left to ATen"
    return None


def refuse_complex_product(node: Node) -> str | None:
    """A reason where complex numbers would be multiplied up: reductions combine each part for itself."""
    return COMPLEX_PRODUCT if graph.dtype(node).is_complex else None


def pointwise(
    names: str,
    formula: Formula,
    compute: Compute = Compute.RESULT,
    raw: str = "",
    cost: int = 1,
    refuse: Callable[[Node], str | None] | None = None,
    divides: bool = False,
) -> None:
    """Rows for the space-separated op ``names``."""

    def refuse_all(node: Node) -> str | None:
        return refuse_dtypes(node) or (refuse(node) if refuse else None)

    register(
        names.split(),
        Row(Kind.POINTWISE, _Pointwise(formula, compute, tuple(raw.split()), divides), refuse=refuse_all, cost=cost),
    )


# ---- formulas longer than a line -------------------------------------------------------------------------------------


def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1."""
    if x.dtype == "bool":
        return x
    one, zero = x.body.const(1, x.dtype), x.body.const(0, x.dtype)
    positive = where(x > 0, one, zero)
    return positive if x.dtype.startswith("u") else where(x < 0, x.body.const(-1, x.dtype), positive)


def _integers_pass(fn: str) -> Formula:
    return lambda x: x.body.call(fn, x) if x.is_float else x


def _add(x: Scalar, y: Scalar, alpha: Scalar | None = None) -> Scalar:
    return x + (y if alpha is None else y * alpha)


def _sub(x: Scalar, y: Scalar, alpha: Scalar | None = None) -> Scalar:
    return x - (y if alpha is None else y * alpha)


def _floor_divide(x: Scalar, y: Scalar) -> Scalar:
    call = x.body.call
    if not x.is_float:
        q, r = _quotient(x, y), _rest(x, y)
        return q if x.dtype.startswith("u") else where((r != 0) & ((r < 0) ^ (y < 0)), q - 1, q)
    # c10::div_floor_floating: the quotient of x - fmod(x, y), which is exact, nudged to the nearest integer
    mod = call("fmod", x, y)
    div = (x - mod) / y
    div = where((mod != 0) & ((y < 0) ^ (mod < 0)), div - 1, div)
    floor = call("floor", div)
    floor = where(div - floor > 0.5, floor + 1, floor)
    zero = call("copysign", x.body.const(0, x.dtype), x / y)
    return where(y == 0, x / y, where(div == 0, zero, floor))


def _div_mode(x: Scalar, y: Scalar, rounding_mode: str | None = None) -> Scalar:
    if rounding_mode == "floor":
        return _floor_divide(x, y)
    if rounding_mode == "trunc":
        return x.body.call("trunc", x / y) if x.is_float else _quotient(x, y)
    return x / y


def _remainder(x: Scalar, y: Scalar) -> Scalar:
    mod = _fmod(x, y)
    return mod if x.dtype.startswith("u") else where((mod != 0) & ((y < 0) ^ (mod < 0)), mod + y, mod)


def _fmod(x: Scalar, y: Scalar) -> Scalar:
    return x.body.call("fmod", x, y) if x.is_float else _rest(x, y)


def _pow(x: Scalar, y: Scalar) -> Scalar:
    """x to a tensor's power. A constant one that eager computes by the general function may still be multiplied out."""
    if not x.is_float:
        return _power_of_tensor(x, y) if y.literal is None else _integer_power(x, int(y.literal.real))
    return x * x if y.literal == 2 else x.body.call("pow", x, y)


def _pow_scalar(x: Scalar, y: Scalar) -> Scalar:
    """x to a number's power; the special cases are eager's, and differ from the general function at infinities."""
    exponent = y.literal
    if exponent in (0, 1):
        return x if exponent == 1 else x.body.const(1, x.dtype)
    if exponent == 2:
        return x * x
    if exponent == 3:
        return x * x * x
    if not x.is_float:
        return _integer_power(x, int(exponent))  # type: ignore[arg-type]
    if exponent == 0.5:
        return x.body.call("sqrt", x)
    if exponent == -0.5:
        return 1 / x.body.call("sqrt", x)
    if exponent == -1:
        return 1 / x
    if exponent == -2:
        return 1 / (x * x)
    return x.body.call("pow", x, y)


def _power_of_tensor(x: Scalar, y: Scalar) -> Scalar:
    """An integer to an integer power, by squaring; a negative one is that of the reciprocal, cut off to an integer."""
    call, bits, signed = x.body.call, int(x.dtype.lstrip("uint")), not x.dtype.startswith("u")
    result, square = x.body.const(1, x.dtype), x
    for bit in range(bits - signed):
        result = where(call("and", call("shr", y, bit), 1) != 0, result * square, result)
        square = square * square
    if not signed:
        return result
    unit = where(x == -1, where(call("and", y, 1) != 0, x, 1), where(x == 1, x, 0))
    return where(y < 0, unit, result)


def _integer_power(x: Scalar, exponent: int) -> Scalar:
    result, square = x.body.const(1, x.dtype), x
    while exponent:
        if exponent & 1:
            result = result * square
        square, exponent = square * square, exponent >> 1
    return result


def _refuse_integer_power(node: Node) -> str | None:
    dtype, exponent = graph.dtype(node), node.args[1] if len(node.args) > 1 else None
    if dtype.is_floating_point or dtype.is_complex or (graph.is_tensor(exponent) and dtype != torch.bool):
        return None
    if not (isinstance(exponent, int) and exponent >= 0):
        return "integer powers with a number that is not a non-negative constant are left to ATen"
    return None


def formula(op: torch._ops.OpOverload) -> Formula | None:
    """The formula of a pointwise ``op`` over values that are promoted to one type; None where the table has none."""
    row = TABLE.get(op)
    return row.lower.formula if row is not None and isinstance(row.lower, _Pointwise) and not row.lower.raw else None


def _quotient(x: Scalar, y: Scalar) -> Scalar:
    """x / y towards zero; by -1 as a negation: the processor traps where the smallest integer is divided by it."""
    if x.dtype.startswith("u") or y.literal not in (None, -1):
        return x.body.call("quotient", x, y)
    minus = y == -1
    return where(minus, -x, x.body.call("quotient", x, where(minus, 1, y)))


def _rest(x: Scalar, y: Scalar) -> Scalar:
    """What _quotient leaves, with the sign of ``x``."""
    if x.dtype.startswith("u") or y.literal not in (None, -1):
        return x.body.call("remainder", x, y)
    return x.body.call("remainder", x, where(y == -1, 1, y))


def nonzero(scope: Scope, divisor: Scalar) -> Scalar:
    """``divisor``, and one where it is zero, which the host reports after the kernel as eager does."""
    if divisor.literal:
        return divisor
    zero = divisor == 0
    scope.checked(zero.to("int64"), ONE, DIVISION)
    return where(zero, 1, divisor)


def _clamp(x: Scalar, low: Scalar | None = None, high: Scalar | None = None) -> Scalar:
    if low is not None:
        x = x.body.call("maximum", x, low)
    return x if high is None else x.body.call("minimum", x, high)


def _lerp(start: Scalar, end: Scalar, weight: Scalar) -> Scalar:
    # ATen switches form at one half, so that either end is reached exactly
    difference = end - start
    return where(weight.body.call("abs", weight) < 0.5, start + weight * difference, end - difference * (1 - weight))


def _addcmul(x: Scalar, a: Scalar, b: Scalar, value: Scalar | int = 1) -> Scalar:
    return x + a * b * value if not isinstance(value, Scalar) or value.literal == 1 else x + value * a * b


def _addcdiv(x: Scalar, a: Scalar, b: Scalar, value: Scalar | int = 1) -> Scalar:
    return x + a / b if not isinstance(value, Scalar) or value.literal == 1 else x + value * a / b


def _isfinite(x: Scalar) -> Scalar:
    if not x.is_float:
        return x.body.const(True, "bool")
    return functools.reduce(operator.and_, (x.body.call("abs", part) < math.inf for part in x.parts))


def _isinf(x: Scalar) -> Scalar:
    if not x.is_float:
        return x.body.const(False, "bool")
    return functools.reduce(operator.or_, (x.body.call("abs", part) == math.inf for part in x.parts))


def _isnan(x: Scalar) -> Scalar:
    return x != x if x.is_float else x.body.const(False, "bool")


def _signbit(x: Scalar) -> Scalar:
    if x.is_float:
        return x.body.call("copysign", x.body.const(1, x.dtype), x) < 0
    return x < 0 if x.dtype != "bool" else x.body.const(False, "bool")


def _truth(x: Scalar) -> Scalar:
    return x.to("bool")


def _sigmoid(x: Scalar) -> Scalar:
    return 1 / (1 + x.body.call("exp", -x))


def _relu(x: Scalar) -> Scalar:
    return x.body.call("maximum", x, 0) if x.dtype != "bool" else x


_ERF_SPLIT = 0.93
# erf(x) = x + x * P(x * x) below the split, 1 - exp(-(x + x * Q(x))) above: minimax fits in the weights of the
# result's error
_ERF_NEAR = (8.316707680933177e-05, -0.0008129996713250875, 0.005199905019253492, -0.026858940720558167,
             0.11283687502145767, -0.37612631916999817,
             0.12837916612625122)  # fmt: skip
_ERF_FAR = (1.1612336493271869e-05, -0.00032662300509400666, 0.0036580110900104046, -0.023795010522007942,
            0.10627519339323044, 0.6351280808448792,
            0.12865421175956726)  # fmt: skip


def _erf(x: Scalar) -> Scalar:
    """In float32 by one exponential and within 1.1 steps: the device's own is faster, but up to 5 steps off, and people
    add one to it, where all that is left is the error."""
    call = x.body.call
    if x.dtype != "float32":
        return call("erf", x)
    size, square = call("abs", x), x * x
    near, far = (x.body.const(c[0], x.dtype) for c in (_ERF_NEAR, _ERF_FAR))
    for c in _ERF_NEAR[1:]:
        near = call("fma", near, square, c)
    for c in _ERF_FAR[1:]:
        far = call("fma", far, size, c)
    tail = call("copysign", 1 - call("exp", -call("fma", far, size, size)), x)
    return where(size <= _ERF_SPLIT, call("fma", near, x, x), tail)


def _gelu(x: Scalar, approximate: str = "none") -> Scalar:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + x.body.call("tanh", inner))
    return x * 0.5 * (1 + x.body.call("erf", x * math.sqrt(0.5)))  # where 1 + erf cancels, x * 0.5 makes it small


def _heaviside(x: Scalar, values: Scalar) -> Scalar:
    return where(x == 0, values, (x > 0).to(x.dtype))


def _logaddexp(x: Scalar, y: Scalar) -> Scalar:
    high = x.body.call("maximum", x, y)
    low = x.body.call("minimum", x, y)
    return where(
        (x == y) & (x.body.call("abs", x) == math.inf), x, high + x.body.call("log1p", x.body.call("exp", low - high))
    )


def _refuse_complex_order(node: Node) -> str | None:
    if graph.dtype(node).is_complex:
        return "logaddexp of complex numbers, which orders them by their real parts, is left to ATen"
    return None


def _xlogy(x: Scalar, y: Scalar) -> Scalar:
    return where(y != y, y, where(x == 0, x.body.const(0, x.dtype), x * x.body.call("log", y)))


def copied(scope: Scope, node: Node, coords: Coords) -> Scalar:
    """The second argument, broadcast to the shape and in the type of the first."""
    value: Scalar = scope.operand(node.args[1], coords, len(coords))
    return value.to(compute_name(graph.dtype(node)))


def _cast(scope: Scope, node: Node, coords: Coords) -> Scalar:
    source, target = node.args[0], graph.dtype(node)
    value: Scalar = scope.operand(source, coords, len(coords))
    if not target.is_floating_point and isinstance(source, Node):
        value = as_stored(value, graph.dtype(source))
    return value.to(compute_name(target))


def _round(x: Scalar, decimals: int = 0) -> Scalar:
    if not x.is_float:
        return x
    if decimals == 0:
        return x.body.call("round", x)
    scale = x.body.const(10.0 ** abs(decimals), x.dtype)
    return x.body.call("round", x * scale) / scale if decimals > 0 else x.body.call("round", x / scale) * scale


def _shift(fn: str) -> Formula:
    def formula(x: Scalar, count: Scalar) -> Scalar:
        bits = int(x.dtype.lstrip("uint"))
        in_range = count < bits if x.dtype.startswith("u") else (count >= 0) & (count < bits)
        over = x.body.const(0, x.dtype) if fn == "shl" or x.dtype.startswith("u") else x.body.call("shr", x, bits - 1)
        return where(in_range, x.body.call(fn, x, where(in_range, count, x.body.const(0, x.dtype))), over)

    return formula


def _refuse_sparse_copy(node: Node) -> str | None:
    arguments = graph.arguments(node)
    device = arguments.get("device")
    source = graph.value_of(node.args[0])
    if device is not None and torch.device(device).type != source.device.type:
        return "copies between devices are left to ATen"
    return None


def angle(x: Scalar) -> Scalar:
    """That of a real number: zero or pi."""
    return where(x != x, x, where(x < 0, x.body.const(math.pi, x.dtype), x.body.const(0, x.dtype)))


def _frexp(scope: Scope, node: Node, coords: Coords) -> tuple[Scalar, Scalar]:
    """Fraction in [1/2, 1) and exponent, in float64; by two powers of two, as the one that is due may not exist."""
    x = scope.operand(node.args[0], coords, len(coords)).to("float64")
    call = x.body.call
    size = call("abs", x)
    ordinary = (size > 0) & (size < math.inf)
    exponent = call("logb", where(ordinary, size, 1.0)) + 1.0
    half = call("trunc", exponent * 0.5)
    fraction = x * call("exp2", -half) * call("exp2", half - exponent)
    power = where(ordinary, exponent, 0.0).to("int32")
    return where(ordinary, fraction, x).to(compute_name(graph.dtype(node.args[0]))), power


def _words(text: str) -> list[str]:
    return text.split()


# ---- the rows --------------------------------------------------------------------------------------------------------

for _name in _words(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "sqrt rsqrt erfc lgamma"
):
    pointwise(f"aten.{_name} prims.{_name}", apply(_name), cost=20)
pointwise("aten.erf prims.erf", _erf, cost=20)
for _name in _words("floor ceil trunc"):
    pointwise(f"aten.{_name} prims.{_name}", _integers_pass(_name))
pointwise("aten.round.default prims.round", _round)
pointwise("aten.round.decimals", _round, raw="decimals", cost=8)
for _name in _words("eq ne lt le gt ge"):
    pointwise(f"aten.{_name}.Tensor aten.{_name}.Scalar prims.{_name}", apply(_name), Compute.OPERANDS)
for _name in _words("maximum minimum fmax fmin"):
    pointwise(f"aten.{_name} prims.{_name}", apply(_name))
for _name in _words("atan2 hypot copysign nextafter"):
    pointwise(f"aten.{_name} prims.{_name}" if _name != "copysign" else "aten.copysign", apply(_name), cost=20)
for _name in _words("and or xor"):
    pointwise(f"aten.bitwise_{_name} prims.bitwise_{_name}", apply(_name))
    pointwise(
        f"aten.logical_{_name}", lambda x, y, fn=_name: x.body.call(fn, x.to("bool"), y.to("bool")), Compute.OPERANDS
    )

pointwise("aten.bitwise_not prims.bitwise_not", apply("not"))
pointwise("aten.logical_not", lambda x: ~_truth(x), Compute.OPERANDS)
pointwise("aten.abs prims.abs", apply("abs"))
pointwise("aten.neg prims.neg", apply("neg"))
pointwise("aten.sign prims.sign", sign)
pointwise("aten.reciprocal prims.reciprocal", lambda x: 1 / x, cost=4)
pointwise("aten.square", lambda x: x * x)
pointwise("aten.sigmoid", _sigmoid, cost=24)
pointwise("aten.relu", _relu)
pointwise("aten.gelu", _gelu, cost=30)
pointwise("aten.silu", lambda x: x / (1 + x.body.call("exp", -x)), cost=24)
pointwise("aten.isnan", _isnan, Compute.OPERANDS)
pointwise("aten.isinf", _isinf, Compute.OPERANDS)
pointwise("aten.isfinite prims.isfinite", _isfinite, Compute.OPERANDS)
pointwise("aten.signbit prims.signbit", _signbit, Compute.OPERANDS)

pointwise("aten.add.Tensor aten.add.Scalar prims.add", _add)
pointwise("aten.sub.Tensor aten.sub.Scalar prims.sub", _sub)
pointwise("aten.rsub", lambda x, y, alpha=None: _sub(y, x, alpha))
pointwise("aten.mul.Tensor aten.mul.Scalar prims.mul", lambda x, y: x * y)
pointwise("aten.div.Tensor aten.div.Scalar aten.true_divide.Tensor", _div_mode, cost=4)
pointwise("aten.div.Tensor_mode aten.div.Scalar_mode", _div_mode, cost=8, divides=True)
pointwise(
    "prims.div",
    lambda x, y: x / y if x.is_float else _quotient(x, y),
    cost=4,
    divides=True,
)
pointwise("aten.floor_divide", _floor_divide, cost=40, divides=True)
pointwise("aten.remainder.Tensor aten.remainder.Scalar aten.remainder.Scalar_Tensor", _remainder, cost=36, divides=True)
pointwise("prims.remainder", _remainder, cost=36, divides=True)
pointwise("aten.fmod.Tensor aten.fmod.Scalar prims.fmod", _fmod, cost=32, divides=True)
pointwise("aten.pow.Tensor_Scalar", _pow_scalar, cost=32, refuse=_refuse_integer_power)
pointwise("aten.pow.Tensor_Tensor prims.pow", _pow, cost=32, refuse=_refuse_integer_power)
pointwise("aten.pow.Scalar", _pow, cost=32, refuse=_refuse_integer_power)
register(["aten.frexp.Tensor"], Row(Kind.POINTWISE, _frexp, refuse=refuse_dtypes, cost=40))
pointwise("aten.heaviside", _heaviside)
pointwise("aten.logaddexp", _logaddexp, cost=40, refuse=_refuse_complex_order)
pointwise("aten.xlogy", _xlogy, cost=20)
pointwise("aten.bitwise_left_shift.Tensor aten.bitwise_left_shift.Tensor_Scalar prims.shift_left", _shift("shl"))
pointwise(
    "aten.bitwise_right_shift.Tensor aten.bitwise_right_shift.Tensor_Scalar prims.shift_right_arithmetic", _shift("shr")
)

pointwise(
    "aten.where.self aten.where.ScalarOther aten.where.ScalarSelf aten.where.Scalar prims.where",
    lambda c, x, y: where(c.to("bool"), x, y),
    raw="condition pred",
)
pointwise("aten.masked_fill.Scalar aten.masked_fill.Tensor", lambda x, mask, value: where(mask, value, x), raw="mask")
pointwise("aten.clamp aten.clip", _clamp)
pointwise("aten.clamp_min", _clamp)
pointwise("aten.clamp_max", lambda x, high: _clamp(x, None, high))
pointwise("aten.lerp.Tensor aten.lerp.Scalar", _lerp)
pointwise("aten.addcmul", _addcmul)
pointwise("aten.addcdiv", _addcdiv, cost=5)
pointwise("aten.clone prims.clone aten.lift_fresh_copy aten.contiguous prims.copy_strided", lambda x, *_: x)
register(
    _words("aten._to_copy prims.convert_element_type prims.device_put"),
    Row(Kind.POINTWISE, _cast, refuse=lambda n: refuse_dtypes(n) or _refuse_sparse_copy(n)),
)
register(["aten.copy.default"], Row(Kind.POINTWISE, copied, refuse=refuse_dtypes))
pointwise(
    "prims.fma",
    apply("fma"),
    refuse=lambda n: None if graph.dtype(n).is_floating_point else "fma of integers is left to ATen",
)
