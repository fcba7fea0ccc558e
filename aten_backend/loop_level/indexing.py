"""From Inductor's index expressions (sympy) to this project's index polynomials and scalar values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._inductor.virtualized import V
from torch.utils._sympy import functions
from torch.utils._sympy.symbol import SymT, symbol_is_type

from lowering import ir
from lowering.errors import ArtifactError
from lowering.index import (
    ONE,
    ZERO,
    Axis,
    Index,
    Loaded,
    atom,
    divide_exactly,
    floor_divide,
    index,
    is_nonnegative,
    modulo,
    product,
)
from lowering.ops.pointwise import formula
from lowering.symbols import convert, host_text
from lowering.values import Body, Scalar, coordinate, where

UNBOUNDED = index(2**62)
"""The size of a computed index of which no bound is known; it may be negative, too."""

_HOST = (SymT.SIZE, SymT.UNBACKED_INT, SymT.PRECOMPUTED_SIZE, SymT.FLOAT, SymT.UNBACKED_FLOAT)
_RELATIONS = {
    sympy.Eq: "eq", sympy.Ne: "ne", sympy.Lt: "lt", sympy.Le: "le", sympy.Gt: "gt", sympy.Ge: "ge",
}  # fmt: skip
_ROUNDINGS = {
    functions.FloorToInt: "floor", functions.CeilToInt: "ceil", functions.TruncToInt: "trunc",
    functions.RoundToInt: "round", functions.TruncToFloat: "trunc", sympy.floor: "floor", sympy.ceiling: "ceil",
}  # fmt: skip


def host_index(expr: Any) -> Index:
    """An expression over size symbols only."""
    expr = sympy.sympify(expr)
    return convert(_without_precomputed(expr), V.graph.sizevars.shape_env)


def _without_precomputed(expr: sympy.Expr) -> sympy.Expr:
    """``expr`` with the symbols that Inductor gave to long size expressions replaced by these."""
    known = V.graph.sizevars.inv_precomputed_replacements
    found = {s: known[s] for s in expr.free_symbols if s in known}
    return expr.xreplace(found) if found else expr


def digits(numel: Index, cuts: Iterable[Index], prefix: str) -> tuple[Axis, ...]:
    """Axes, slowest first, whose product is ``numel`` and among whose strides are those ``cuts`` that fit.

    ``cuts`` are strides at which some node of the kernel splits the flat position, in ascending order.
    """
    strides = [ONE]
    for cut in cuts:
        step = divide_exactly(cut, strides[-1])
        if step is not None and step not in (ONE, ZERO) and divide_exactly(numel, cut) is not None:
            strides.append(cut)
    sizes = [divide_exactly(b, a) for a, b in zip(strides, [*strides[1:], numel], strict=True)]
    known = [s for s in sizes if s is not None]
    assert len(known) == len(sizes)
    return tuple(Axis(f"{prefix}{n}", size) for n, size in enumerate(known) if size != ONE)[::-1]


def flat_position(axes: tuple[Axis, ...]) -> Index:
    """The row-major position among ``axes``, slowest first."""
    position, step = ZERO, ONE
    for a in reversed(axes):
        position, step = position + atom(a) * step, step * a.size
    return position


def part_of(position: Index, divisor: Index, length: Index) -> Index:
    """``position // divisor % length``."""
    return modulo(floor_divide(position, divisor), length)


