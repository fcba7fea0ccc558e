"""Fewer, longer loops: neighbouring axes that every access walks as one become one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from . import ir
from .index import ZERO, Atom, Axis, Index, atom, coefficient, index, substitute
from .schedule import RANGE_LIMIT


def collapse(group: ir.GroupIR) -> ir.GroupIR:
    """``group`` with adjacent axes merged where each index treats them as one contiguous run."""
    group = uncollapsed(group)
    group = _replace(group, _collapse_part(group, list(group.rows)), "rows")
    ordered = any(isinstance(s, (ir.Scan, ir.Update)) for s in group.body)
    return _replace(group, _collapse_part(group, list(group.cols), ordered), "cols")


def uncollapsed(group: ir.GroupIR) -> ir.GroupIR:
    """``group`` with its axes as they are, but for those that no range takes."""
    return _replace(group, _split_huge(list(group.rows)), "rows")


def with_rows(group: ir.GroupIR, rows: list[Axis], changes: dict[Atom, Index]) -> ir.GroupIR:
    """``group`` over other ``rows``: each axis among ``changes`` becomes the index that it is there."""
    return _replace(group, (rows, changes), "rows")


def _is_huge(size: Index) -> bool:
    return size.constant is not None and size.constant >= RANGE_LIMIT


def _split_huge(axes: list[Axis]) -> tuple[list[Axis], dict[Atom, Index]]:
    """Split axes that are too long for a range by a divisor, so that a part can be a loop; a prime length stays
    whole."""
    changes: dict[Atom, Index] = {}
    result: list[Axis] = []
    for a in axes:
        size = a.size.constant or 0
        inner = next((d for d in range(2**16, 1, -1) if size % d == 0), None) if _is_huge(a.size) else None
        if inner is None:
            result.append(a)
            continue
        slow, fast = Axis(f"{a.name}_slow", index(size // inner)), Axis(f"{a.name}_fast", index(inner))
        changes[a] = atom(slow) * inner + atom(fast)
        result += [slow, fast]
    return result, changes


def _indexes(group: ir.GroupIR) -> Iterator[Index]:
    for statement in group.body:
        if isinstance(statement, (ir.Load, ir.Store, ir.Update, ir.Coord)):
            yield statement.index


def _collapse_part(group: ir.GroupIR, axes: list[Axis], ordered: bool = False) -> tuple[list[Axis], dict[Atom, Index]]:
    """Merge pairs (slow, fast) for which stride(slow) = stride(fast) * size(fast) in every index; where the loops are
    ``ordered``, as for scans and updates, only neighbours."""
    changes: dict[Atom, Index] = {}
    indexes = list(set(_indexes(group)))
    strides = {a: [coefficient(ix, a) for ix in indexes] for a in axes}
    merged = True
    while merged:
        merged = False
        for slow, fast in ((s, f) for s in axes for f in axes if s is not f):
            if _is_huge(slow.size * fast.size) and slow in group.rows:
                continue
            pairs = list(zip(strides[slow], strides[fast], strict=True))
            if ordered and axes.index(fast) != axes.index(slow) + 1:
                continue
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
        if isinstance(statement, (ir.Load, ir.Store, ir.Update, ir.Coord)):
            return dataclasses.replace(statement, index=substitute(statement.index, changes))
        return statement

    body = tuple(map(renamed, group.body)) if changes else group.body
    group = dataclasses.replace(group, body=body)
    return (
        dataclasses.replace(group, rows=tuple(axes)) if part == "rows" else dataclasses.replace(group, cols=tuple(axes))
    )
