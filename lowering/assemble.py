"""One kernel from the code of its phases.

A kernel runs one group, or several one after the other, where all but the first are small: they are *phases*, with a
barrier between them. Phases after the first are run by a single work-group: the only one, or the last of the first
phase's work-groups to finish, which finds out by taking a ticket from a counter in memory, and puts the counter back.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import re
from collections.abc import Sequence

from . import ir
from .artifacts import KernelSource, Param
from .dtypes import storage_name
from .index import ZERO, Index, Symbol, kernel_text, product
from .scalars import FUNCTIONS
from .schedule import Mapping, Schedule

_SHARED = frozenset({"item", "lane", "failed", "site", "last"})
"""Names that all phases of a kernel share."""


Check = tuple[int, int, Index]
"""Code, dimension and size of something that must hold."""

MEMORY_COST = 2
"""Additions in the time of one access that a cache answers."""


def cost(group: ir.GroupIR) -> int:
    """Additions in the time that one point of the group takes."""
    total = 0
    for statement in group.body:
        if isinstance(statement, ir.Call):
            total += FUNCTIONS[statement.fn].cost if statement.fn in FUNCTIONS else 1
        elif isinstance(statement, (ir.Load, ir.Store, ir.Update)):
            total += MEMORY_COST
    return max(total, 1)


@dataclasses.dataclass(frozen=True)
class Phase:
    """A group and how it is run."""

    group: ir.GroupIR
    schedule: Schedule

    @property
    def work(self) -> Index:
        """Additions in the time that the phase takes one work-item after the other."""
        return product(a.size for a in (*self.group.rows, *self.group.cols)) * cost(self.group)

    def __str__(self) -> str:
        return f"{self.schedule}\n{self.group}"


@dataclasses.dataclass(frozen=True)
class Code:
    """What a phase adds to a kernel: lines, the names of symbols and host floats in them, checks, work-group memory,
    and for each line the nodes that it was written for."""

    lines: tuple[str, ...]
    symbols: dict[Symbol, str]
    floats: dict[str, str]
    checks: tuple[Check, ...]
    local: tuple[Param, ...]
    origins: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An emitted kernel and what its parameters are bound to: ``buffers``, then ``symbols`` (int64), then ``floats``
    (float64, nodes known on the host), then, where there are ``checks`` (code, dimension and size of each), the address
    of an int64 that takes what the last failed one found, and the number of the first of them among the plan's.
    ``origins`` has for each line of the text the nodes that it was written for."""

    source: KernelSource
    phases: tuple[Phase, ...]
    buffers: tuple[ir.Buffer, ...]
    symbols: tuple[Symbol, ...]
    floats: tuple[str, ...]
    checks: tuple[Check, ...]
    global_size: tuple[Index, ...]
    origins: tuple[tuple[str, ...], ...] = dataclasses.field(default=(), compare=False, repr=False)

    @property
    def group(self) -> ir.GroupIR:
        """The group of the first phase, which decides the range."""
        return self.phases[0].group

    @property
    def schedule(self) -> Schedule:
        """The schedule of the first phase."""
        return self.phases[0].schedule

    @property
    def work(self) -> Index:
        """Additions in the time that all phases take one work-item after the other."""
        return sum((phase.work for phase in self.phases), ZERO)

    def __str__(self) -> str:
        return f"# over {' x '.join(map(str, self.global_size))} work-items\n{self.source.text}"


