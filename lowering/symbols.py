"""From torch's symbolic integers to index polynomials."""

from __future__ import annotations

import functools

import sympy  # type: ignore[import-untyped]
import torch
from torch.utils._sympy.printers import PythonPrinter

from .index import ONE, Index, Symbol, atom, index

_PRINTER = PythonPrinter()


def to_index(value: int | torch.SymInt) -> Index:
    """``value`` as a polynomial over size symbols.

    What is no polynomial (a floor division, a maximum) becomes one symbol that the host computes: its ``text``.
    """
    if not isinstance(value, torch.SymInt):
        return index(int(value))
    node = value.node
    return convert(node.expr, node.shape_env)


@functools.lru_cache(maxsize=16384)
def convert(expr: sympy.Expr, shape_env: object) -> Index:
    """A sympy expression over size symbols, whose bounds ``shape_env`` knows, as a polynomial; see ``to_index``."""
    if expr.is_Integer:
        return index(int(expr))
    if expr.is_Symbol:
        return atom(Symbol(str(expr), _low(expr, shape_env)))
    if expr.is_Add:
        total = index(0)
        for term in expr.args:
            total = total + convert(term, shape_env)
        return total
    if expr.is_Mul and all(_is_polynomial(f) for f in expr.args):
        total = ONE
        for factor in expr.args:
            total = total * convert(factor, shape_env)
        return total
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        total = ONE
        for _ in range(int(expr.exp)):
            total = total * convert(expr.base, shape_env)
        return total
    return atom(Symbol(f"({expr})", _low(expr, shape_env), host_text(expr)))


def _is_polynomial(factor: sympy.Expr) -> bool:
    return bool(factor.is_Integer or not factor.is_Rational)


def _low(expr: sympy.Expr, shape_env: object) -> int:
    bounds = shape_env.bound_sympy(expr)  # type: ignore[attr-defined]
    return int(bounds.lower) if bounds.lower.is_Integer else -(2**62)


def host_text(expr: sympy.Expr) -> str:
    """``expr`` as a Python expression over its symbols (``math`` and ``torch`` in scope)."""
    return str(_PRINTER.doprint(expr))
