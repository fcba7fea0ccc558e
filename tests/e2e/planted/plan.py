"""A fault in the buffer plan: memory counts as free one step before its last use."""

from __future__ import annotations

from torch.fx import Node

from runtime.plan import Planner

last_uses = Planner._last_uses


def wrong(self: Planner) -> dict[int, list[Node]]:
    """The last uses, each a step early."""
    early: dict[int, list[Node]] = {}
    for position, nodes in last_uses(self).items():
        early.setdefault(max(position - 1, 0), []).extend(nodes)
    return early


Planner._last_uses = wrong  # type: ignore[method-assign]
