"""What the text of a kernel must be: Python that uses nothing but the kernel language."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ..artifacts import KernelSource
from ..assemble import Kernel
from ..dtypes import storage_name
from .errors import broken

_MATH = (
    *("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "logb", "sqrt", "rsqrt", "cbrt"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sinpi"),
    *("erf", "erfc", "lgamma", "tgamma", "floor", "ceil", "trunc", "rint", "round", "fabs", "isnan", "isinf"),
    *("pow", "atan2", "fmod", "hypot", "copysign", "nextafter", "fmin", "fmax", "remainder", "fma"),
)
_INTEGERS = ("sdiv", "srem", "shl", "shr", "iadd", "isub", "imul", "iand", "ior", "ixor", "inot", "ineg")
_TYPES = (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")
_COLLECTIVE = frozenset(
    {
        "barrier", "group_broadcast", "group_max_nan", "group_min_nan", "group_scan_exclusive_add",
        *(f"group_{kind}{fn}" for kind in ("", "scan_inclusive_") for fn in ("add", "max", "min")),
    }
)  # fmt: skip
LANGUAGE = _COLLECTIVE | {
    *_MATH, *_INTEGERS, "select", *(f"cast_{t}" for t in (*_TYPES, "bool")),
    "take_ticket", *(f"work_group_{d}" for d in range(3)),
    "bitcast_f32_u32", "bitcast_u32_f32", "bitcast_f64_u64", "bitcast_u64_f64",
    "bf16_to_f32", "f32_to_bf16", "f16_to_f32", "f32_to_f16",
}  # fmt: skip
"""The kernel language, which ``runtime/kernel_language.py`` implements; a test compares the two."""

_BUILTINS = frozenset({"range", "min", "max", "np", "math", "True", "False"})
_NUMPY = frozenset({*_TYPES, "nan", "inf"})
_ITEM = frozenset({"get_id", "get_global_id", "get_local_id"})
_SYNTAX = (
    *(ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Pass, ast.Name, ast.Load, ast.Store),
    *(ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.Tuple, ast.IfExp, ast.Compare, ast.cmpop),
    *(ast.BoolOp, ast.boolop, ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop),
)


def verify_kernel(kernel: Kernel) -> None:
    """The text is one function of the kernel language, over the parameters that the launch will pass."""
    source = kernel.source
    _verify_params(kernel)
    function = _function(source)
    parameters = ["item", *(p.name for p in source.params)]
    if [a.arg for a in function.args.args] != parameters or len(set(parameters)) != len(parameters):
        broken(source.name, f"its parameters are not {', '.join(parameters)}")
    for node in _below(function.body):
        if not isinstance(node, _SYNTAX):
            broken(
                source.name, f"line {getattr(node, 'lineno', '?')} uses {type(node).__name__}, which kernels may not"
            )
        if isinstance(node, ast.Attribute) and node.attr not in _ITEM and not _is_numpy(node):
            broken(source.name, f"line {node.lineno} uses .{node.attr}, which is not in the kernel language")
    _Names(source.name, parameters).block(function.body)
    _verify_convergence(source, function.body)
    if source.local_size is not None and len(source.local_size) != source.ndim:
        broken(source.name, f"a work-group of {source.local_size} for a range of {source.ndim} dimensions")
    if len(kernel.global_size) != source.ndim:
        broken(source.name, f"a range of {len(kernel.global_size)} dimensions, its source says {source.ndim}")


def verify_names(kernels: Iterable[Kernel]) -> None:
    """Equal names are equal kernels."""
    texts: dict[str, KernelSource] = {}
    for kernel in kernels:
        if texts.setdefault(kernel.source.name, kernel.source) != kernel.source:
            broken(kernel.source.name, "two different kernels have this name")


def _verify_params(kernel: Kernel) -> None:
    expected = [("pointer", storage_name(b.dtype)) for b in kernel.buffers]
    expected += [("scalar", "int64")] * len(kernel.symbols) + [("scalar", "float64")] * len(kernel.floats)
    expected += [("pointer", "int64"), ("scalar", "int64")] if kernel.checks else []
    given = [(p.kind, p.dtype) for p in kernel.source.params if p.kind not in ("local", "counter")]
    if given != expected:
        broken(kernel.source.name, f"its parameters are {given}, its launch passes {expected}")


def _function(source: KernelSource) -> ast.FunctionDef:
    try:
        module = ast.parse(source.text)
        compile(source.text, source.name, "exec")
    except SyntaxError as error:
        broken(source.name, f"it is no Python: {error}")
    function = module.body[0] if len(module.body) == 1 else None
    if not isinstance(function, ast.FunctionDef) or function.name != source.name:
        broken(source.name, "its text is not one function of that name")
    return function


def _below(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield from ast.walk(statement)


def _is_numpy(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "np" and node.attr in _NUMPY


class _Names:
    """Names in the order in which they are assigned: what a branch or a loop assigns may be read after it only where it
    was assigned before, for the loop may not run."""

    def __init__(self, kernel: str, known: list[str]) -> None:
        self.kernel, self.known = kernel, set(known)

    def block(self, body: list[ast.stmt]) -> None:
        """Walk statements in order."""
        for statement in body:
            self.statement(statement)

    def statement(self, statement: ast.stmt) -> None:
        """One statement; what it assigns is known from then on."""
        if isinstance(statement, (ast.For, ast.If, ast.While)):
            self.read(statement.iter if isinstance(statement, ast.For) else statement.test)
            outside = set(self.known)
            if isinstance(statement, ast.For) and isinstance(statement.target, ast.Name):
                self.known.add(statement.target.id)
            inside = set(self.known)
            self.block(statement.body)
            after = self.known
            self.known = inside if isinstance(statement, ast.If) else set(outside)
            self.block(statement.orelse)
            self.known = after & self.known if statement.orelse else outside
            return
        self.read(statement)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        self.known |= {t.id for target in targets for t in ast.walk(target) if isinstance(t, ast.Name)}

    def read(self, tree: ast.AST) -> None:
        """Every name that is read is known."""
        for node in ast.walk(tree):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            if node.id not in self.known and node.id not in LANGUAGE and node.id not in _BUILTINS:
                broken(self.kernel, f"line {node.lineno} reads {node.id}, which may not be assigned by then")


def _verify_convergence(source: KernelSource, body: list[ast.stmt]) -> None:
    """Work-group operations need all work-items: none stands in a branch, none in a kernel without work-groups."""
    for node in _below(body):
        inside = [node.test, *node.body, *node.orelse] if isinstance(node, ast.If) else []
        inside += [node.body, node.orelse] if isinstance(node, ast.IfExp) else []
        for call in (c for part in inside for c in ast.walk(part)):
            if _is_collective(call):
                broken(source.name, f"line {getattr(call, 'lineno', '?')} has a work-group operation in a branch")
        if _is_collective(node) and source.local_size is None:
            broken(source.name, "it has a work-group operation, and is launched without work-groups")


def _is_collective(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COLLECTIVE
