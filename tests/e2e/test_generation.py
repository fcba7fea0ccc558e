"""Generation with a static cache: eager's tokens, one graph for the prompt and one for every decode step."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters

transformers = pytest.importorskip("transformers")

TOKENS = 64


def llama():
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def generate(model, ids):
    """Greedy tokens; transformers must not compile by itself."""
    return model.generate(
        ids, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, cache_implementation="static",
        disable_compile=True,
    )  # fmt: skip


@pytest.mark.slow
def test_generate_gives_eagers_tokens():
    model, prompts = llama(), torch.randint(2, 128, (2, 1, 8))
    expected = [generate(model, ids) for ids in prompts]
    model.forward = torch.compile(model.forward, backend="xpu_aten")
    counters.clear()
    assert torch.equal(generate(model, prompts[0]), expected[0])
    assert counters["xpu_aten"]["graphs"] <= 2 and counters["xpu_aten"]["fallback_nodes"] == 0
    counters.clear()
    assert torch.equal(generate(model, prompts[1]), expected[1])
    assert counters["xpu_aten"]["graphs"] == 0  # not one compile after the first run
