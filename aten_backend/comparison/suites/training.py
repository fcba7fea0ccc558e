"""Training steps: forward and backward, without the optimizer, whose arithmetic is in the suite ``fusion``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aten_backend.comparison.suites import models
from aten_backend.comparison.workloads import Case, Workload


class CrossEntropy(nn.Module):
    """The loss alone: its logits are its parameter."""

    def __init__(self, rows: int, classes: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.randn(rows, classes))

    def forward(self, target: Tensor) -> Tensor:
        return F.cross_entropy(self.logits, target)


class Feedforward(nn.Module):
    """Linear, GELU, LayerNorm, Linear."""

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(self.norm(F.gelu(self.first(x))))
        return result


def cross_entropy() -> Case:
    return Case(CrossEntropy(512, 8192), ((torch.randint(8192, (512,)),),), train=True)


def feedforward() -> Case:
    return Case(Feedforward(256, 1024, 128), ((torch.randn(256, 256),),), train=True)


def gpt2() -> Case:
    ids = models.tokens(2, 64)
    model = models.gpt2_model(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0).train()
    return Case(model, ((),), {"input_ids": ids, "labels": ids, "use_cache": False}, train=True)


def t5() -> Case:
    ids = models.tokens(2, 32)
    return Case(models.t5_model().train(), ((),), {"input_ids": ids, "labels": ids, "use_cache": False}, train=True)


def bert() -> Case:
    ids = models.tokens(2, 64)
    return Case(
        models.bert_model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train(), ((ids,),), train=True
    )


def resnet() -> Case:
    return Case(models.resnet_model().train(), ((torch.randn(4, 3, 128, 128),),), train=True)


WORKLOADS = (
    Workload("training", "cross_entropy", cross_entropy, weight=3.0),
    Workload("training", "Linear-GELU-LayerNorm-Linear", feedforward, weight=3.0),
    Workload("training", "GPT-2 step", gpt2, weight=20.0),
    Workload("training", "BERT step", bert, weight=15.0),
    Workload("training", "T5 step", t5, weight=25.0),
    Workload("training", "ResNet-18 step", resnet, weight=20.0),
)
