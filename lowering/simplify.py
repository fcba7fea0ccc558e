"""Fewer, longer loops: neighbouring axes that every access walks as one become one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from . import ir
from .index import ZERO, Atom, Axis, Index, atom, coefficient, substitute


def collapse(group: ir.GroupIR) -> ir.GroupIR:
    """``group`` with adjacent axes merged where each index treats them as one contiguous run."""
    group = _without_single(group)
    rows = _collapse_part(group, list(group.rows))
    group = _replace(group, rows, "rows")
    return _replace(group, _collapse_part(group, list(group.cols)), "cols")


def _without_single(group: ir.GroupIR) -> ir.GroupIR:
    return group


def _indexes(group: ir.GroupIR) -> Iterator[Index]:
    for statement in group.body:
        if isinstance(statement, (ir.Load, ir.Store, ir.Coord)):
            yield statement.index


def _collapse_part(group: ir.GroupIR, axes: list[Axis]) -> tuple[list[Axis], dict[Atom, Index]]:
    """Merge pairs (slow, fast) for which stride(slow) = stride(fast) * size(fast) in every index."""
    changes: dict[Atom, Index] = {}
    indexes = list(set(_indexes(group)))
    strides = {a: [coefficient(ix, a) for ix in indexes] for a in axes}
    merged = True
    while merged:
        merged = False
        for slow, fast in ((s, f) for s in axes for f in axes if s is not f):
            pairs = list(zip(strides[slow], strides[fast], strict=True))
            if axes.index(slow) > axes.index(fast) and group.cols and slow in group.cols:
                continue  # positions of arg-reductions count the cols in order
            if all(s is not None and f is not None and s == f * fast.size for s, f in pairs):
                both = Axis(fast.name, slow.size * fast.size)
                changes = {k: substitute(v, {fast: atom(both), slow: ZERO}) for k, v in changes.items()}
                changes[slow], changes[fast] = ZERO, atom(both)
                axes[axes.index(fast)] = both
                axes.remove(slow)
                strides[both] = strides.pop(fast)
                merged = True
                break
    return axes, changes


def _replace(group: ir.GroupIR, result: tuple[list[Axis], dict[Atom, Index]], part: str) -> ir.GroupIR:
    axes, changes = result

    def renamed(statement: ir.Statement) -> ir.Statement:
        if isinstance(statement, (ir.Load, ir.Store, ir.Coord)):
            return dataclasses.replace(statement, index=substitute(statement.index, changes))
        return statement

    body = tuple(map(renamed, group.body)) if changes else group.body
    return dataclasses.replace(group, body=body, **{part: tuple(axes)})
