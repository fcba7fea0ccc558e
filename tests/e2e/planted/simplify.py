"""A fault in the simplifier of indexes: where axes are merged, loads at the last place read the first."""

from __future__ import annotations

import dataclasses
from typing import Any

from lowering import ir, simplify
from lowering.index import Axis, atom, modulo, substitute

replace = simplify._replace


def wrong(group: ir.GroupIR, result: tuple[list[Axis], dict[Any, Any]], part: str) -> ir.GroupIR:
    """The merge, and loads that wrap around too early."""
    group = replace(group, result, part)
    merged = [a for a in result[0] if atom(a) in result[1].values()]
    early: dict[Any, Any] = {a: modulo(atom(a), a.size - 1) for a in merged}

    def changed(statement: ir.Statement) -> ir.Statement:
        if isinstance(statement, ir.Load):
            return dataclasses.replace(statement, index=substitute(statement.index, early))
        return statement

    return dataclasses.replace(group, body=tuple(map(changed, group.body)))


simplify._replace = wrong
