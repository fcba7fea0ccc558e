"""Running a kernel's text without a device: all work-items of some work-groups at a time, line by line.

Work-items advance together, the inactive ones masked, so a statement is a few NumPy operations however many work-items
there are. That order is one of those that a device may choose; that any other gives the same is what the checks for
races and divergent barriers are for. Every access is held against its memory's bounds.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..artifacts import KernelSource
from ..dtypes import storage_name
from .evaluate import Evaluator
from .faults import (
    DataRaceError,
    DivergentBarrierError,
    KernelFault,
    KernelTypeError,
    OutOfBoundsError,
    UninitialisedReadError,
)
from .language import GROUP_FUNCTIONS, GROUP_TYPES, cast
from .memory import Accesses, Memory, Pointer

Array = np.ndarray[Any, Any]

BATCH = 2**18
"""Work-items that run together, at least one work-group: what bounds the memory that values take."""

FLAGS = frozenset({"error", "tickets"})
"""Parameters that are outside the rule on races: any of the work-items that find a fault of the data writes to the one,
and the other is an atomic counter."""


def run_kernel(source: KernelSource, args: Sequence[Pointer | int | float], global_size: Sequence[int]) -> None:
    """Run the kernel over ``global_size`` work-items (slowest dimension first). ``args`` are the parameters in order,
    local memory left out.

    Raises the KernelFault that comes first. What was written before stays written.
    """
    if math.prod(global_size) == 0:
        return
    launch = _Launch(source, args, tuple(global_size))
    for memory in launch.shared:
        memory.watch()
    try:
        with np.errstate(all="ignore"):
            for first in range(0, launch.groups, launch.batch):
                _Batch(launch, first, min(launch.batch, launch.groups - first)).run()
    finally:
        for memory in launch.shared:
            memory.unwatch()


class _Launch:
    """What all batches of a launch share."""

    def __init__(self, source: KernelSource, args: Sequence[Pointer | int | float], size: tuple[int, ...]) -> None:
        self.source, self.size = source, size
        (function,) = ast.parse(source.text).body
        assert isinstance(function, ast.FunctionDef)
        self.body, self.lines = function.body, source.text.splitlines()
        self.local = source.local_size or (1,) * len(size)
        self.counts = tuple(n // m for n, m in zip(size, self.local, strict=True))
        self.lanes, self.groups = math.prod(self.local), math.prod(self.counts)
        self.batch = max(BATCH // self.lanes, 1)
        given = [p for p in source.params if p.kind not in ("local", "counter")]
        bound = dict(zip((p.name for p in given), args, strict=True))
        self.pointers = {n: a for n, a in bound.items() if isinstance(a, Pointer)}
        self.pointers |= {p.name: Pointer(Memory(np.zeros(1, p.dtype))) for p in source.params if p.kind == "counter"}
        self.scalars = {p.name: np.asarray(bound[p.name], p.dtype) for p in given if p.kind == "scalar"}
        written = {_base(t) for s in ast.walk(function) for t in _targets(s) if isinstance(t, ast.Subscript)} - FLAGS
        shared = {id(p.memory): p.memory for n, p in self.pointers.items() if n in written}
        self.shared = tuple(shared.values())


def _targets(statement: ast.AST) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AugAssign) else []


def _base(target: ast.expr) -> str:
    assert isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)
    return target.value.id


class _Batch(Evaluator):
    """The work-items of ``count`` work-groups from the ``first`` on."""

    def __init__(self, launch: _Launch, first: int, count: int) -> None:
        self.launch, self.count = launch, count
        total = count * launch.lanes
        self.lane = np.tile(np.arange(launch.lanes), count)
        self.group = np.repeat(np.arange(first, first + count), launch.lanes)
        self.items = self.group * launch.lanes + self.lane
        self.local_group = self.group - first
        self.epoch = np.zeros(count, np.int64)
        self.active = np.ones(total, bool)
        self.names = dict(launch.scalars)
        self.line = 0
        self.local = {
            p.name: (Memory(np.zeros(count * p.extent, storage_name(p.dtype)), initialised=False), p.extent)
            for p in launch.source.params
            if p.kind == "local"
        }

    def run(self) -> None:
        """The whole kernel."""
        for memory, _ in self.local.values():
            memory.watch()
        self._block(self.launch.body)

    def fault(self, kind: type[KernelFault], rule: str) -> KernelFault:
        """``kind`` at the current line, for ``raise``."""
        return kind(self.launch.source.name, self.line, self.launch.lines[self.line - 1], rule)

    def _who(self, where: Array) -> str:
        item = int(self.items[np.flatnonzero(where)[0]])
        lanes = self.launch.lanes
        return f"work-item {item}" if lanes == 1 else f"work-item {item % lanes} of work-group {item // lanes}"

    # ---- statements --------------------------------------------------------------------------------------------------

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.line = statement.lineno
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self.value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                read = ast.Name(target.id) if isinstance(target, ast.Name) else target
                self._assign(target, self.value(ast.BinOp(read, op, value)))
            case ast.Expr(value=value):
                self.value(value)
            case ast.If(test=test, body=body, orelse=orelse):
                condition = self.truth(test)
                self._masked(condition, body)
                self._masked(~condition, orelse)
            case ast.For():
                self._for(statement)
            case ast.While(test=test, body=body):
                self._while(test, body)
            case ast.Pass():
                pass
            case _:
                raise self.fault(KernelTypeError, f"{type(statement).__name__} is not in the kernel language")

    def _masked(self, condition: Array, body: list[ast.stmt]) -> bool:
        """Run ``body`` for the active work-items with ``condition``; False when there are none."""
        outer = self.active
        self.active = outer & condition
        some = bool(self.active.any())
        if some:
            self._block(body)
        self.active = outer
        return some

    def _for(self, loop: ast.For) -> None:
        assert isinstance(loop.iter, ast.Call) and isinstance(loop.target, ast.Name)
        bounds = [self.value(a).astype(np.int64) for a in loop.iter.args]
        start = bounds[0] if len(bounds) > 1 else np.int64(0)
        stop, step = bounds[min(len(bounds) - 1, 1)], bounds[2] if len(bounds) == 3 else np.int64(1)
        place = np.asarray(start)
        while True:
            # the work-items whose loop is over keep the last value: it is assigned under the mask
            outer, inside = self.active, np.where(step > 0, place < stop, place > stop)
            self.active = outer & inside
            if not self.active.any():
                self.active = outer
                return
            self._assign(loop.target, place)
            self._block(loop.body)
            self.active = outer
            place = place + step

    def _while(self, test: ast.expr, body: list[ast.stmt]) -> None:
        outer = self.active
        condition = self.truth(test)
        while self._masked(condition, body):
            self.active = outer & condition
            condition = condition & self.truth(test)
        self.active = outer

    def _assign(self, target: ast.expr, value: Array) -> None:
        if isinstance(target, ast.Subscript):
            self._store(_base(target), self.value(target.slice), value)
            return
        assert isinstance(target, ast.Name)
        known = self.names.get(target.id)
        if known is not None and known.dtype != value.dtype:
            raise self.fault(KernelTypeError, f"{target.id} was {known.dtype} and becomes {value.dtype}")
        self.names[target.id] = value if known is None or self.active.all() else np.where(self.active, value, known)

    # ---- memory ------------------------------------------------------------------------------------------------------

    def _locate(self, name: str, place: Array) -> tuple[Memory, Array]:
        """The memory behind a parameter, and where the active work-items touch it."""
        inside = np.broadcast_to(place, self.active.shape)[self.active].astype(np.int64)
        if name in self.local:
            memory, extent = self.local[name]
            low, places = inside, inside + self.local_group[self.active] * extent
        elif name in self.launch.pointers:
            pointer = self.launch.pointers[name]
            memory, extent = pointer.memory, pointer.memory.values.size
            low = places = inside + pointer.offset
        else:
            raise self.fault(KernelTypeError, f"{name} is no memory")
        bad = (low < 0) | (low >= extent)
        if bad.any():
            who = np.zeros_like(self.active)
            who[self.active] = bad
            rule = f"{self._who(who)} touches {name}[{int(inside[bad][0])}], outside its {extent} elements"
            raise self.fault(OutOfBoundsError, rule)
        return memory, places

    def _accesses(self) -> Accesses:
        groups = self.local_group[self.active]
        return Accesses(self.items[self.active], self.group[self.active], self.epoch[groups])

    def load(self, name: str, place: Array) -> Array:
        """Element ``place`` of ``name`` for each active work-item; zero for the others."""
        memory, places = self._locate(name, place)
        if memory.initialised is not None and not memory.initialised[places].all():
            raise self.fault(UninitialisedReadError, f"{name} is read where nothing was written")
        if memory.shadow is not None and name not in FLAGS:
            self._refuse_race(name, place, memory.shadow.read(places, self._accesses()))
        result = np.zeros(self.active.shape, memory.values.dtype)
        result[self.active] = memory.values[places]
        return result

    def _store(self, name: str, place: Array, value: Array) -> None:
        memory, places = self._locate(name, place)
        if memory.shadow is not None and name not in FLAGS:
            self._refuse_race(name, place, memory.shadow.write(places, self._accesses()))
        stored = cast(value, memory.values.dtype) if value.dtype != memory.values.dtype else value
        memory.values[places] = np.broadcast_to(stored, self.active.shape)[self.active]
        if memory.initialised is not None:
            memory.initialised[places] = True

    def _refuse_race(self, name: str, place: Array, race: Array) -> None:
        if race.any():
            who = np.zeros_like(self.active)
            who[self.active] = race
            element = int(np.broadcast_to(place, self.active.shape)[who][0])
            rule = f"{self._who(who)} and another one touch {name}[{element}] with no barrier between, and one writes"
            raise self.fault(DataRaceError, rule)

    # ---- the item and its group --------------------------------------------------------------------------------------

    def item(self, method: str, dimension: int) -> Array:
        """The position of each work-item, in the range or in its group, along ``dimension``."""
        launch = self.launch
        group, lane = np.unravel_index(self.group, launch.counts), np.unravel_index(self.lane, launch.local)
        if method == ("get_id" if launch.source.local_size is None else "get_global_id"):
            return group[dimension] * launch.local[dimension] + lane[dimension]
        if method != "get_local_id" or launch.source.local_size is None:
            raise self.fault(KernelTypeError, f"{method} is not for this kind of kernel")
        return lane[dimension]

    def work_group(self, dimension: int, size: Array) -> Array:
        """Where each work-item's group is along ``dimension``."""
        launch = self.launch
        if launch.source.local_size is None or bool((size != launch.local[dimension]).any()):
            raise self.fault(KernelTypeError, f"work_group_{dimension}({size}) in work-groups of {launch.local}")
        return np.unravel_index(self.group, launch.counts)[dimension]

    def ticket(self, name: str) -> Array:
        """Each active work-item's number in the order in which they ask. Who gets the last one sees what all
        work-groups wrote before they asked."""
        counter = self.launch.pointers[name].memory.values
        taken = np.cumsum(self.active) - 1 + int(counter[0])
        counter[0] += int(self.active.sum())
        if int(counter[0]) == self.launch.groups:
            for memory in self.launch.shared:
                memory.watch()
        return taken.astype(counter.dtype)

    def collective(self, name: str, args: list[Array]) -> Array:
        """A barrier or a group operation, which all work-items of a group must reach."""
        if self.launch.source.local_size is None:
            raise self.fault(DivergentBarrierError, f"{name} in a kernel without work-groups")
        shape = (self.count, self.launch.lanes)
        here = self.active.reshape(shape)
        if bool((here.any(1) & ~here.all(1)).any()):
            who = here.any(1)[self.local_group] & ~self.active
            raise self.fault(DivergentBarrierError, f"{self._who(who)} does not reach {name}, others of its group do")
        if name == "barrier":
            self.epoch[here.all(1)] += 1
            return np.asarray(False)
        value = args[0]
        if value.dtype not in GROUP_TYPES or (name.endswith("_nan") and value.dtype.kind != "f"):
            raise self.fault(KernelTypeError, f"{name}({value.dtype}) is not in the kernel language")
        lanes = np.broadcast_to(value, self.active.shape).reshape(shape)
        if name == "group_broadcast":
            chosen = np.broadcast_to(args[1], self.active.shape).reshape(shape)[:, :1].astype(np.int64)
            result = np.broadcast_to(np.take_along_axis(lanes, chosen, 1), shape)
        elif name in GROUP_FUNCTIONS:
            result = GROUP_FUNCTIONS[name](lanes)
        else:
            raise self.fault(KernelTypeError, f"{name} is not in the kernel language")
        return np.ascontiguousarray(result).astype(value.dtype).reshape(self.active.shape)
