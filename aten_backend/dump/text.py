"""Artefacts as text."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule


def readable(artefact: Any) -> str:
    """An artefact as text."""
    if isinstance(artefact, GraphModule):
        return str(artefact.print_readable(print_output=False))
    if isinstance(artefact, (list, tuple)):
        return "\n\n".join(readable(a) for a in artefact if a is not None)
    if isinstance(artefact, dict):
        return "\n".join(map(str, artefact.values()))
    return str(artefact)
