"""Training small models: the loss follows eager's at every step.

``TRAINING_STEPS=200 pytest tests/e2e/test_training_runs.py`` is the whole run; a suite takes the first steps only.
"""

from __future__ import annotations

import copy
import os

import pytest
import torch

transformers = pytest.importorskip("transformers")

STEPS = int(os.environ.get("TRAINING_STEPS", "20"))


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=200, n_embd=64, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    ids = torch.randint(0, 200, (4, 32))
    return model, lambda m: m(input_ids=ids, labels=ids, use_cache=False).loss


def vit():
    config = transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, image_size=32, patch_size=8,
        hidden_dropout_prob=0.1, num_labels=10,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    return model, lambda m: m(pixel_values=images, labels=labels).loss


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", num_labels=10
    )
    model = transformers.ResNetForImageClassification(config)
    images, labels = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    return model, lambda m: m(pixel_values=images, labels=labels).loss


def losses(model, loss_of, compile_with, autocast):
    """The loss before each step of AdamW, dropout on, the same stream of random numbers each time."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run, step = model, optimizer.step
    if compile_with is not None:
        run, step = torch.compile(model, backend=compile_with), torch.compile(optimizer.step, backend=compile_with)
    model.train()
    torch.manual_seed(1)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = loss_of(run)
        loss.backward()
        step()
        found.append(loss.item())
    return torch.tensor(found)


@pytest.mark.slow
@pytest.mark.parametrize("make", [gpt2, vit, resnet])
@pytest.mark.parametrize(("autocast", "bound"), [(False, 1e-3), (True, 5e-2)], ids=["float32", "bfloat16"])
def test_loss_follows_eager(make, autocast, bound):
    """float32 within 1e-3 of eager's loss, relative to it; bfloat16 autocast, whose own rounding differs, within 5e-2
    of the first loss."""
    torch.manual_seed(0)
    model, loss_of = make()
    twin = copy.deepcopy(model)
    eager = losses(twin, loss_of, None, autocast)
    ours = losses(model, loss_of, "xpu_aten", autocast)
    scale = eager[0] if autocast else eager
    distance = ((ours - eager).abs() / scale).max().item()
    assert eager[-1] < eager[0] and distance < bound
