"""Work that is the same for a whole row of a pointwise group, taken out of its inner loop.

A work-item a point computes everything anew, a channel's ``1 / sqrt(var + eps)`` too. With the fastest axis as a
column, a work-group walks a row and computes once what the row has in common.
"""

from __future__ import annotations

import dataclasses

from . import ir
from .index import ONE, ZERO, Axis, coefficient
from .scalars import FUNCTIONS
from .stages import varying

WORTHWHILE = 6
"""Additions' worth of common work, from which it pays: a square root."""

LONG = 256
"""Columns from which starting a work-group costs little."""


def hoist(group: ir.GroupIR) -> ir.GroupIR:
    """``group`` itself, or, where its rows have much in common, with the axis that memory runs along as a column."""
    axis = _contiguous(group)
    if axis is None or (axis.size.constant or 0) < LONG:
        return group
    common = (s for s, varies in zip(group.body, varying(group, (axis,)), strict=True) if not varies)
    if sum(FUNCTIONS[s.fn].cost for s in common if isinstance(s, ir.Call) and s.fn in FUNCTIONS) < WORTHWHILE:
        return group
    rows = tuple(a for a in group.rows if a != axis)
    return dataclasses.replace(group, rows=rows, cols=(axis,))


def _contiguous(group: ir.GroupIR) -> Axis | None:
    """The axis of a pointwise group along which all its stores run, and its loads run or stay."""
    stores = [s.index for s in group.body if isinstance(s, ir.Store)]
    loads = [s.index for s in group.body if isinstance(s, ir.Load)]
    if group.cols or any(isinstance(s, ir.Update) for s in group.body):
        return None
    for axis in group.rows:
        if all(coefficient(ix, axis) == ONE for ix in stores):
            return axis if all(coefficient(ix, axis) in (ZERO, ONE) for ix in loads) else None
    return None
