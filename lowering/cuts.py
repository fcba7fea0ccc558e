"""Axes cut where masks change, as those of a concatenation do.

A mask that compares the fastest axis with its middle differs between the work-items of a vector, whose loads become
gathers. With the axis as two, halves and places in a half, it is the same for a whole vector, whose loads stay whole.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from . import ir
from .index import Axis, atom, index
from .schedule import VECTOR
from .simplify import with_rows

_COMPARISONS = frozenset({"lt", "ge"})


def cut(group: ir.GroupIR) -> ir.GroupIR:
    """``group``, each row axis cut in equal parts at the numbers that it is only ever compared with."""
    for axis in group.rows if not group.cols else ():
        places = _compared(group, axis)
        part = math.gcd(axis.size.constant or 0, *places.values())
        if places and part % VECTOR == 0 and part < (axis.size.constant or 0):
            group = _cut(group, axis, part, places)
    return group


def _compared(group: ir.GroupIR, axis: Axis) -> dict[int, int]:
    """The constants with which the position along ``axis`` is compared, by their statement. None where positions or
    constants are used for something else as well."""
    positions = {p for p, s in enumerate(group.body) if isinstance(s, ir.Coord) and s.index == atom(axis)}
    found: dict[int, int] = {}
    comparisons: set[int] = set()
    for user, statement in enumerate(group.body):
        if isinstance(statement, ir.Call) and statement.fn in _COMPARISONS and statement.args[0] in positions:
            limit = group.body[statement.args[1]]
            if isinstance(limit, ir.Const):
                comparisons.add(user)
                found[statement.args[1]] = int(limit.value)
    elsewhere = (o for user, s in enumerate(group.body) if user not in comparisons for o in ir.operands(s))
    return {} if any(o in positions or o in found for o in elsewhere) else found


def _cut(group: ir.GroupIR, axis: Axis, part: int, places: dict[int, int]) -> ir.GroupIR:
    """``group`` with ``axis`` as a part's number and a place in the part. What was compared with a multiple of
    ``part`` is now the part's number."""
    assert axis.size.constant is not None
    slow, fast = Axis(f"{axis.name}_part", index(axis.size.constant // part)), Axis(axis.name, index(part))

    def compared(position: int, statement: ir.Statement) -> ir.Statement:
        if isinstance(statement, ir.Coord) and statement.index == atom(axis):
            return dataclasses.replace(statement, index=atom(slow))
        if position in places and isinstance(statement, ir.Const):
            return dataclasses.replace(statement, value=places[position] // part)
        return statement

    def rows() -> Iterator[Axis]:
        for a in group.rows:
            yield from (slow, fast) if a == axis else (a,)

    body = tuple(compared(p, s) for p, s in enumerate(group.body))
    return with_rows(dataclasses.replace(group, body=body), list(rows()), {axis: atom(slow) * part + atom(fast)})
