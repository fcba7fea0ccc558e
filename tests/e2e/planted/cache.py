"""A target whose own work is seen in its first argument only."""

from __future__ import annotations

from collections.abc import Callable

import torch


def function(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Rows of ``cache`` are replaced; what is returned has nothing to do with that."""
    cache.index_copy_(0, at, torch.nn.functional.gelu(x))
    return x @ x.t()


def target() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]:
    """The function and its input."""
    torch.manual_seed(0)
    return function, (torch.randn(64, 16), torch.tensor([3, 1, 40]), torch.randn(3, 16))
