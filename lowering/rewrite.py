"""Rewrites of group IR that several stages share."""

from __future__ import annotations

import dataclasses

from . import ir
from .index import Atom, Index, Loaded, atom, substitute


def copy_statements(
    group: ir.GroupIR, kept: list[int], new: dict[int, int], body: list[ir.Statement]
) -> tuple[list[ir.Statement], dict[int, int]]:
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
    if isinstance(statement, ir.Reduce) and statement.position is not None:
        changes["position"] = new[statement.position]
    if isinstance(statement, (ir.Store, ir.Update)):
        changes["value"] = new[statement.value]
    if isinstance(statement, (ir.Load, ir.Check)) and statement.mask is not None:
        changes["mask"] = new[statement.mask]
    if isinstance(statement, (ir.Load, ir.Store, ir.Update, ir.Coord)):
        loaded: dict[Atom, Index] = {
            a: atom(Loaded(new[a.value], a.size)) for a in statement.index.leaves() if isinstance(a, Loaded)
        }
        if loaded:
            changes["index"] = substitute(statement.index, loaded)
    return dataclasses.replace(statement, **changes)  # type: ignore[arg-type]


def prune(group: ir.GroupIR) -> ir.GroupIR:
    """``group`` without statements that nothing needs and without buffers that nothing names."""
    needed: set[int] = set()
    for p in reversed(range(len(group.body))):
        if p in needed or isinstance(group.body[p], (ir.Store, ir.Update, ir.Check)):
            needed.add(p)
            needed.update(ir.operands(group.body[p]))
    body, _ = copy_statements(group, sorted(needed), {}, [])
    used = sorted({s.buffer for s in body if isinstance(s, (ir.Load, ir.Store, ir.Update))})
    places = {b: n for n, b in enumerate(used)}
    moves = (ir.Load, ir.Store, ir.Update)
    body = [dataclasses.replace(s, buffer=places[s.buffer]) if isinstance(s, moves) else s for s in body]
    return dataclasses.replace(group, buffers=tuple(group.buffers[b] for b in used), body=tuple(body))
