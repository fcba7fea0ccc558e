"""Long reductions over few rows: in two kernels, so that every compute unit has work.

The first kernel reduces chunks of the cols to partial results in scratch memory, the second reduces those and computes
what follows. Both run in a fixed order: the same input gives the same bits.
"""

from __future__ import annotations

import dataclasses

from . import ir
from .cuts import cut
from .hoist import hoist
from .index import Axis, Index, atom, index, product
from .rewrite import copy_statements, prune
from .stages import stages, varying
from .target import Traits

LONG = 2**15
"""Elements of a row from which sharing it pays for a second launch."""

CHUNKS_PER_UNIT = 4
"""Chunks for each compute unit, so that they finish together."""


def split_long(group: ir.GroupIR, traits: Traits) -> tuple[tuple[ir.GroupIR, Axis | None], ...]:
    """The kernels of ``group`` in order, each with its chunk axis if it has one: itself, or its two stages."""
    if not group.cols:
        return ((hoist(cut(group)), None),)
    if not _is_worth_it(group, traits):
        return ((group, None),)
    varies, stage = varying(group), stages(group)
    if any(stage[p] and (isinstance(s, ir.Reduce) or varies[p]) for p, s in enumerate(group.body)):
        return ((group, None),)
    chunk = Axis("chunk", index(CHUNKS_PER_UNIT * traits.compute_units))
    reductions = [p for p, s in enumerate(group.body) if isinstance(s, ir.Reduce)]
    return (_partial(group, stage, reductions, chunk), chunk), (_final(group, varies, stage, reductions, chunk), None)


def unsplit(group: ir.GroupIR, traits: Traits) -> tuple[tuple[ir.GroupIR, Axis | None], ...]:
    """``group`` in one kernel, however long its reductions are."""
    return ((group, None),)


def _is_worth_it(group: ir.GroupIR, traits: Traits) -> bool:
    plain = all(
        not isinstance(s, ir.Scan) and not (isinstance(s, ir.Reduce) and s.fn.startswith("arg")) for s in group.body
    )
    rows = product(a.size for a in group.rows).constant
    cols = product(a.size for a in group.cols).constant
    long = bool(group.cols) and ((cols is None and not group.rows) or (cols is not None and cols >= LONG))
    return plain and long and rows is not None and rows < 2 * traits.compute_units


def _place(group: ir.GroupIR, inner: Axis) -> Index:
    """The position of a row's partial result."""
    position = index(0)
    for a in (*group.rows, inner):
        position = position * a.size + atom(a)
    return position


def _scratch(group: ir.GroupIR, reductions: list[int], chunk: Axis, written: bool) -> tuple[ir.Buffer, ...]:
    """Memory for the partial results, named after a result of the group, so that no other group names its own so."""
    size = product(a.size for a in group.rows) * chunk.size
    owner = next(b.name for b in group.buffers if b.written)
    dtypes = [group.body[ir.operands(group.body[p])[0]].dtype for p in reductions]
    return tuple(ir.Buffer(f"partial{n}_{owner}", dtype, written, size) for n, dtype in enumerate(dtypes))


def _partial(group: ir.GroupIR, stage: list[int], reductions: list[int], chunk: Axis) -> ir.GroupIR:
    kept = [p for p, s in enumerate(group.body) if stage[p] == 0]
    body, new = copy_statements(group, kept, {}, [])
    first = len(group.buffers)
    for n, p in enumerate(reductions):
        body.append(ir.Store(first + n, _place(group, chunk), new[p], origin=group.body[p].origin))
    buffers = group.buffers + _scratch(group, reductions, chunk, True)
    return prune(ir.GroupIR(group.ops, (*group.rows, chunk), group.cols, buffers, tuple(body)))


def _final(group: ir.GroupIR, varies: list[bool], stage: list[int], reductions: list[int], chunk: Axis) -> ir.GroupIR:
    part = Axis("part", chunk.size)
    body: list[ir.Statement] = []
    new: dict[int, int] = {}
    for n, p in enumerate(reductions):
        statement = group.body[p]
        assert isinstance(statement, ir.Reduce)
        dtype = group.body[statement.arg].dtype
        body.append(ir.Load(len(group.buffers) + n, _place(group, part), dtype, origin=statement.origin))
        new[p] = len(body)
        body.append(dataclasses.replace(statement, arg=len(body) - 1))
    kept = [
        p
        for p, s in enumerate(group.body)
        if not varies[p] and p not in new and not (stage[p] == 0 and isinstance(s, ir.Store))
    ]
    body, _ = copy_statements(group, kept, new, body)
    buffers = group.buffers + _scratch(group, reductions, chunk, False)
    return prune(ir.GroupIR(group.ops, group.rows, (part,), buffers, tuple(body)))
