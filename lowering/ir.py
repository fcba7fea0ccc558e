"""Group IR: what one kernel computes, before it is said how.

A group is a loop nest over ``rows`` (parallel) and ``cols`` (reduced; empty for pointwise groups) and a straight line
of scalar statements in SSA form. Statement i defines value i. A value *varies* over the axes that it depends on; a
Reduce takes a value and combines it over all ``cols``. Addresses are in elements from the start of the buffer's tensor.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from .dtypes import NAMES
from .errors import ArtifactError
from .index import Axis, Index, Loaded

Value = int


@dataclasses.dataclass(frozen=True)
class Buffer:
    """A tensor that the group reads or writes; ``name`` is its node's, ``dtype`` as in dtypes.NAMES. With ``scratch``
    it is memory of so many elements that only the group's own kernels share. Of a complex tensor the group sees the
    parts: each of its elements is two (``width``) of the buffer's. One that is ``filled`` is known to have elements."""

    name: str
    dtype: str
    written: bool
    scratch: Index | None = None
    width: int = 1
    filled: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Derived:
    """Base of statements. ``origin`` names the nodes that a statement was made for; two statements that differ in
    nothing else are equal, so it changes no kernel."""

    origin: tuple[str, ...] = dataclasses.field(default=(), compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class Load(Derived):
    """buffer[index] as the compute type ``dtype``; zero where the bool value ``mask`` is false."""

    buffer: int
    index: Index
    dtype: str
    mask: Value | None = None


@dataclasses.dataclass(frozen=True)
class Const(Derived):
    value: float | int | bool
    dtype: str


@dataclasses.dataclass(frozen=True)
class Coord(Derived):
    """An index, or an integer known on the host, as an int64 value."""

    index: Index
    dtype: str = "int64"


@dataclasses.dataclass(frozen=True)
class HostFloat(Derived):
    """A float known on the host only at run time; ``name`` is its node's."""

    name: str
    dtype: str = "float64"


@dataclasses.dataclass(frozen=True)
class Call(Derived):
    """A scalar function of scalars.FUNCTIONS; operands have one type unless the function says otherwise."""

    fn: str
    args: tuple[Value, ...]
    dtype: str


@dataclasses.dataclass(frozen=True)
class Reduce(Derived):
    """``arg`` combined over all cols, in a fixed order. ``argmax`` and ``argmin`` give the least ``position`` (an int64
    value) at which the extreme stands; a NaN wins every comparison, as in ATen."""

    fn: Literal["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"]
    arg: Value
    dtype: str
    position: Value | None = None


@dataclasses.dataclass(frozen=True)
class Scan(Derived):
    """``arg`` combined over the cols up to and including the current one, in order; the group has one col. ``argmax``
    and ``argmin`` give the position of the last extreme so far, as ATen's cummax and cummin do."""

    fn: Literal["sum", "prod", "max", "min", "argmax", "argmin", "logaddexp"]
    arg: Value
    dtype: str


@dataclasses.dataclass(frozen=True)
class Check(Derived):
    """An index value that must lie in [0, size) wherever ``mask`` holds: otherwise the error ``code`` of faults.FAULTS
    is raised on the host after the kernel, and the value is replaced by zero so that no foreign memory is read. ``dim``
    is the dimension that it is an index of."""

    arg: Value
    size: Index
    code: int
    dim: int = 0
    mask: Value | None = None
    dtype: str = "int64"


@dataclasses.dataclass(frozen=True)
class Store(Derived):
    """buffer[index] = value, rounded to the buffer's type; done once per point of the axes that ``index`` varies
    over."""

    buffer: int
    index: Index
    value: Value
    dtype: str = ""


@dataclasses.dataclass(frozen=True)
class Update(Derived):
    """buffer[index] = fn(buffer[index], value), rounded each time; the function ``set`` is the value alone. Done once
    per point of the group, by one work-item a row that walks the cols in order: rows never meet in one place."""

    buffer: int
    index: Index
    value: Value
    fn: str
    dtype: str = ""


Statement = Load | Const | Coord | HostFloat | Call | Reduce | Scan | Check | Store | Update


@dataclasses.dataclass(frozen=True)
class GroupIR:
    """One fusion group. ``ops`` are the ATen nodes that it computes, for names and for people."""

    ops: tuple[str, ...]
    rows: tuple[Axis, ...]
    cols: tuple[Axis, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]

    def __post_init__(self) -> None:
        for position, statement in enumerate(self.body):
            for operand in operands(statement):
                if not 0 <= operand < position:
                    raise ArtifactError(
                        f"group {self.ops}: statement {position} uses value {operand} before it is defined"
                    )
            if isinstance(statement, (Load, Store, Update)) and not 0 <= statement.buffer < len(self.buffers):
                raise ArtifactError(
                    f"group {self.ops}: statement {position} names buffer {statement.buffer}, which is none"
                )
            if statement.dtype not in ("", *NAMES.values()):
                raise ArtifactError(f"group {self.ops}: statement {position} has the unknown type {statement.dtype}")

    def __str__(self) -> str:
        lines = [f"group({', '.join(self.ops)})"]
        lines += [f"  {'rows' if a in self.rows else 'cols'} {a.name} < {a.size}" for a in self.rows + self.cols]
        lines += [f"  b{i}: {b.dtype} {'out' if b.written else 'in'} {b.name}" for i, b in enumerate(self.buffers)]
        lines += [
            f"  {describe(i, s)}" + (f"  # {', '.join(s.origin)}" if s.origin else "") for i, s in enumerate(self.body)
        ]
        return "\n".join(lines)


def operands(statement: Statement) -> tuple[Value, ...]:
    """The values that ``statement`` uses, data-dependent indexes and masks included."""
    found: list[Value] = []
    if isinstance(statement, Call):
        found += statement.args
    elif isinstance(statement, (Reduce, Scan, Check)):
        found.append(statement.arg)
    elif isinstance(statement, (Store, Update)):
        found.append(statement.value)
    if isinstance(statement, Reduce) and statement.position is not None:
        found.append(statement.position)
    if isinstance(statement, (Load, Check)) and statement.mask is not None:
        found.append(statement.mask)
    if isinstance(statement, (Load, Store, Update, Coord)):
        found += [a.value for a in statement.index.leaves() if isinstance(a, Loaded)]
    return tuple(found)


def describe(position: int, statement: Statement) -> str:
    """One line of readable text."""
    v = f"v{position}: {statement.dtype} = "
    match statement:
        case Load(buffer, ix, _, mask):
            return f"{v}b{buffer}[{ix}]" + (f" if v{mask} else 0" if mask is not None else "")
        case Const(value):
            return f"{v}{value!r}"
        case Coord(ix):
            return f"{v}{ix}"
        case HostFloat(name):
            return f"{v}host {name}"
        case Call(fn, args):
            return f"{v}{fn}({', '.join(f'v{a}' for a in args)})"
        case Reduce(fn, arg):
            return f"{v}reduce_{fn}(v{arg})"
        case Scan(fn, arg):
            return f"{v}scan_{fn}(v{arg})"
        case Check(arg, size, code):
            return f"{v}check(0 <= v{arg} < {size}, error {code})"
        case Store(buffer, ix, value):
            return f"b{buffer}[{ix}] = v{value}"
        case Update(buffer, ix, value, fn):
            return f"b{buffer}[{ix}] = {fn}(b{buffer}[{ix}], v{value})"
