"""The buffer plan: what a launch plan allocates, where, and until when, read from the plan's own text."""

from __future__ import annotations

import ast
import dataclasses
import math
from typing import Any

from aten_backend.dump.values import Sizes


@dataclasses.dataclass(frozen=True)
class Life:
    """Memory of ``bytes`` under the variable ``name``, from line ``first`` to line ``last`` of the plan; ``last`` is
    None for what is returned. ``shape`` is the text that the plan computes it by."""

    name: str
    shape: str
    dtype: str
    bytes: int
    first: int
    last: int | None


def lives(text: str, sizes: Sizes) -> tuple[Life, ...]:
    """Every allocation of the plan ``text``. What ATen allocates by itself is not seen."""
    (call,) = ast.parse(text).body
    assert isinstance(call, ast.FunctionDef)
    ends = {
        target.id: statement.lineno
        for statement in call.body
        if isinstance(statement, ast.Delete)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    found: list[Life] = []
    for statement in call.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if isinstance(statement.value, ast.Name):  # the memory goes on under another name
                found = [_renamed(b, statement.value.id, name, ends.get(name)) for b in found]
                continue
            allocation = _allocation(statement.value)
            if allocation is not None:
                shape, _, dtype = map(ast.unparse, allocation.args)
                size = _bytes(shape, dtype, sizes)
                found.append(Life(name, shape, dtype, size, statement.lineno, ends.get(name)))
    return tuple(found)


def _renamed(life: Life, old: str, new: str, last: int | None) -> Life:
    names = life.name.split(" = ")
    return dataclasses.replace(life, name=f"{life.name} = {new}", last=last) if names[-1] == old else life


def _allocation(value: ast.expr) -> ast.Call | None:
    """The call that makes ``value``, or that it is given to write to."""
    if not isinstance(value, ast.Call):
        return None
    if isinstance(value.func, ast.Name) and value.func.id in ("empty_strided", "allocate"):
        return value
    return next((_allocation(k.value) for k in value.keywords if k.arg == "out"), None)


def _bytes(shape: str, dtype: str, sizes: Sizes) -> int:
    scope: dict[str, Any] = {"math": math, **sizes}
    extent = math.prod(eval(shape, {}, scope))
    digits = "".join(c for c in dtype if c.isdigit())
    return int(extent) * (int(digits) // 8 if digits else 1)


def render(found: tuple[Life, ...]) -> str:
    """A table, with the most that is alive at once."""
    peak = max((sum(b.bytes for b in found if b.first <= a.first <= (b.last or 10**9)) for a in found), default=0)
    lines = [f"{len(found)} allocations, {sum(b.bytes for b in found):,} bytes, at most {peak:,} at once", ""]
    lines += [f"{'name':24} {'dtype':16} {'bytes':>14}  {'lines of the plan':18} shape"]
    for b in found:
        alive = f"{b.first} to {b.last}" if b.last else f"{b.first} on"
        lines.append(f"{b.name:24} {b.dtype:16} {b.bytes:14,}  {alive:18} {b.shape}")
    return "\n".join(lines) + "\n"
