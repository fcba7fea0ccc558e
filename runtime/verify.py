"""What the text of a launch plan must be: names in order, memory kept while kernels use it, ATen never before a kernel.

Kernels are queued and run later, ATen runs at once. So between a launch and the next ``wait()`` the memory of the
launch's buffers must neither be given back nor be shown to ATen.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

import torch

from lowering.errors import ArtifactError

from .launch_plan import LaunchPlan, namespace

_LAUNCH = re.compile(r"k(\d+)")
_ALIASES = frozenset({"reinterpret", "_conj", "_neg_view"})
_METADATA = frozenset({"data_ptr", "shape", "stride", "storage_offset", "size", "dtype"})


def verify_plan(plan: LaunchPlan) -> None:
    """Raise ArtifactError where the plan's text breaks a rule."""
    module = ast.parse(plan.text)
    function = module.body[0]
    if len(module.body) != 1 or not isinstance(function, ast.FunctionDef) or function.name != "call":
        raise ArtifactError("plan: its text is not one function `call(args)`")
    _Walk(plan).run(function.body)


class _Walk:
    """The state of a plan after each statement: names, what memory each may see, and what memory is in use."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        globals_ = namespace(plan.constants, [print] * len(plan.kernels), lambda: None)
        self.globals = set(globals_) | set(dir(builtins))
        self.memory: dict[str, frozenset[str]] = {"args": frozenset()}
        self.forgotten: dict[str, int] = {}
        self.pending: set[str] = set()
        self.launched = 0
        self.line = 0

    def run(self, body: list[ast.stmt]) -> None:
        """The whole plan."""
        for statement in body:
            self.line = statement.lineno
            self._statement(statement)
        if not isinstance(body[-1], ast.Return):
            self._broken("it returns nothing")
        if self.launched != len(self.plan.kernels):
            self._broken(f"it launches {self.launched} kernels and was given {len(self.plan.kernels)}")

    def _broken(self, rule: str) -> None:
        text = self.plan.text.splitlines()[self.line - 1].strip()
        raise ArtifactError(
            f"plan, line {self.line} (`{text}`): {rule}. This is a bug of the compiler: please report it."
        )

    def _statement(self, statement: ast.stmt) -> None:
        for name in _reads(statement):
            if name in self.forgotten:
                self._broken(f"{name} was forgotten in line {self.forgotten[name]}")
            if name not in self.memory and name not in self.globals:
                self._broken(f"{name} is not defined")
        if isinstance(statement, ast.Delete):
            for target in statement.targets:
                for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                    self._forget(name)
            return
        for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
            self._call(call)
        if isinstance(statement, ast.Return) and self.pending:
            self._broken(f"kernels that use {', '.join(sorted(self.pending))} may still run")
        if isinstance(statement, ast.Assign):
            self._assign(statement)

    def _assign(self, statement: ast.Assign) -> None:
        seen = {m for name in _reads(statement.value) for m in self.memory.get(name, ())}
        kind = self._kind(statement.value)
        for target in statement.targets:
            for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                if name in self.memory:
                    self._forget(name)
                self.forgotten.pop(name, None)
                own = () if kind == "view" else (f"{name} (line {self.line})",)
                self.memory[name] = frozenset((*own, *(() if kind == "new" else seen)))

    def _kind(self, value: ast.expr) -> str:
        """Whether an expression is a "view" of memory that has a name, "new", or "both" for all that is known."""
        if isinstance(value, (ast.Subscript, ast.Name)):
            return "view"
        function = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        if function in _ALIASES:
            return "view"
        op = self.plan.constants.get(function)
        if not isinstance(op, torch._ops.OpOverload):
            return "new"
        out = {a.name for a in op._schema.arguments if a.is_out}
        shared = any(r.alias_info is not None for r in op._schema.returns)
        return "both" if shared and not out else "new"

    def _forget(self, name: str) -> None:
        if name not in self.memory:
            self._broken(f"{name} is forgotten, but is not there")
        gone = self.memory.pop(name)
        self.forgotten[name] = self.line
        kept = frozenset().union(*self.memory.values())
        if lost := (gone & self.pending) - kept:
            self._broken(f"memory of {', '.join(sorted(lost))} is given back while a kernel may use it")

    def _call(self, call: ast.Call) -> None:
        function = call.func.id if isinstance(call.func, ast.Name) else ""
        launch = _LAUNCH.fullmatch(function)
        if launch:
            self._launch(call, int(launch[1]))
        elif function == "wait":
            self.pending.clear()
        elif function not in _ALIASES:
            shown = {m for argument in _whole(call) for m in self.memory.get(argument, ())}
            if used := shown & self.pending:
                self._broken(f"{', '.join(sorted(used))} is used before the kernels that use it are waited for")

    def _launch(self, call: ast.Call, number: int) -> None:
        if number != self.launched or number >= len(self.plan.kernels):
            self._broken(f"launch {number} comes where launch {self.launched} of {len(self.plan.kernels)} is due")
        self.launched += 1
        kernel = self.plan.kernels[number]
        arguments, size = call.args
        given = [p for p in kernel.source.params if p.kind not in ("local", "counter")]
        if not isinstance(arguments, ast.Tuple) or len(arguments.elts) != len(given):
            self._broken(f"kernel {kernel.source.name} takes {len(given)} arguments")
            return
        if not isinstance(size, ast.Tuple) or len(size.elts) != kernel.source.ndim:
            self._broken(f"kernel {kernel.source.name} has a range of {kernel.source.ndim} dimensions")
        for param, argument in zip(given, arguments.elts, strict=True):
            address = isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute)
            if (param.kind == "pointer") != (address and argument.func.attr == "data_ptr"):  # type: ignore[attr-defined]
                self._broken(f"parameter {param.name} of {kernel.source.name} is a {param.kind}")
            if param.kind == "pointer":
                self.pending |= {m for name in _reads(argument) for m in self.memory.get(name, ())}


def _reads(tree: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]


def _whole(call: ast.Call) -> Iterator[str]:
    """Names that a call is given whole, and not only their address or shape."""
    stack: list[ast.AST] = [*call.args, *(k.value for k in call.keywords)]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Attribute) and node.attr in _METADATA:
            continue
        if isinstance(node, ast.Name):
            yield node.id
        stack += ast.iter_child_nodes(node)
