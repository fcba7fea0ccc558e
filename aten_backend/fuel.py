"""Fusion fuel: only so many groups are fused, so that a search by halves finds the one that goes wrong."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.partition import Group

EMPTY = "fusion_fuel is used up"


def spend(groups: Sequence[Group], fuel: int | None) -> dict[str, str]:
    """Nodes of a graph's groups beyond the first ``fuel``, each with the reason why it is left to ATen.

    Fuel counts per graph, in execution order. None is no limit.
    """
    if fuel is None:
        return {}
    return {n.name: EMPTY for g in [g for g in groups if g.stored][fuel:] for n in g.nodes}
