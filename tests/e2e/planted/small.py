"""A target that is traced in no time."""

from __future__ import annotations

import torch


def target() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Layers with a fused group and matmuls, and their input."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 8)
    return torch.nn.Sequential(*layers), (torch.randn(4, 6, 16),)
