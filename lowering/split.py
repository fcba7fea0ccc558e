"""Long reductions over few rows: in two kernels, so that every compute unit has work.

The first kernel reduces chunks of the cols to partial results in scratch memory, the second reduces those and computes what
follows. Both run in a fixed order: the same input gives the same bits.
"""

from __future__ import annotations

import dataclasses

from . import ir
from .emit import stages, varying
from .index import Axis, Index, Loaded, atom, index, product, substitute
from .target import Traits

LONG = 2**15
"""Elements of a row from which sharing it pays for a second launch."""

CHUNKS_PER_UNIT = 4
"""Chunks for each compute unit, so that they finish together."""


def split_long(group: ir.GroupIR, traits: Traits) -> tuple[tuple[ir.GroupIR, Axis | None], ...]:
    """The kernels of ``group`` in order, each with its chunk axis if it has one: itself, or its two stages."""
    if not _is_worth_it(group, traits):
        return ((group, None),)
    varies, stage = varying(group), stages(group)
    if any(stage[p] and (isinstance(s, ir.Reduce) or varies[p]) for p, s in enumerate(group.body)):
        return ((group, None),)
    chunk = Axis("chunk", index(CHUNKS_PER_UNIT * traits.compute_units))
    reductions = [p for p, s in enumerate(group.body) if isinstance(s, ir.Reduce)]
    return (_partial(group, stage, reductions, chunk), chunk), (_final(group, varies, stage, reductions, chunk), None)


def _is_worth_it(group: ir.GroupIR, traits: Traits) -> bool:
    plain = all(not isinstance(s, ir.Scan) and not (isinstance(s, ir.Reduce) and s.fn.startswith("arg")) for s in group.body)
    rows = product(a.size for a in group.rows).constant
    cols = product(a.size for a in group.cols).constant
    long = bool(group.cols) and (cols is None and not group.rows or cols is not None and cols >= LONG)
    return plain and long and rows is not None and rows < 2 * traits.compute_units


def _place(group: ir.GroupIR, inner: Axis) -> Index:
    """The position of a row's partial result."""
    position = index(0)
    for a in (*group.rows, inner):
        position = position * a.size + atom(a)
    return position


def _scratch(group: ir.GroupIR, reductions: list[int], chunk: Axis, written: bool) -> tuple[ir.Buffer, ...]:
    size = product(a.size for a in group.rows) * chunk.size
    return tuple(ir.Buffer(f"partial{n}", group.body[group.body[p].arg].dtype, written, size)  # type: ignore[union-attr]
                 for n, p in enumerate(reductions))


def _partial(group: ir.GroupIR, stage: list[int], reductions: list[int], chunk: Axis) -> ir.GroupIR:
    kept = [p for p, s in enumerate(group.body) if stage[p] == 0]
    body, new = _copy(group, kept, {}, [])
    first = len(group.buffers)
    for n, p in enumerate(reductions):
        body.append(ir.Store(first + n, _place(group, chunk), new[p]))
    buffers = group.buffers + _scratch(group, reductions, chunk, True)
    return _without_unused(ir.GroupIR(group.ops, (*group.rows, chunk), group.cols, buffers, tuple(body)))


def _final(group: ir.GroupIR, varies: list[bool], stage: list[int], reductions: list[int], chunk: Axis) -> ir.GroupIR:
    part = Axis("part", chunk.size)
    body: list[ir.Statement] = []
    new: dict[int, int] = {}
    for n, p in enumerate(reductions):
        statement = group.body[p]
        assert isinstance(statement, ir.Reduce)
        body.append(ir.Load(len(group.buffers) + n, _place(group, part), group.body[statement.arg].dtype))
        new[p] = len(body)
        body.append(dataclasses.replace(statement, arg=len(body) - 1))
    kept = [p for p, s in enumerate(group.body) if not varies[p] and p not in new and not (stage[p] == 0 and isinstance(s, ir.Store))]
    body, _ = _copy(group, kept, new, body)
    buffers = group.buffers + _scratch(group, reductions, chunk, False)
    return _without_unused(ir.GroupIR(group.ops, group.rows, (part,), buffers, tuple(body)))


def _copy(group: ir.GroupIR, kept: list[int], new: dict[int, int], body: list[ir.Statement]) -> tuple[list[ir.Statement], dict[int, int]]:
    """Append the statements ``kept`` to ``body`` with their operands renamed by ``new``, which grows."""
    for p in kept:
        new[p] = len(body)
        body.append(renumbered(group.body[p], new))
    return body, new


def renumbered(statement: ir.Statement, new: dict[int, int]) -> ir.Statement:
    """``statement`` with its operands renamed."""
    changes: dict[str, object] = {}
    if isinstance(statement, ir.Call):
        changes["args"] = tuple(new[a] for a in statement.args)
    if isinstance(statement, (ir.Reduce, ir.Scan, ir.Check)):
        changes["arg"] = new[statement.arg]
    if isinstance(statement, ir.Store):
        changes["value"] = new[statement.value]
    if isinstance(statement, (ir.Load, ir.Check)) and statement.mask is not None:
        changes["mask"] = new[statement.mask]
    if isinstance(statement, (ir.Load, ir.Store, ir.Coord)):
        loaded = {a: atom(Loaded(new[a.value], a.size)) for a in statement.index.leaves() if isinstance(a, Loaded)}
        if loaded:
            changes["index"] = substitute(statement.index, loaded)
    return dataclasses.replace(statement, **changes)  # type: ignore[arg-type]


def _without_unused(group: ir.GroupIR) -> ir.GroupIR:
    """``group`` without statements that nothing needs and without buffers that nothing names."""
    needed: set[int] = set()
    for p in reversed(range(len(group.body))):
        if p in needed or isinstance(group.body[p], ir.Store):
            needed.add(p)
            needed.update(ir.operands(group.body[p]))
    body, _ = _copy(group, sorted(needed), {}, [])
    used = sorted({s.buffer for s in body if isinstance(s, (ir.Load, ir.Store))})
    places = {b: n for n, b in enumerate(used)}
    body = [dataclasses.replace(s, buffer=places[s.buffer]) if isinstance(s, (ir.Load, ir.Store)) else s for s in body]
    return dataclasses.replace(group, buffers=tuple(group.buffers[b] for b in used), body=tuple(body))
