"""A training BERT small enough to dump in a test, and a program whose lines are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

PROGRAM = """\
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
"""

LINES = {"erf": 6, "mean": 7, "sigmoid": 8, "mm": 5}
"""Words of ATen or kernel text, and the line of PROGRAM that they come from."""


def program(folder: Path) -> Path:
    """PROGRAM as a file in ``folder``."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    return path


def _writes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    y.mul_(x.sum())
    return x.cos()


def _scatters(x: torch.Tensor, i: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.index_add(0, i, s).exp(), torch.zeros(10, dtype=torch.int64).scatter_add(0, i, torch.ones_like(i))


def _long(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(), x.softmax(0), x.argmax()


def _half(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (64,)).sigmoid()


def _constant(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor([1.0, 2.0, 3.0])


def _masked(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(m, float("-inf")).softmax(-1) * x.shape[0]


def _random(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.5) * torch.rand_like(x)


def odd_programs() -> dict[str, tuple[Any, tuple[Any, ...], bool]]:
    """Programs whose dumps are not straightforward: function, arguments, and whether sizes are symbols."""
    return {
        "writes to its arguments": (_writes, (torch.randn(8), torch.randn(8)), False),
        "scatters": (_scatters, (torch.randn(10, 4), torch.tensor([1, 1, 9, 3]), torch.randn(4, 4)), False),
        "looks up": (torch.nn.functional.embedding, (torch.randint(0, 50, (7,)), torch.randn(50, 8)), False),
        "sizes that data decides": (lambda x: x.nonzero().float() * 2, (torch.randn(20).relu(),), False),
        "two kernels for one reduction": (_long, (torch.randn(2**17),), False),
        "half precision": (_half, (torch.randn(8, 64).bfloat16(),), False),
        "a number known at run time": (lambda x, k: x * k, (torch.randn(5, 6), 7), True),
        "a constant": (_constant, (torch.randn(3),), False),
        "symbols and infinities": (_masked, (torch.randn(4, 9), torch.rand(4, 9) < 0.3), True),
        "complex numbers": (lambda x: torch.fft.rfft(x).abs() + 1, (torch.randn(16),), False),
        "random numbers": (_random, (torch.randn(40),), False),
        "no elements": (lambda x: x.sin() + 1, (torch.randn(0, 3),), False),
    }


GELU = ("activations.py", "return self.act(input)")
POOL = ("modeling_bert.py", "pooled_output = self.activation(pooled_output)")
BERT_LINES = {"forward": {"erf(": GELU, "tanh(": POOL}, "backward": {"0.7071067": GELU}}
"""Words of kernel text by graph, and the file and the text of the line of BERT's that they come from."""


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