class Assembler:
    """The kernel under construction."""

    def __init__(self, phases: Sequence[Phase], codes: Sequence[Code]) -> None:
        self.phases, self.codes = tuple(phases), codes
        self.buffers: dict[str, ir.Buffer] = {}
        self.symbols: dict[Symbol, str] = {}
        self.floats: dict[str, str] = {}
        self.local: list[Param] = []
        self.lines: list[str] = []
        self.origins: list[tuple[str, ...]] = []
        self.checks = tuple(check for code in codes for check in code.checks)
        self.tickets = needs_ticket(phases)

    def run(self) -> Kernel:
        """The whole kernel."""
        if self.checks:
            self._add("failed = np.int64(0)")
        if any(p.schedule.has_lanes for p in self.phases):
            self._add("lane = np.int64(item.get_local_id(0))")
        for number, (phase, code) in enumerate(zip(self.phases, self.codes, strict=True)):
            if number:
                self._add("barrier()")
            if number == 1 and self.tickets:
                self._take_ticket()
            self._phase(number, phase, code)
        if self.tickets:
            self._add("for done in range(lane, last, np.int64(2)):", "    tickets[0] = np.int32(0)")
        if self.checks:
            self._add("if failed != 0:", "    error[0] = failed")
        return self._finish()

    def _add(self, *lines: str) -> None:
        self.lines += [f"    {line}" for line in lines]
        self.origins += [()] * len(lines)

    def _take_ticket(self) -> None:
        """Find out whether this work-group is the last one: lane 0 asks, and tells the others."""
        self._add("ticket = np.int32(-1)", "if lane == 0:", "    ticket = take_ticket(tickets)")
        groups = kernel_text(self.phases[0].schedule.extents[-1], self.symbols, {})
        self._add(f"last = cast_int64(group_max(ticket) == np.int32({groups}) - np.int32(1))")

    def _phase(self, number: int, phase: Phase, code: Code) -> None:
        """Add a phase's lines, its names kept apart from those of other phases: numba gives a name one type."""
        names = {name: name for name in _SHARED}
        for position, buffer in enumerate(phase.group.buffers):
            key = buffer.name if number else f"{buffer.name} {buffer.written}"
            known = [k for k, b in self.buffers.items() if number and b.name == buffer.name]
            self.buffers.setdefault(known[0] if known else key, buffer)
            names[f"b{position}"] = f"b{list(self.buffers).index(known[0] if known else key)}"
        for symbol, name in code.symbols.items():
            names[name] = self.symbols.setdefault(symbol, f"n{len(self.symbols)}")
        for node, name in code.floats.items():
            names[name] = self.floats.setdefault(node, f"f{len(self.floats)}")
        if number:
            for name in [*_assigned(code.lines), *(p.name for p in code.local)]:
                names.setdefault(name, f"{name}_{number}")
        self.local += [dataclasses.replace(p, name=names.get(p.name, p.name)) for p in code.local]
        self.lines += [_renamed(line, names) for line in code.lines]
        self.origins += code.origins

    def _finish(self) -> Kernel:
        first = self.phases[0].schedule
        global_size = first.global_size
        buffers = tuple(self.buffers.values())
        params = [Param(f"b{i}", "pointer", storage_name(b.dtype)) for i, b in enumerate(buffers)]
        params += [Param(n, "scalar", "int64") for n in self.symbols.values()]
        params += [Param(n, "scalar", "float64") for n in self.floats.values()]
        if self.checks:
            params += [Param("error", "pointer", "int64"), Param("site", "scalar", "int64")]
        params += [Param("tickets", "counter", "int32")] * self.tickets
        params += self.local
        local = (first.solo or first.lanes,) if first.has_lanes else first.work_group or None
        header = f"(item, {', '.join(p.name for p in params)}):\n"
        text = header + "\n".join(self.lines or ["    pass"]) + "\n"
        digest = hashlib.sha256(repr((text, params, len(global_size), local)).encode()).hexdigest()[:12]
        name = f"{_short_name(tuple(op for p in self.phases for op in p.group.ops))}_{digest}"
        source = KernelSource(name, f"def {name}{text}", tuple(params), len(global_size), local)
        origins = ((), *(self.origins or [()]))  # an empty kernel has the one line `pass`
        bound = (buffers, tuple(self.symbols), tuple(self.floats), self.checks)
        return Kernel(source, self.phases, *bound, global_size, origins)


def needs_ticket(phases: Sequence[Phase]) -> bool:
    """Whether later phases must wait for several work-groups of the first."""
    first = phases[0].schedule
    groups = product(first.global_size).constant
    return len(phases) > 1 and first.mapping is Mapping.ROWS and not first.solo and groups != first.lanes


def _assigned(lines: Sequence[str]) -> list[str]:
    """Names that ``lines`` assign, loop variables too."""
    tree = ast.parse("def phase():\n" + "\n".join(lines or ["    pass"]))
    found = (n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return list(dict.fromkeys(found))


def _renamed(line: str, names: dict[str, str]) -> str:
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), line)


def _short_name(ops: tuple[str, ...]) -> str:
    """A readable name from the ops that do the work, longest prefix that stays short."""
    words: list[str] = []
    for op in ops:
        word = re.sub(r"\W", "_", op.split(".")[1] if "." in op else op).strip("_")
        if not words or words[-1] != word:
            words.append(word)
    if len(words) > 5:
        words = [*words[:2], *words[-3:]]
    return "_".join(words)[:48].strip("_") or "kernel"
