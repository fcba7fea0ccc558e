"""Writes at places that depend on data: which loops may run side by side.

Two points of the iteration space may meet in one element. Then their order counts: the last write wins, and sums of
floats depend on it. So the group runs over those axes one after the other, and in parallel over the others.
"""

from __future__ import annotations

import dataclasses

from lowering import ir
from lowering.index import Atom, Axis, Index, Loaded


def spread(group: ir.GroupIR) -> ir.GroupIR:
    """``group`` with the axes over which its updates may meet as ordered cols, if it has updates."""
    updates = [s for s in group.body if isinstance(s, ir.Update)]
    if not updates:
        return group
    apart = set(group.rows)
    for update in updates:
        apart &= _apart(group, update.index)
    rows = tuple(a for a in group.rows if a in apart)
    return dataclasses.replace(group, rows=rows, cols=tuple(a for a in group.rows if a not in apart) + group.cols)


def _apart(group: ir.GroupIR, place: Index) -> set[Axis]:
    """The axes along which ``place`` never meets itself, whatever the loaded indexes in it are."""
    steps: list[tuple[int, int, Atom]] = []
    for monomial, step in place.terms.items():
        if not monomial:
            continue
        extent = monomial[0].size.constant if isinstance(monomial[0], (Axis, Loaded)) else None
        if len(monomial) != 1 or extent is None:
            return set()
        steps.append((step, extent, monomial[0]))
    steps.sort(key=lambda s: s[0])
    covered = 1
    for step, extent, _ in steps:
        if step < covered:  # not the digits of a mixed-radix number: different digits may give one place
            return set()
        covered = step * extent
    return {part for _, _, part in steps if isinstance(part, Axis)}
