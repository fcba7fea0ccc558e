"""Building the body of a group: scalar values with operators, common subexpressions shared, constants folded."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Union

import torch

from . import ir
from .dtypes import NAMES, is_complex, is_float, part_name, rounded
from .errors import ArtifactError
from .index import Index
from .scalars import FUNCTIONS, RESULT_BOOL

Number = int | float | bool | complex
Operand = Union["Scalar", int, float, bool, complex]


class Body:
    """Statements in order; equal ones are emitted once. ``origin`` names the node that new ones are made for."""

    def __init__(self) -> None:
        self.statements: list[ir.Statement] = []
        self.origin = ""
        self._known: dict[ir.Statement, int] = {}

    def emit(self, statement: ir.Statement) -> int:
        """The value defined by ``statement``."""
        known = self._known.get(statement)
        if known is None:
            known = self._known[statement] = len(self.statements)
            self.statements.append(statement)
        have = self.statements[known]
        if self.origin and self.origin not in have.origin:
            self.statements[known] = dataclasses.replace(have, origin=(*have.origin, self.origin))
        return known

    def scalar(self, statement: ir.Statement) -> Scalar:
        """``statement`` as an operand for formulas."""
        return Scalar(self, self.emit(statement), statement.dtype)

    def const(self, value: Number, dtype: str) -> Scalar:
        """A literal, converted to ``dtype`` as a C cast would."""
        if is_complex(dtype):
            return Pair(*(self.const(part, part_name(dtype)) for part in (value.real, value.imag)))
        if isinstance(value, complex):
            raise ArtifactError(f"the complex number {value} stands where a {dtype} is wanted")
        if dtype == "bool":
            value = bool(value)
        elif is_float(dtype):
            value = rounded(float(value), dtype)  # a later cast to float64 must see what float32 holds
        else:
            bits, signed = int(dtype.lstrip("uint")), not dtype.startswith("u")
            value = int(value) & ((1 << bits) - 1)
            if signed and value >> (bits - 1):
                value -= 1 << bits
        return self.scalar(_Literal(value, dtype))

    def call(self, fn: str, *args: Operand, dtype: str | None = None) -> Scalar:
        """Apply the scalar function ``fn``; numbers take the type of the first Scalar operand (not the condition)."""
        typed = next(a for a in args[1 if fn == "where" else 0 :] + args[:1] if isinstance(a, Scalar))
        operands = [a if isinstance(a, Scalar) else self.const(a, typed.dtype) for a in args]
        if any(isinstance(a, Pair) for a in operands):
            return _of_pairs(fn, operands)
        template = FUNCTIONS[fn]
        if (
            template.floats if is_float(typed.dtype) else template.bools if typed.dtype == "bool" else template.integers
        ) is None:
            raise TypeError(f"scalar function {fn} is not defined for {typed.dtype}")
        folded = _identity(fn, operands)
        if folded is not None:
            return folded
        result = "bool" if fn in RESULT_BOOL else dtype or typed.dtype
        return self.scalar(ir.Call(fn, tuple(a.id for a in operands), result))


@dataclasses.dataclass(frozen=True, eq=False)
class _Literal(ir.Const):
    """A constant that tells 0.0 from -0.0, 1 from True, and NaN from nothing."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Literal) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, str]:
        return repr(self.value), self.dtype


def _identity(fn: str, args: list[Scalar]) -> Scalar | None:
    """x*1, x/1 and x+0 for integers: exact for every x, NaN and signed zeros included."""
    if fn in ("mul", "div") and args[1].literal == 1:
        return args[0]
    if fn == "mul" and args[0].literal == 1:
        return args[1]
    if fn in ("add", "sub") and args[1].literal == 0 and not is_float(args[1].dtype) and args[1].dtype != "bool":
        return args[0]
    return None