class IndexReader:
    """Reads the expressions of one kernel. ``places`` has what loaded indexes stand for, and gets from ``place`` what
    loop variables do."""

    def __init__(self, body: Body, nonzero: Callable[[Scalar], Scalar], place: Callable[[sympy.Symbol], Index]) -> None:
        self.body, self.nonzero, self.place = body, nonzero, place
        self.places: dict[sympy.Symbol, Index] = {}

    def index(self, expr: Any) -> Index:
        """An integer expression as an index; what is no polynomial becomes a computed value in it."""
        expr = _without_precomputed(sympy.sympify(expr))
        if expr.is_Integer:
            return index(int(expr))
        if all(map(is_host, expr.free_symbols)):
            return host_index(expr)
        if expr.is_Symbol:
            if expr not in self.places:
                self.places[expr] = self.place(expr)
            return self.places[expr]
        if isinstance(expr, functions.Identity):
            return self.index(expr.args[0])
        if expr.is_Add:
            return functools.reduce(lambda a, b: a + b, map(self.index, expr.args))
        if expr.is_Mul and all(f.is_integer for f in expr.args):
            return product(map(self.index, expr.args))
        if (expr.is_Pow or isinstance(expr, functions.PowByNatural)) and expr.args[1].is_Integer and expr.args[1] > 0:
            return product([self.index(expr.args[0])] * int(expr.args[1]))
        return self._division(expr) or self._computed(expr)

    def _division(self, expr: sympy.Expr) -> Index | None:
        """Divisions and remainders of what is certainly not negative."""
        if isinstance(expr, functions.ModularIndexing):
            base, divisor, length = map(self.index, expr.args)
            return part_of(base, divisor, length) if _divides(base, divisor) and _is_positive(length) else None
        if isinstance(expr, (functions.FloorDiv, functions.PythonMod, functions.Mod)):
            base, divisor = map(self.index, expr.args)
            if not _divides(base, divisor):
                return None
            return floor_divide(base, divisor) if isinstance(expr, functions.FloorDiv) else modulo(base, divisor)
        return None

    def _computed(self, expr: sympy.Expr) -> Index:
        return atom(Loaded(self.scalar(expr).to("int64").id, UNBOUNDED))

    def scalar(self, expr: Any) -> Scalar:
        """Any expression as a value: int64, float64 or bool."""
        expr = _without_precomputed(sympy.sympify(expr))
        if isinstance(expr, (sympy.logic.boolalg.BooleanTrue, sympy.logic.boolalg.BooleanFalse)):
            return self.body.const(bool(expr), "bool")
        if expr.is_Float or (expr.is_Rational and not expr.is_Integer):
            return self.body.const(float(expr), "float64")
        if expr in (sympy.oo, -sympy.oo):
            return self.body.const(float(expr), "float64")
        if all(map(is_host, expr.free_symbols)) and not expr.is_Boolean and not expr.is_integer:
            return self.body.scalar(ir.HostFloat(host_text(expr)))
        if expr.is_Symbol or expr.is_Integer or self._is_index(expr):
            return coordinate(self.body, self.index(expr))
        return self._operation(expr)

    def _is_index(self, expr: sympy.Expr) -> bool:
        if not expr.is_integer:
            return False
        return expr.is_Add or expr.is_Mul or expr.is_Pow or self._division(expr) is not None

    def _operation(self, expr: sympy.Expr) -> Scalar:
        args = [self.scalar(a) for a in expr.args]
        kind = type(expr)
        if kind in _RELATIONS:
            return self.body.call(_RELATIONS[kind], *_alike(args))
        if kind in _ROUNDINGS:
            rounded = self.body.call(_ROUNDINGS[kind], args[0].to("float64"))
            return rounded if kind is functions.TruncToFloat else rounded.to("int64")
        if kind in (functions.Max, sympy.Max, functions.Min, sympy.Min):
            name = "maximum" if kind in (functions.Max, sympy.Max) else "minimum"
            return functools.reduce(lambda a, b: self.body.call(name, *_alike([a, b])), args)
        if expr.is_Add or expr.is_Mul:
            name = "add" if expr.is_Add else "mul"
            return functools.reduce(lambda a, b: self.body.call(name, *_alike([a, b])), args)
        if kind in (functions.FloatPow, functions.PowByNatural, sympy.Pow):
            return self.body.call("pow", args[0].to("float64"), args[1].to("float64"))
        if kind in (functions.FloatTrueDiv, functions.IntTrueDiv):
            return args[0].to("float64") / args[1].to("float64")
        if kind is functions.ToFloat:
            return args[0].to("float64")
        if kind is functions.Where:
            return where(args[0], *_alike(args[1:]))
        if kind is functions.Identity:
            return args[0]
        if kind is sympy.Abs:
            return self.body.call("abs", args[0])
        return self._integers(expr, args)

    def _integers(self, expr: sympy.Expr, args: list[Scalar]) -> Scalar:
        """Python's division and remainder, where the first operand may be negative."""
        aten = torch.ops.aten
        divide, rest = formula(aten.floor_divide.default), formula(aten.remainder.Tensor)
        assert divide is not None and rest is not None
        args = [a if n == 0 else self.nonzero(a) for n, a in enumerate(args)]
        if isinstance(expr, functions.ModularIndexing):
            return rest(divide(args[0], args[1]), args[2])
        if isinstance(expr, functions.FloorDiv):
            return divide(*args)
        if isinstance(expr, (functions.PythonMod, functions.Mod)):
            return rest(*args)
        raise ArtifactError(f"an index expression has {type(expr).__name__}, which kernels cannot compute: {expr}")


def _alike(args: list[Scalar]) -> list[Scalar]:
    """``args`` as float64 where one of them is."""
    return [a.to("float64") for a in args] if any(a.is_float for a in args) else args


def _divides(base: Index, divisor: Index) -> bool:
    """Whether ``base // divisor`` is what the index algebra takes it for: of a non-negative number by a positive."""
    signed = any(isinstance(a, Loaded) and a.size == UNBOUNDED for a in base.leaves())
    return not signed and is_nonnegative(base) and _is_positive(divisor)


def _is_positive(ix: Index) -> bool:
    return not any(isinstance(a, (Axis, Loaded)) for a in ix.leaves()) and is_nonnegative(ix) and ix != ZERO


def is_host(symbol: sympy.Symbol) -> bool:
    """Whether ``symbol`` is a number that the wrapper knows."""
    return bool(symbol_is_type(symbol, _HOST))
