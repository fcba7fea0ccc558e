"""Steps of text generation: a small Llama over a static cache, reading a prompt, and writing one more token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from aten_backend.comparison.suites.models import tokens, transformers
from aten_backend.comparison.workloads import Case, Workload

_LENGTH = 256
"""Tokens that the cache has room for."""
_PROMPT = 96


class Step(nn.Module):
    """A language model and its cache, whose tensors are buffers here, so that they follow the model into float64."""

    def __init__(self, model: Any, cache: Any) -> None:
        super().__init__()
        self.model, self.cache = model, cache
        for number, layer in enumerate(cache.layers):
            # As if other tokens had been read: zeros would make attention trivial.
            self.register_buffer(f"keys{number}", torch.randn_like(layer.keys))
            self.register_buffer(f"values{number}", torch.randn_like(layer.values))

    def forward(self, ids: Tensor, position: Tensor) -> Tensor:
        """Logits of the last token. ``ids`` is (rows, tokens), ``position`` (tokens,) their places in the cache."""
        for number, layer in enumerate(self.cache.layers):
            layer.keys, layer.values = getattr(self, f"keys{number}"), getattr(self, f"values{number}")
            layer.cumulative_length = position[0].clone()  # else every run would go on from the last one
        mask = (torch.arange(_LENGTH) <= position[:, None])[None, None].expand(ids.shape[0], -1, -1, -1)
        # By place: the name of the cache's parameter changes within the releases that are supported.
        output = self.model(ids, mask, position[None], self.cache, use_cache=True)
        logits: Tensor = output.logits[:, -1]
        return logits


def llama() -> Step:
    """Four layers, and a cache of 256 tokens for two rows."""
    package = transformers()
    config = package.LlamaConfig(vocab_size=1000, hidden_size=384, intermediate_size=1024, num_hidden_layers=4,
                                 num_attention_heads=6, num_key_value_heads=6,
                                 max_position_embeddings=_LENGTH)  # fmt: skip
    model = package.LlamaForCausalLM(config).eval()
    cache = package.StaticCache(config=config, max_cache_len=_LENGTH)
    cache.early_initialization(2, 6, 64, torch.float32, torch.device("cpu"))
    return Step(model, cache).eval()


def prefill() -> Case:
    return Case(llama(), ((tokens(2, _PROMPT), torch.arange(_PROMPT)),))


def decode() -> Case:
    """The same place in every run, so that every run does the same."""
    return Case(llama(), ((tokens(2, 1), torch.tensor([_PROMPT])),))


WORKLOADS = (
    Workload("generation", "Llama prefill", prefill, weight=12.0),
    Workload("generation", "Llama decode", decode, weight=12.0),
)