class Scalar:
    """A value of the group's body; operators build new ones."""

    __slots__ = ("body", "dtype", "id")

    def __init__(self, body: Body, id_: int, dtype: str) -> None:
        self.body, self.id, self.dtype = body, id_, dtype

    @property
    def parts(self) -> tuple[Scalar, ...]:
        """The real values that this one is made of: itself."""
        return (self,)

    @property
    def literal(self) -> Number | None:
        """The constant behind this value, or None."""
        statement = self.body.statements[self.id]
        return statement.value if isinstance(statement, ir.Const) else None

    @property
    def is_float(self) -> bool:
        """Whether the value is a floating point number."""
        return is_float(self.dtype)

    def to(self, dtype: str) -> Scalar:
        """This value converted to the compute type ``dtype``."""
        if dtype == self.dtype:
            return self
        if is_complex(dtype):
            part = part_name(dtype)
            return Pair(self.to(part), self.body.const(0, part))
        literal = self.literal
        if literal is not None and (
            not isinstance(literal, float)
            or is_float(dtype)
            or dtype == "bool"
            or (math.isfinite(literal) and abs(literal) < 2**31)
        ):
            return self.body.const(literal, dtype)
        return self.body.scalar(ir.Call("cast", (self.id,), dtype))

    def _binary(self, fn: str, other: Operand) -> Scalar:
        return self.body.call(fn, self, other)

    def __add__(self, other: Operand) -> Scalar:
        return self._binary("add", other)

    def __radd__(self, other: Number) -> Scalar:
        return self.body.call("add", other, self)

    def __sub__(self, other: Operand) -> Scalar:
        return self._binary("sub", other)

    def __rsub__(self, other: Number) -> Scalar:
        return self.body.call("sub", other, self)

    def __mul__(self, other: Operand) -> Scalar:
        return self._binary("mul", other)

    def __rmul__(self, other: Number) -> Scalar:
        return self.body.call("mul", other, self)

    def __truediv__(self, other: Operand) -> Scalar:
        return self._binary("div", other)

    def __rtruediv__(self, other: Number) -> Scalar:
        return self.body.call("div", other, self)

    def __neg__(self) -> Scalar:
        return self.body.call("neg", self)

    def __lt__(self, other: Operand) -> Scalar:
        return self._binary("lt", other)

    def __le__(self, other: Operand) -> Scalar:
        return self._binary("le", other)

    def __gt__(self, other: Operand) -> Scalar:
        return self._binary("gt", other)

    def __ge__(self, other: Operand) -> Scalar:
        return self._binary("ge", other)

    def __eq__(self, other: object) -> Scalar:  # type: ignore[override]
        return self._binary("eq", other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Scalar:  # type: ignore[override]
        return self._binary("ne", other)  # type: ignore[arg-type]

    def __and__(self, other: Operand) -> Scalar:
        return self._binary("and", other)

    def __or__(self, other: Operand) -> Scalar:
        return self._binary("or", other)

    def __xor__(self, other: Operand) -> Scalar:
        return self._binary("xor", other)

    def __invert__(self) -> Scalar:
        return self.body.call("not", self)

    __hash__ = None  # type: ignore[assignment]


class Pair(Scalar):
    """A complex value: its real and imaginary part, of one real type. Scalar functions of pairs are the formulas of
    PAIRED, so that the formulas of ops hold for complex numbers as they are written."""

    __slots__ = ("parts",)

    parts: tuple[Scalar, Scalar]

    def __init__(self, re: Scalar, im: Scalar) -> None:
        self.body, self.parts = re.body, (re, im)
        self.dtype = {"float32": "complex64", "float64": "complex128"}[re.dtype]

    @property
    def literal(self) -> Number | None:
        """The constant behind this value, or None."""
        re, im = (part.literal for part in self.parts)
        return None if re is None or im is None else complex(re.real, im.real)

    @property
    def is_float(self) -> bool:
        """True: no integer arithmetic applies."""
        return True

    def to(self, dtype: str) -> Scalar:
        """This value as the complex or real type ``dtype``. A real one drops the imaginary part, as ATen does; the
        truth is that of either part."""
        re, im = self.parts
        if is_complex(dtype):
            return Pair(re.to(part_name(dtype)), im.to(part_name(dtype)))
        return re.to("bool") | im.to("bool") if dtype == "bool" else re.to(dtype)


PAIRED: dict[str, Callable[..., Scalar]] = {}
"""Scalar functions over complex operands, by name, as formulas over their parts (see ops/complex.py)."""


def _of_pairs(fn: str, operands: list[Scalar]) -> Scalar:
    """``fn`` over operands of which some are complex: all are, but for the condition of a choice."""
    if fn not in PAIRED:
        raise ArtifactError(f"scalar function {fn} has no formula for complex numbers")
    dtype = next(a.dtype for a in operands if isinstance(a, Pair))
    first = 1 if fn == "where" else 0
    return PAIRED[fn](*operands[:first], *(a.to(dtype) for a in operands[first:]))


def of_parts(*parts: Scalar) -> Scalar:
    """The value made of ``parts``: one for a real value, two for a complex one."""
    return parts[0] if len(parts) == 1 else Pair(*parts)


def apply(fn: str) -> Callable[..., Scalar]:
    """The formula that is just the scalar function ``fn``."""

    def formula(first: Scalar, *rest: Operand) -> Scalar:
        return first.body.call(fn, first, *rest)

    return formula


def where(condition: Scalar, a: Operand, b: Operand) -> Scalar:
    """``a`` where ``condition`` holds, else ``b``; both are evaluated."""
    return condition.body.call("where", condition, a, b)


def as_stored(value: Scalar, dtype: torch.dtype) -> Scalar:
    """``value`` as a tensor of ``dtype`` holds it. Half types compute in float32; where the result is a bool or an
    integer, eager's is only reached from the numbers that eager compares and counts."""
    if dtype not in (torch.float16, torch.bfloat16) or value.dtype != "float32":
        return value
    name = NAMES[dtype]
    literal = value.literal
    if literal is not None:
        return value.body.const(rounded(float(literal.real), name), "float32")
    return value.body.call(f"round_{name}", value)


def coordinate(body: Body, ix: Index) -> Scalar:
    """An index as an int64 value."""
    constant = ix.constant
    return body.const(constant, "int64") if constant is not None else body.scalar(ir.Coord(ix))
