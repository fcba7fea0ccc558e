"""A target of a few ops, for symptoms that cost a new process each time they are seen."""

from __future__ import annotations

from collections.abc import Callable

import torch


def function(x: torch.Tensor) -> torch.Tensor:
    """One kernel and a matmul."""
    return torch.nn.functional.gelu(x + 1) @ x.t()


def target() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]:
    """The function and its input."""
    torch.manual_seed(0)
    return function, (torch.randn(6, 16),)
