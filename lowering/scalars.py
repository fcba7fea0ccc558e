"""Scalar functions: what kernels can compute with one element, and how it is written in the kernel language.

The table is shared by every integration that emits kernels. Templates are Python text over the kernel language of
``runtime/kernel_language.py``; operands and result have one type unless noted.
"""

from __future__ import annotations

import dataclasses

from .dtypes import is_float, is_unsigned


@dataclasses.dataclass(frozen=True)
class Function:
    """``floats``, ``integers`` and ``bools`` are templates for each class of operand type; None where undefined.
    ``cost`` counts roughly in additions, so that a schedule knows what is worth keeping."""

    floats: str | None
    integers: str | None = None
    bools: str | None = None
    cost: int = 1


def _builtin(name: str, arity: int, cost: int) -> Function:
    return Function(f"{name}({', '.join(f'{{{i}}}' for i in range(arity))})", cost=cost)


FUNCTIONS: dict[str, Function] = {
    "add": Function("({0} + {1})", "iadd({0}, {1})", "ior({0}, {1})"),
    "sub": Function("({0} - {1})", "isub({0}, {1})"),
    "mul": Function("({0} * {1})", "imul({0}, {1})", "iand({0}, {1})"),
    "div": Function("({0} / {1})", cost=4),
    "neg": Function("(-{0})", "ineg({0})"),
    "abs": Function("fabs({0})", "select({0} < 0, ineg({0}), {0})", "{0}"),
    "quotient": Function(None, "sdiv({0}, {1})", cost=8),
    "remainder": Function(None, "srem({0}, {1})", cost=8),
    "and": Function(None, "iand({0}, {1})", "iand({0}, {1})"),
    "or": Function(None, "ior({0}, {1})", "ior({0}, {1})"),
    "xor": Function(None, "ixor({0}, {1})", "ixor({0}, {1})"),
    "not": Function(None, "inot({0})", "inot({0})"),
    "shl": Function(None, "shl({0}, {1})"),
    "shr": Function(None, "shr({0}, {1})"),
    "eq": Function("({0} == {1})", "({0} == {1})", "({0} == {1})"),
    "ne": Function("({0} != {1})", "({0} != {1})", "({0} != {1})"),
    "lt": Function("({0} < {1})", "({0} < {1})", "iand(inot({0}), {1})"),
    "le": Function("({0} <= {1})", "({0} <= {1})", "ior(inot({0}), {1})"),
    "gt": Function("({0} > {1})", "({0} > {1})", "iand({0}, inot({1}))"),
    "ge": Function("({0} >= {1})", "({0} >= {1})", "ior({0}, inot({1}))"),
    # the first operand is a bool
    "where": Function("select({0}, {1}, {2})", "select({0}, {1}, {2})", "select({0}, {1}, {2})"),
    # a NaN in either operand is the result, as in ATen; of equal ones, such as zeros of both signs, the first
    "maximum": Function(
        "select(({1} > {0}) | ({1} != {1}), {1}, {0})", "select({1} > {0}, {1}, {0})", "ior({0}, {1})", cost=2,
    ),
    "minimum": Function(
        "select(({1} < {0}) | ({1} != {1}), {1}, {0})", "select({1} < {0}, {1}, {0})", "iand({0}, {1})", cost=2,
    ),
    # log(exp(x) + exp(y)); equal infinities are their own sum
    "logaddexp": Function(
        "select(({0} == {1}) & isinf({0}), {0}, select({0} != {0}, {0}, select({0} > {1}, {0}, {1})) "
        "+ log1p(exp(-fabs({0} - {1}))))",
        cost=40,
    ),
    "fmax": Function("select(({1} > {0}) | ({0} != {0}), {1}, {0})", "select({1} > {0}, {1}, {0})", "ior({0}, {1})"),
    "fmin": Function("select(({1} < {0}) | ({0} != {0}), {1}, {0})", "select({1} < {0}, {1}, {0})", "iand({0}, {1})"),
    **{name: _builtin(name, 1, 1) for name in ("floor", "ceil", "trunc", "logb")},
    "round": _builtin("rint", 1, 1),  # half to even, as torch.round
    "sqrt": _builtin("sqrt", 1, 6),
    "rsqrt": _builtin("rsqrt", 1, 6),
    **{name: _builtin(name, 1, 16) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")},
    **{name: _builtin(name, 1, 24) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: _builtin(name, 1, 24) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc")},
    **{name: _builtin(name, 1, 60) for name in ("lgamma", "tgamma")},
    **{name: _builtin(name, 2, 32) for name in ("pow", "atan2", "fmod", "hypot")},
    **{name: _builtin(name, 2, 2) for name in ("copysign", "nextafter")},
    "round_float16": Function("f16_to_f32(f32_to_f16({0}))", cost=8),
    "round_bfloat16": Function("bf16_to_f32(f32_to_bf16({0}))", cost=4),
    "cbrt": _builtin("cbrt", 1, 24),
    "fma": _builtin("fma", 3, 1),
}  # fmt: skip

RESULT_BOOL = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
"""Functions whose result is bool whatever they compare."""


def call_text(fn: str, dtype: str, args: list[str]) -> str:
    """``fn`` applied to the kernel expressions ``args`` of operand type ``dtype``.

    Raises KeyError when the table has no such function for that type.
    """
    function = FUNCTIONS[fn]
    template = function.floats if is_float(dtype) else function.bools if dtype == "bool" else function.integers
    if template is None:
        raise KeyError(f"scalar function {fn} is not defined for {dtype}")
    if fn == "abs" and is_unsigned(dtype):
        return args[0]
    return template.format(*args)


def cast_text(source: str, target: str, arg: str) -> str:
    """``arg`` of compute type ``source`` as compute type ``target``."""
    return arg if source == target else f"cast_{target}({arg})"


def load_text(dtype: str, element: str) -> str:
    """A stored ``element`` of the buffer type ``dtype`` as its compute type."""
    return {
        "bfloat16": f"bf16_to_f32({element})",
        "float16": f"f16_to_f32({element})",
        "bool": f"({element} != 0)",
    }.get(dtype, element)


def store_text(dtype: str, value: str) -> str:
    """A value of ``dtype``'s compute type as it is stored."""
    return {"bfloat16": f"f32_to_bf16({value})", "float16": f"f32_to_f16({value})", "bool": f"cast_uint8({value})"}.get(
        dtype, value
    )


def constant_text(value: float | int | bool, dtype: str) -> str:
    """A literal of ``dtype``."""
    if dtype == "bool":
        return str(bool(value))
    if is_float(dtype):
        value = float(value)
        text = (
            repr(value) if value == value and abs(value) != float("inf") else f"np.{'nan' if value != value else 'inf'}"
        )
        return f"np.{dtype}({'-' if value == float('-inf') else ''}{text})"
    return f"np.{dtype}({int(value)})"
