"""The text of reductions and scans: what a work-item accumulates, and how the lanes of a row come together."""

from __future__ import annotations

import abc

from . import ir
from .artifacts import Param
from .combine import COMBINE, group_type, identity_text, ties, wins, wins_last
from .dtypes import is_float
from .index import Index
from .scalars import call_text, cast_text
from .schedule import Schedule

SCAN_BLOCK = 2**11
"""Cols that go through work-group memory at once for a scan."""


class ReductionText(abc.ABC):
    """The part of an emitter that writes reductions: ``group`` by ``schedule``, with the ``text`` of each value so far.
    ``exchanges`` are the work-group memories it needs, ``scanned`` where the parts of scans are that were made in such;
    lines belong to the nodes of ``origin``."""

    group: ir.GroupIR
    schedule: Schedule
    text: dict[int, str]
    scanned: dict[int, tuple[str, str]]
    exchanges: list[Param]
    origin: tuple[str, ...]

    @abc.abstractmethod
    def line(self, text: str) -> None:
        """One line at the current depth."""

    @abc.abstractmethod
    def index(self, ix: Index) -> str:
        """An index as kernel text."""

    def reduction(self, position: int) -> ir.Reduce | ir.Scan:
        """The reduction or scan at ``position``."""
        statement = self.group.body[position]
        assert isinstance(statement, (ir.Reduce, ir.Scan))
        return statement

    def is_blocked(self, position: int) -> bool:
        """Whether a long sum is made in blocks."""
        statement = self.reduction(position)
        return statement.fn == "sum" and is_float(statement.dtype)

    def accumulators(self, position: int) -> list[tuple[str, str]]:
        """Names and first values of what a work-item accumulates in."""
        statement = self.reduction(position)
        dtype = self.group.body[statement.arg].dtype
        if statement.fn.startswith("arg"):
            return [(f"a{position}", identity_text(statement.fn[3:], dtype)), (f"p{position}", "np.int64(-1)")]
        return [(f"a{position}", identity_text(statement.fn, dtype))]

    def accumulate(self, position: int, name: str) -> None:
        """Add the value of this turn to the accumulator ``name``."""
        statement = self.reduction(position)
        self.origin = statement.origin
        value = self.text[statement.arg]
        dtype = self.group.body[statement.arg].dtype
        if statement.fn.startswith("arg"):
            if isinstance(statement, ir.Reduce):
                assert statement.position is not None
                place = self.text[statement.position]
                better = wins(statement.fn, value, name, dtype)
                better += f" or (({ties(value, name, dtype)}) and ({place} < p{position}))"
            else:
                place = f"np.int64({self.column()})"
                better = wins_last(statement.fn, value, name, dtype)
            self.line(f"c = {better} or (p{position} < 0)")
            self.line(f"{name} = select(c, {value}, {name})")
            self.line(f"p{position} = select(c, {place}, p{position})")
        else:
            self.line(f"{name} = {call_text(COMBINE[statement.fn], dtype, [name, value])}")

    def scan_block(self, room: int) -> int:
        """How many cols of a scan the lanes take at once, each a chunk of its own, through ``room`` bytes of work-group
        memory; 0 where that cannot be, or is not worth it: SPIR-V's scan instruction is slow."""
        lanes, length = self.schedule.lanes, self.group.cols[-1].size.constant or 0
        square = lanes * lanes  # chunks are whole turns
        if lanes == 1 or length % square:
            return 0
        most = min((room - 1024) // 8 - lanes, SCAN_BLOCK) // square
        return square * max((n for n in range(1, most + 1) if length // square % n == 0), default=0)

    def scan_block_in_memory(self, position: int, block: int) -> None:
        """Turn a block of values in work-group memory into sums: of the chunk so far, and behind each chunk of all that
        is before it."""
        statement, lanes = self.reduction(position), self.schedule.lanes
        dtype, chunk, memory = statement.dtype, block // lanes, f"x{position}"
        if position not in self.scanned:  # a stage before has scanned the same
            self.exchanges.append(Param(memory, "local", dtype, block + lanes))
        self.scanned[position] = f"{memory}[place]", f"{memory}[chunk * np.int64({chunk + 1}) + np.int64({chunk})]"
        total, mine = f"t{position}", f"{memory}[lane * np.int64({chunk + 1}) + step]"
        self.line("barrier()")
        self.line(f"{total} = {identity_text('sum', dtype)}")
        self.line(f"for step in range(np.int64(0), np.int64({chunk}), np.int64(1)):")
        self.line(f"    {total} = {call_text('add', dtype, [total, mine])}")
        self.line(f"    {mine} = {total}")
        before = call_text("add", dtype, [f"a{position}", f"group_scan_exclusive_add({total})"])
        self.line(f"{memory}[lane * np.int64({chunk + 1}) + np.int64({chunk})] = {before}")
        self.line(f"a{position} = {call_text('add', dtype, [f'a{position}', f'group_add({total})'])}")
        self.line("barrier()")

    def shared_scan(self, position: int, statement: ir.Scan) -> None:
        """One turn of a sum that the lanes walk side by side."""
        self.text[position], value = f"v{position}", self.text[statement.arg]
        if position in self.scanned:
            self.line(f"v{position} = {call_text('add', statement.dtype, list(self.scanned[position]))}")
            return
        for name, found in (("v", f"group_scan_inclusive_add({value})"), ("a", f"group_add({value})")):
            self.line(f"{name}{position} = {call_text('add', statement.dtype, [f'a{position}', found])}")

    def column(self) -> str:
        """The position of the current column among the cols, in their original order."""
        position: Index = Index({})
        for a in self.group.cols:
            position = position * a.size + Index({(a,): 1})
        return self.index(position)

    def combine(self, position: int, name: str) -> None:
        """Bring the lanes' partial results, each under ``name``, together."""
        statement = self.reduction(position)
        self.origin = statement.origin
        dtype = self.group.body[statement.arg].dtype
        self.text[position] = f"v{position}"
        if statement.fn.startswith("arg"):
            self._combine_positions(position, statement, dtype)
        elif self.schedule.lanes == 1:
            self.line(f"v{position} = {name}")
        elif statement.fn == "prod":
            self._combine_product(position, dtype)
        elif statement.fn in ("max", "min") and is_float(dtype):
            self.line(f"v{position} = group_{statement.fn}_nan({name})")
        else:
            self.line(f"v{position} = {self._group(statement.fn, name, dtype)}")

    def _group(self, fn: str, name: str, dtype: str) -> str:
        """A reduction over the work-group. Small integers travel as 32 bits."""
        if dtype == "bool":
            return f"group_{'max' if fn in ('any', 'max', 'sum') else 'min'}(cast_int32({name})) != 0"
        wide = group_type(dtype)
        reduced = f"group_{'add' if fn == 'sum' else fn}({cast_text(dtype, wide, name)})"
        return cast_text(wide, dtype, reduced)

    def _combine_product(self, position: int, dtype: str) -> None:
        """SPIR-V has no product over a work-group: every lane multiplies what all have put into local memory."""
        exchange = f"x{position}"
        self.exchanges.append(Param(exchange, "local", dtype, self.schedule.lanes))
        if self.schedule.outer:  # other lanes may still be reading what the turn before put there
            self.line("barrier()")
        self.line(f"{exchange}[lane] = a{position}")
        self.line("barrier()")
        self.line(f"v{position} = {identity_text('prod', dtype)}")
        self.line(f"for t in range({self.schedule.lanes}):")
        self.line(f"    v{position} = {call_text('mul', dtype, [f'v{position}', f'{exchange}[t]'])}")

    def _combine_positions(self, position: int, statement: ir.Reduce | ir.Scan, dtype: str) -> None:
        value, place = f"a{position}", f"p{position}"
        if self.schedule.lanes == 1:
            self.line(f"v{position} = {place}")
            return
        wide = group_type(dtype)
        self.line(f"w{position} = {cast_text(dtype, wide, value) if dtype != 'bool' else f'cast_int32({value})'}")
        self.line(f"m{position} = group_{statement.fn[3:]}(w{position})")
        best = f"(w{position} == m{position})"
        if is_float(dtype):
            self.line(f"n{position}_nan = group_max(cast_int32({value} != {value}))")
            best = f"select(n{position}_nan > 0, {value} != {value}, w{position} == m{position})"
        self.line(f"v{position} = group_min(select({best} & ({place} >= 0), {place}, np.int64(9223372036854775807)))")
