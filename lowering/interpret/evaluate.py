"""Expressions of the kernel language, for all work-items of a batch at once.

A value is an array with one entry a work-item, or with none where it is the same for all. Types follow numba's rules:
named operations take one type, the operators ``+ - * /`` promote as NumPy's do between arrays, integers count in 64
bits.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import language
from .faults import ArithmeticFault, KernelTypeError
from .language import BOOL, FLOATS, FUNCTIONS, TypeMismatch

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]

_ARITHMETIC: dict[type[ast.operator], Function] = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply}
_BITS: dict[type[ast.operator], Function] = {
    ast.BitAnd: np.bitwise_and, ast.BitOr: np.bitwise_or, ast.BitXor: np.bitwise_xor,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Function] = {
    ast.Eq: np.equal, ast.NotEq: np.not_equal, ast.Lt: np.less, ast.LtE: np.less_equal,
    ast.Gt: np.greater, ast.GtE: np.greater_equal,
}  # fmt: skip


class Evaluator:
    """What expressions need: names, and which work-items are active. The machine adds memory and barriers."""

    names: dict[str, Array]
    active: Array

    def fault(self, kind: Any, rule: str) -> Any:
        """The fault ``kind`` at the current line."""
        raise NotImplementedError

    def load(self, name: str, place: Array) -> Array:
        """Element ``place`` of the parameter ``name``."""
        raise NotImplementedError

    def item(self, method: str, dimension: int) -> Array:
        """What the item's ``method`` says."""
        raise NotImplementedError

    def work_group(self, dimension: int, size: Array) -> Array:
        """Where the work-groups are along ``dimension``, where ``size`` work-items make one."""
        raise NotImplementedError

    def collective(self, name: str, args: list[Array]) -> Array:
        """A barrier or a work-group operation."""
        raise NotImplementedError

    def ticket(self, name: str) -> Array:
        """The counter ``name``, which is increased by one for each active work-item, as it was before."""
        raise NotImplementedError

    # ---- expressions -------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Array:
        """The value of any expression."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise self.fault(KernelTypeError, f"{type(node).__name__} is not in the kernel language")
        result: Array = method(node)
        return result

    def _constant(self, node: ast.Constant) -> Array:
        kinds = {bool: BOOL, int: np.dtype("int64"), float: np.dtype("float64")}
        return np.asarray(node.value, kinds[type(node.value)])

    def _name(self, node: ast.Name) -> Array:
        if node.id not in self.names:
            raise self.fault(KernelTypeError, f"{node.id} has no value")
        return self.names[node.id]

    def _attribute(self, node: ast.Attribute) -> Array:
        return np.asarray(getattr(np, node.attr), np.float64)

    def _subscript(self, node: ast.Subscript) -> Array:
        assert isinstance(node.value, ast.Name)
        return self.load(node.value.id, self.value(node.slice))

    def _ifexp(self, node: ast.IfExp) -> Array:
        test = self.truth(node.test)
        chosen, other = self.under(test, node.body), self.under(~test, node.orelse)
        if chosen.dtype != other.dtype:
            raise self.fault(KernelTypeError, f"a choice between {chosen.dtype} and {other.dtype}")
        return np.where(test, chosen, other)

    def under(self, condition: Array, node: ast.expr) -> Array:
        """``node`` where only work-items with ``condition`` compute it."""
        outer = self.active
        self.active = outer & condition
        try:
            return self.value(node)
        finally:
            self.active = outer

    def truth(self, node: ast.expr) -> Array:
        """A condition."""
        value = self.value(node)
        return value if value.dtype == BOOL else value != 0

    def _boolop(self, node: ast.BoolOp) -> Array:
        total = self.truth(node.values[0])
        for operand in node.values[1:]:
            both = isinstance(node.op, ast.And)
            outer = self.active
            self.active = outer & (total if both else ~total)
            total = total & self.truth(operand) if both else total | self.truth(operand)
            self.active = outer
        return total

    def _unaryop(self, node: ast.UnaryOp) -> Array:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return ~self.truth(node.operand)
        if isinstance(node.op, ast.Invert):
            return np.invert(value)
        return np.negative(value) if isinstance(node.op, ast.USub) else value

    def _operands(self, left: ast.expr, right: ast.expr) -> tuple[Array, Array]:
        """Both values; a literal integer takes the other's type, as it has none of its own."""
        a, b = self.value(left), self.value(right)
        if isinstance(left, ast.Constant) and isinstance(left.value, int) and a.dtype != BOOL:
            a = a.astype(b.dtype)
        elif isinstance(right, ast.Constant) and isinstance(right.value, int) and b.dtype != BOOL:
            b = b.astype(a.dtype)
        common = np.result_type(a.dtype, b.dtype)
        return a.astype(common, copy=False), b.astype(common, copy=False)

    def _binop(self, node: ast.BinOp) -> Array:
        a, b = self._operands(node.left, node.right)
        kind = type(node.op)
        if kind in _BITS and a.dtype not in FLOATS:
            return _BITS[kind](a, b)
        if a.dtype == BOOL or kind not in (*_ARITHMETIC, ast.Div):
            raise self.fault(KernelTypeError, f"{kind.__name__} of {a.dtype} is not in the kernel language")
        if kind is ast.Div:
            return np.divide(a, b)  # of integers: in float64
        if a.dtype not in FLOATS and a.dtype.itemsize < 8:
            a, b = a.astype(np.int64), b.astype(np.int64)
        return _ARITHMETIC[kind](a, b)

    def _compare(self, node: ast.Compare) -> Array:
        total, left = np.asarray(True), node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            a, b = self._operands(left, right)
            total, left = total & _COMPARISONS[type(operator)](a, b), right
        return total

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Array:
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        assert isinstance(node.func, ast.Name)
        if node.func.id == "take_ticket":
            assert isinstance(node.args[0], ast.Name)
            return self.ticket(node.args[0].id)
        name, args = node.func.id, [self.value(a) for a in node.args]
        if name in ("min", "max"):
            return functools.reduce(np.minimum if name == "min" else np.maximum, args)
        if name.startswith("work_group_"):
            return self.work_group(int(name[-1]), args[0])
        if name == "barrier" or name.startswith("group_"):
            return self.collective(name, args)
        if name in ("sdiv", "srem") and bool((self.active & (args[1] == 0)).any()):
            raise self.fault(ArithmeticFault, f"{name} by zero")
        if name not in FUNCTIONS:
            raise self.fault(KernelTypeError, f"{name} is not in the kernel language")
        try:
            return FUNCTIONS[name](*args)
        except TypeMismatch as error:
            raise self.fault(KernelTypeError, str(error)) from None

    def _method(self, node: ast.Call, function: ast.Attribute) -> Array:
        """``np.<type>(x)``, which converts a literal or an index, or a question to the item."""
        if isinstance(function.value, ast.Name) and function.value.id == "np":
            return language.cast(self.value(node.args[0]), np.dtype(function.attr))
        dimension = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else 0
        assert isinstance(dimension, int)
        return self.item(function.attr, dimension)
