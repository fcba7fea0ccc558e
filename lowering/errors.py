"""Named errors of the lowering. Only these may lead to a fallback; anything else is a bug and propagates."""

from __future__ import annotations

import torch.fx


class LoweringError(RuntimeError):
    """Base of what the lowering raises about the graph it was given."""


class UnsupportedOpError(LoweringError):
    """A node that cannot be lowered where the user asked for no fallback.

    ``op`` is the overload's name, ``reason`` why it was left out, ``source`` the user's line.
    """

    def __init__(self, op: str, reason: str, source: str) -> None:
        self.op, self.reason, self.source = op, reason, source
        super().__init__(
            f"{op} cannot be lowered: {reason}\n  at {source or 'unknown line'}\n"
            "  Set fallback='eager' to let ATen run this op, or rewrite it in terms of ops that `xpu-aten explain` "
            "shows as fused."
        )


class ArtifactError(LoweringError):
    """An artefact between two stages breaks its own specification: a bug of the compiler, not of the model.

    ``nodes`` names the nodes of the group that it concerns, where it concerns one.
    """

    nodes: tuple[str, ...] = ()


def user_line(node: torch.fx.Node) -> str:
    """The innermost line of the user's program behind ``node``, as ``file:line: code``; empty when unknown."""
    trace = (node.meta.get("stack_trace") or node.stack_trace or "").rstrip().splitlines()
    location, code = "", ""
    for i, line in enumerate(trace):
        if line.lstrip().startswith("File "):
            location = line.strip()
            code = trace[i + 1].strip() if i + 1 < len(trace) else ""
    if not location:
        return ""
    file, _, rest = location.removeprefix('File "').partition('", line ')
    return f"{file}:{rest.partition(',')[0]}: {code}"
