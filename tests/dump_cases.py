"""A training BERT small enough to dump in a test, and a program whose lines are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

PROGRAM = '''\
import torch


def model(x, w, b):
    y = x @ w
    y = torch.nn.functional.gelu(y + b)
    m = y.mean(-1, keepdim=True)
    return torch.sigmoid(y - m)


def case():
    torch.manual_seed(0)
    x, w, b = torch.randn(24, 32), torch.randn(32, 48), torch.randn(48)
    return model, (x, w.requires_grad_(), b.requires_grad_())
'''

LINES = {"erf": 6, "mean": 7, "sigmoid": 8, "mm": 5}
"""Words of ATen or kernel text, and the line of PROGRAM that they come from."""


def program(folder: Path) -> Path:
    """PROGRAM as a file in ``folder``."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    return path


def bert() -> tuple[Any, tuple[torch.Tensor, ...]]:
    """A step of training up to the loss: two layers, dropout on, a padded batch."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=16, num_labels=3, problem_type="single_label_classification",
    )  # fmt: skip
    model = BertForSequenceClassification(config).train()
    ids, mask = torch.randint(0, 100, (2, 16)), torch.ones(2, 16, dtype=torch.long)
    mask[1, 10:] = 0

    def step(ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> Any:
        return model(ids, attention_mask=mask, labels=labels).loss

    return step, (ids, mask, torch.tensor([0, 2]))
