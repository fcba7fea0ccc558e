"""Kernel text: scheduled groups as numba-dpex Python.

A group with reductions runs over its cols once per *stage*: stage 0 computes what needs no reduction, stage n what
needs the reductions of stage n - 1. Values that vary over the cols are recomputed in each stage that needs them (their
memory is in the nearest cache by then); values that do not are computed once, between the loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import ir
from .artifacts import Param
from .assemble import Assembler, Code, Kernel, Phase, needs_ticket
from .faults import SITE_BITS
from .index import ZERO, Axis, Index, Symbol, floor_divide, kernel_text, product
from .reductions import ReductionText
from .scalars import call_text, cast_text, constant_text, load_text, store_text
from .schedule import TILE, Mapping, Schedule
from .stages import loop_targets, plan_kept, stages, varying

BLOCK = 128
"""Additions in a row before a partial sum is set aside, so that rounding errors of long sums stay small."""


def _work_group(dimension: int, size: int) -> str:
    """Which work-group this is along ``dimension``, where ``size`` work-items make one."""
    return f"work_group_{dimension}(np.int64({size}))"


class Emitter(ReductionText):
    """Writes one phase. A phase that is ``conditional`` runs in the work-group whose ``last`` is one; in others, where
    it is zero, it runs over nothing, so that no barrier stands in a branch. Its checks have numbers from
    ``first_check`` on."""

    def __init__(self, phase: Phase, local_memory: int, conditional: bool, first_check: int) -> None:
        group, schedule = phase.group, phase.schedule
        self.group, self.schedule, self.conditional = group, schedule, conditional
        self.lines: list[str] = []
        self.origin: tuple[str, ...] = ()
        self.origins: list[tuple[str, ...]] = []
        self.depth = 1
        self.symbols: dict[Symbol, str] = {}
        self.floats: dict[str, str] = {}
        checks = ((s.code, s.dim, s.size) for s in group.body if isinstance(s, ir.Check))
        self.checks = {check: site for site, check in enumerate(dict.fromkeys(checks), first_check)}
        self.varies = varying(group)
        self.differs = varying(group, schedule.neighbours)
        self.stage = stages(group)
        self.text: dict[int, str] = {}
        self.scanned: dict[int, tuple[str, str]] = {}
        self.exchanges: list[Param] = []
        self.kept = plan_kept(group, schedule, self.varies, self.stage, local_memory)
        self.room = local_memory - 8 * self.kept.extent * len(self.kept.places)

    def run(self) -> Code:
        """The phase's code; none for one that never runs, as drivers do not build a division by a constant zero."""
        if not any(a.size == ZERO for a in self.group.rows):
            self._positions()
            if self.schedule.rows_an_item > 1:
                self._between(0, differing=False)
                self._loop(0)
                self._finish_rows()
            else:
                last = max(self.stage, default=0)
                for stage in range(last + 1):
                    self._between(stage)
                    self._loop(stage)
                self._between(last + 1)
        places, body = self.kept.places.items(), self.group.body
        local = [Param(f"l{n}", "local", body[p].dtype, self.kept.extent) for p, n in places] + self.exchanges
        checks = tuple(self.checks) if self.lines else ()
        return Code(tuple(self.lines), self.symbols, self.floats, checks, tuple(local), tuple(self.origins))

    # ---- positions
    # -------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self.lines.append("    " * self.depth + text)
        self.origins.append(self.origin)

    def _positions(self) -> None:
        if self.schedule.solo:
            self._walk_rows()
            return
        for a in self.schedule.outer:
            self._open_loop(a.name, f"np.int64({self.index(a.size)})")
        if self.schedule.mapping is Mapping.ROWS:
            self._decode(self._row(), self.schedule.dims[0])
            return
        for d, axes in enumerate(self.schedule.dims):
            if axes != (self.schedule.tile,):
                self._own_position(d, axes)
        if (tile := self.schedule.tile) is not None:
            position = f"{self._id(self.schedule.dims.index((tile,)))} * np.int64({TILE})"
            end = f"min({position} + np.int64({TILE}), np.int64({self.index(tile.size)}))"
            self._open_loop(tile.name, f"{position}, {end}")

    def _id(self, dimension: int) -> str:
        """Where a work-item is in the range."""
        return f"np.int64(item.get_{'global_id' if self.schedule.work_group else 'id'}({dimension}))"

    def _own_position(self, dimension: int, axes: tuple[Axis, ...]) -> None:
        """Decode a work-item's position along a dimension; those that only fill up a work-group do nothing."""
        position = self._id(dimension)
        if self.schedule.rows_an_item > 1 and dimension == len(self.schedule.dims) - 1:
            block = self.schedule.rows_an_item * self.schedule.work_group[-1]
            group = f"{_work_group(dimension, self.schedule.work_group[-1])} * np.int64({block})"
            self.line(f"first_row = {group} + np.int64(item.get_local_id({dimension}))")
            return
        if self.schedule.overhangs[dimension]:
            name = axes[0].name if len(axes) == 1 else f"id{dimension}"
            self.line(f"{name} = {position}")
            self.line(f"if {name} < np.int64({self.index(product(a.size for a in axes))}):")
            self.depth += 1
            if len(axes) == 1:
                return
            position = name
        self._decode(position, axes)

    def _row(self) -> str:
        """The position of a work-group's row, or of the one whose turn it is."""
        group, count = _work_group(0, self.schedule.lanes), self.schedule.rows_a_group
        if count == 1:
            return group
        total = self.index(product(a.size for a in self.schedule.dims[0]))
        self.line(f"start = {group} * np.int64({count})")
        self._open_loop("row", f"start, min(start + np.int64({count}), np.int64({total}))")
        return "row"

    def _walk_rows(self) -> None:
        """Loop over the rows, in the one work-group there is: its lanes share each row, or take rows in turn."""
        axes = [(a.name, f"np.int64({self.index(a.size)})") for dim in self.schedule.dims for a in dim]
        if not axes:
            axes = [("once", "np.int64(1)")]
        if self.conditional:
            axes[0] = (axes[0][0], f"{axes[0][1]} * last")
        shared = self.schedule.mapping is Mapping.ROWS
        for a, size in axes if shared else axes[:-1]:
            self._open_loop(a, size)
        if not shared:
            sizes = [a.size.constant for dim in self.schedule.dims for a in dim]
            whole = bool(sizes) and sizes[-1] is not None and sizes[-1] % self.schedule.solo == 0
            self._open_lanes(axes[-1][0], "np.int64(0)", axes[-1][1], self.schedule.solo, whole)

    def _open_loop(self, name: str, bounds: str) -> None:
        self.line(f"for {name} in range({bounds}):")
        self.depth += 1

    def _decode(self, position: str, axes: tuple[Axis, ...]) -> None:
        """Assign ``axes`` (slowest first) from their row-major position."""
        if not axes:
            return
        if len(axes) == 1:
            self.line(f"{axes[0].name} = {position}")
            return
        self.line(f"r = {position}")
        for a in reversed(axes[1:]):
            size = f"np.int64({self.index(a.size)})"
            self.line(f"{a.name} = srem(r, {size})")
            self.line(f"r = sdiv(r, {size})")
        self.line(f"{axes[0].name} = r")

    def index(self, ix: Index) -> str:
        """An index as kernel text."""
        return kernel_text(ix, self.symbols, self.text)

    # ---- code between and inside loops
    # -----------------------------------------------------------------------------------

    def _between(self, stage: int, differing: bool | None = None) -> None:
        """What does not vary over the cols and is known once the loops before ``stage`` are done; of that, only what
        is ``differing`` between neighbours or what is not."""
        for position, statement in enumerate(self.group.body):
            if self.stage[position] != stage or self.varies[position] or isinstance(statement, ir.Reduce):
                continue
            if differing is None or self.differs[position] is differing:
                self._statement(position, statement)
        self.origin = ()

    def _take_row(self, turn: int) -> None:
        """Go to the work-item's row number ``turn``, and compute what the loop needs of it."""
        size = self.schedule.work_group[-1]
        self.line(f"{self.schedule.dims[-1][0].name} = first_row + np.int64({turn * size})")
        self._between(0, differing=True)

    def _finish_rows(self) -> None:
        """Behind the loop that has reduced several rows: the rest of each."""
        reductions = [p for p, s in enumerate(self.group.body) if isinstance(s, ir.Reduce)]
        for turn in range(self.schedule.rows_an_item):
            self._take_row(turn)
            for p in reductions:
                self.combine(p, _of_turn(f"a{p}", turn))
            self._between(1)

    def _loop(self, stage: int) -> None:
        """Run over the cols for the reductions and the varying stores of ``stage``."""
        body = self.group.body
        targets = loop_targets(self.group, self.varies, self.stage, stage)
        if not targets:
            return
        reductions = [p for p in targets if isinstance(body[p], ir.Reduce)]
        needed = self.kept.needed[stage]
        scans = [p for p in needed if isinstance(body[p], ir.Scan)]
        depth, sums = self.depth, [p for p in reductions if self.is_blocked(p)]
        blocked = bool(sums) and not scans and not _is_short(self.group.cols, self.schedule)
        turns = self.schedule.rows_an_item
        partial = {p: f"s{p}" if blocked and p in sums else f"a{p}" for p in reductions}
        for p in reductions + scans:
            self.origin = body[p].origin
            for name, value in self.accumulators(p):
                self._start(name, value)
        self.origin = ()
        if len(scans) == 1 and (block := self.scan_block(self.room)):
            self._scan_blocks(scans[0], needed, stage, block)
            needed = self._behind(scans[0], targets, needed)
        else:
            self._open_loops(sums if blocked else [])
        for turn in range(turns):
            if turns > 1:
                self._take_row(turn)
            self._turn(needed, stage)
            for p in reductions:
                self.accumulate(p, _of_turn(partial[p], turn))
        if blocked:
            self.depth = depth + len(self.schedule.loops)  # in the loop over blocks
            for p in sums:
                self.origin = body[p].origin
                for turn in range(turns):
                    total = _of_turn(f"a{p}", turn)
                    self.line(f"{total} = {total} + {_of_turn(f's{p}', turn)}")
        self.depth = depth
        if turns == 1:
            for p in reductions:
                self.combine(p, f"a{p}")
        self.origin = ()

    def _scan_blocks(self, scan: int, needed: Sequence[int], stage: int, block: int) -> None:
        """Walk blocks of the cols: put what is scanned into work-group memory, scan it there, and open a loop over the
        results."""
        statement = self.reduction(scan)
        before = self._behind(None, [statement.arg], needed)
        start, end = self._bounds(self.schedule.loops[-1])
        self._open_loop("first", f"{start}, {end}, np.int64({block})")
        self.line("barrier()")  # other lanes may still be reading the block before
        depth = self.depth
        self._open_block(scan, block)
        self._turn(before, stage)
        self.line(f"x{scan}[place] = {self.text[statement.arg]}")
        self.depth = depth
        self.scan_block_in_memory(scan, block)
        self._open_block(scan, block)

    def _open_block(self, scan: int, block: int) -> None:
        """The loop over a block that the lanes share, and where in memory each of its elements is."""
        lanes = self.schedule.lanes
        self._open_loop("base", f"np.int64(0), np.int64({block}), np.int64({lanes})")
        self.line(f"{self.schedule.loops[-1].name} = first + base + lane")
        self.line(f"chunk = sdiv(base, np.int64({block // lanes}))")
        self.line("place = base + lane + chunk")

    def _behind(self, stop: int | None, targets: Sequence[int], needed: Sequence[int]) -> tuple[int, ...]:
        """What of ``needed`` the ``targets`` need, themselves included, and not only for the value ``stop``."""
        found, stack = set[int](), list(targets)
        while stack:
            p = stack.pop()
            if p not in found:
                found.add(p)
                stack += () if p == stop else ir.operands(self.group.body[p])
        return tuple(p for p in needed if p in found)

    def _start(self, name: str, value: str) -> None:
        for turn in range(self.schedule.rows_an_item):
            self.line(f"{_of_turn(name, turn)} = {value}")

    def _turn(self, needed: Sequence[int], stage: int) -> None:
        """What one turn of the loop of ``stage`` computes, up to its reductions."""
        for p in needed:
            statement = self.group.body[p]
            self.origin = statement.origin
            if p in self.kept.places and self.kept.first[p] < stage:
                self.text[p] = f"v{p}"
                self.line(f"v{p} = {self._kept_place(p)}")
                continue
            self._statement(p, statement)
            if p in self.kept.places:
                self.line(f"{self._kept_place(p)} = {self.text[p]}")

    def _kept_place(self, position: int) -> str:
        return f"l{self.kept.places[position]}[{self.column()}]"

    def _open_loops(self, blocked: Sequence[int]) -> None:
        """The loops over the cols, with one over blocks around the innermost for the sums that are ``blocked``."""
        *outer, inner = self.schedule.loops
        lanes = self.schedule.lanes
        for a in outer:
            self._open_loop(a.name, ", ".join(self._bounds(a)))
        start, size = self._bounds(inner)
        if blocked:
            block = BLOCK * lanes
            self._open_loop("first", f"{start}, {size}, np.int64({block})")
            for p in blocked:
                self._start(f"s{p}", constant_text(0, self.group.body[p].dtype))
            start, size = "first", f"min(first + np.int64({block}), {size})"
        if lanes == 1:
            self._open_loop(inner.name, f"{start}, {size}, np.int64(1)")
        else:
            self._open_shared_loop(inner, start, size)

    def _open_shared_loop(self, inner: Axis, start: str, stop: str) -> None:
        """The loop over a col that the lanes share."""
        lanes, chunk = self.schedule.lanes, self.schedule.chunk
        length = inner.size
        if chunk is not None and inner is self.schedule.loops[0]:
            length = floor_divide(inner.size + chunk.size - 1, chunk.size)
        whole = all(size.constant is not None and size.constant % lanes == 0 for size in (inner.size, length))
        self._open_lanes(inner.name, start, stop, lanes, whole)

    def _open_lanes(self, name: str, start: str, stop: str, lanes: int, whole: bool) -> None:
        """A loop that the lanes share. It takes the same turns in every lane, so that the driver's vectors need no
        masks; only the last turn may be too long for some, unless they share it as a ``whole``."""
        self.line(f"end = {stop}")
        self._open_loop("base", f"{start}, end, np.int64({lanes})")
        self.line(f"{name} = base + lane")
        if not whole:
            self.line(f"if {name} < end:")
            self.depth += 1

    def _bounds(self, a: Axis) -> tuple[str, str]:
        """Where the loop over ``a`` starts and ends: everywhere, or in this chunk's part of it."""
        size, chunk = f"np.int64({self.index(a.size)})", self.schedule.chunk
        if chunk is None or a is not self.schedule.loops[0]:
            return "np.int64(0)", size
        length = self.index(floor_divide(a.size + chunk.size - 1, chunk.size))
        return f"{chunk.name} * np.int64({length})", f"min(({chunk.name} + np.int64(1)) * np.int64({length}), {size})"

    def _statement(self, position: int, statement: ir.Statement) -> None:
        self.origin = statement.origin
        if isinstance(statement, ir.Const):
            self.text[position] = constant_text(statement.value, statement.dtype)
        elif isinstance(statement, ir.HostFloat):
            self.text[position] = self.floats.setdefault(statement.name, f"f{len(self.floats)}")
        elif isinstance(statement, ir.Store):
            self._store(statement)
        elif isinstance(statement, ir.Update):
            self._update(statement)
        elif isinstance(statement, ir.Check):
            self._check(position, statement)
        elif isinstance(statement, ir.Scan) and self.schedule.lanes > 1:
            self.shared_scan(position, statement)
        elif isinstance(statement, ir.Scan):
            self.accumulate(position, f"a{position}")
            self.text[position] = f"{'p' if statement.fn.startswith('arg') else 'a'}{position}"
        else:
            self.text[position] = f"v{position}"
            self.line(f"v{position} = {self._expression(statement)}")

    def _expression(self, statement: ir.Statement) -> str:
        if isinstance(statement, ir.Load):
            return self._load(statement)
        if isinstance(statement, ir.Coord):
            return f"np.int64({self.index(statement.index)})"
        assert isinstance(statement, ir.Call)
        args = [self.text[a] for a in statement.args]
        types = [self.group.body[a].dtype for a in statement.args]
        if statement.fn == "cast":
            return cast_text(types[0], statement.dtype, args[0])
        return call_text(statement.fn, types[1 if statement.fn == "where" else 0], args)

    def _load(self, statement: ir.Load) -> str:
        """A branch where neighbours agree on the mask. Where they do not, drivers run it for one work-item after the
        other: all read then, some of them the first element."""
        buffer, place = self.group.buffers[statement.buffer], self.index(statement.index)
        if statement.mask is None:
            return load_text(buffer.dtype, f"b{statement.buffer}[{place}]")
        mask, zero = self.text[statement.mask], constant_text(0, statement.dtype)
        if not (buffer.filled and self.differs[statement.mask]):
            return f"{load_text(buffer.dtype, f'b{statement.buffer}[{place}]')} if {mask} else {zero}"
        safe = f"select({mask}, np.int64({place}), np.int64(0))"
        return f"select({mask}, {load_text(buffer.dtype, f'b{statement.buffer}[{safe}]')}, {zero})"

    def _check(self, position: int, statement: ir.Check) -> None:
        value, size = self.text[statement.arg], self.index(statement.size)
        good = f"({value} >= 0) & ({value} < np.int64({size}))"
        known = good if statement.mask is None else f"ior(inot({self.text[statement.mask]}), {good})"
        self.text[position] = f"v{position}"
        # a flag rather than a store in a branch: with several such branches, the CPU driver fails to build loops over
        # lanes
        site = f"site + np.int64({self.checks[statement.code, statement.dim, statement.size]})"
        self.line(f"failed = select({known}, failed, ior(shl({value}, np.int64({SITE_BITS})), {site}))")
        self.line(f"v{position} = select({good}, {value}, np.int64(0))")

    def _store(self, statement: ir.Store) -> None:
        """Store once: by the first lane, or where axes that the place does not depend on are zero."""
        here = statement.index.leaves()
        idle = [
            a.name
            for dim in (self.schedule.outer, *self.schedule.dims)
            for a in dim
            if a not in here and a is not self.schedule.chunk
        ]
        varies = any(c in here for c in self.group.cols)
        if varies:
            idle += [c.name for c in self.group.cols if c not in here]
        elif self.schedule.lanes > 1:
            idle.append("lane")
        buffer = self.group.buffers[statement.buffer]
        value = store_text(buffer.dtype, self.text[statement.value])
        text = f"b{statement.buffer}[{self.index(statement.index)}] = {value}"
        if idle:
            self.line(f"if {' and '.join(f'{a} == 0' for a in idle)}:")
            text = "    " + text
        self.line(text)

    def _update(self, statement: ir.Update) -> None:
        """Read, combine and write back in the buffer's type, as eager does between any two updates."""
        buffer = self.group.buffers[statement.buffer]
        place, value = f"b{statement.buffer}[{self.index(statement.index)}]", self.text[statement.value]
        if statement.fn != "set":
            dtype = self.group.body[statement.value].dtype
            value = call_text(statement.fn, dtype, [f"u{statement.buffer}", value])
            self.line(f"u{statement.buffer} = {load_text(buffer.dtype, place)}")
        self.line(f"{place} = {store_text(buffer.dtype, value)}")


def _of_turn(name: str, turn: int) -> str:
    return f"{name}_{turn}" if turn else name


def _is_short(cols: tuple[Axis, ...], schedule: Schedule) -> bool:
    """Whether a lane adds so few elements that a plain sum is exact enough."""
    count = product(a.size for a in cols).constant
    parts = schedule.lanes * (schedule.chunk.size.constant or 1 if schedule.chunk is not None else 1)
    return count is not None and count <= 4 * BLOCK * parts


def emit(phases: Sequence[Phase], local_memory: int = 0) -> Kernel:
    """The kernel that runs ``phases`` one after the other, with at most ``local_memory`` bytes of work-group memory."""
    tickets = needs_ticket(phases)
    codes: list[Code] = []
    for phase in phases:
        first_check = sum(len(code.checks) for code in codes)
        codes.append(Emitter(phase, local_memory // len(phases), tickets and bool(codes), first_check).run())
    return Assembler(phases, codes).run()
