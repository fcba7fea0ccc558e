"""Models of the transformers package at small sizes with random weights: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from aten_backend.comparison.workloads import Case, Workload, WorkloadError


def transformers() -> Any:
    """The package, imported when the first model is made: it takes seconds and is an extra."""
    try:
        import transformers as package
    except ImportError as error:
        raise WorkloadError(
            f"This workload needs transformers ({error}). Install the extra: pip install 'xpu_aten[models]'."
        ) from error
    return package


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(1000, (rows, length))


def bert_model(**changes: Any) -> Any:
    """The encoder that is used here and in training."""
    package = transformers()
    config = package.BertConfig(vocab_size=1000, hidden_size=384, num_hidden_layers=4, num_attention_heads=6,
                                intermediate_size=1536, max_position_embeddings=128, **changes)  # fmt: skip
    return package.BertModel(config)


def bert() -> Case:
    return Case(bert_model().eval(), ((tokens(4, 128),),))


def llama() -> Case:
    package = transformers()
    config = package.LlamaConfig(vocab_size=1000, hidden_size=384, intermediate_size=1024, num_hidden_layers=4,
                                 num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=256)  # fmt: skip
    return Case(package.LlamaModel(config).eval(), ((tokens(2, 128),),), {"use_cache": False})


def gpt2_model(**changes: Any) -> Any:
    """The language model that is used here and in training."""
    package = transformers()
    config = package.GPT2Config(vocab_size=1000, n_embd=192, n_layer=4, n_head=6, n_positions=128, **changes)
    return package.GPT2LMHeadModel(config)


def gpt2() -> Case:
    return Case(gpt2_model().eval(), ((tokens(2, 128),),), {"use_cache": False})


def vit() -> Case:
    package = transformers()
    config = package.ViTConfig(hidden_size=192, num_hidden_layers=4, num_attention_heads=3, intermediate_size=768,
                               image_size=128, patch_size=16)  # fmt: skip
    return Case(package.ViTModel(config).eval(), ((torch.randn(4, 3, 128, 128),),))


def convnext() -> Case:
    package = transformers()
    config = package.ConvNextConfig(hidden_sizes=[32, 64, 96, 128], depths=[2, 2, 2, 2], image_size=128)
    return Case(package.ConvNextModel(config).eval(), ((torch.randn(4, 3, 128, 128),),))


def resnet_model() -> Any:
    """A ResNet-18 for ten classes."""
    package = transformers()
    config = package.ResNetConfig(embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2],
                                  layer_type="basic", num_labels=10)  # fmt: skip
    return package.ResNetForImageClassification(config)


def resnet() -> Case:
    return Case(resnet_model().eval(), ((torch.randn(4, 3, 128, 128),),))


def t5_model() -> Any:
    """Two layers of encoder and two of decoder, without dropout."""
    package = transformers()
    config = package.T5Config(vocab_size=1000, d_model=256, d_kv=32, d_ff=512, num_layers=2, num_heads=8,
                              decoder_start_token_id=0, dropout_rate=0.0)  # fmt: skip
    return package.T5ForConditionalGeneration(config)


def t5() -> Case:
    ids = tokens(2, 64)
    return Case(t5_model().eval(), ((),), {"input_ids": ids, "decoder_input_ids": ids, "use_cache": False})


def whisper() -> Case:
    package = transformers()
    config = package.WhisperConfig(d_model=128, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=256,
                                   num_mel_bins=40, max_source_positions=100)  # fmt: skip
    model = package.models.whisper.modeling_whisper.WhisperEncoder(config)
    return Case(model.eval(), ((torch.randn(2, 40, 200),),))


def mamba() -> Case:
    package = transformers()
    config = package.MambaConfig(vocab_size=1000, hidden_size=64, state_size=8, num_hidden_layers=2, use_mambapy=False)
    return Case(package.MambaModel(config).eval(), ((tokens(2, 16),),), {"use_cache": False})


_TABLE: tuple[tuple[str, Callable[[], Case]], ...] = (
    ("BERT", bert),
    ("Llama", llama),
    ("GPT-2", gpt2),
    ("ViT", vit),
    ("ConvNeXt", convnext),
    ("ResNet-18", resnet),
    ("T5", t5),
    ("Whisper encoder", whisper),
    ("Mamba scan", mamba),
)

WORKLOADS = tuple(Workload("models", name, make, weight=12.0) for name, make in _TABLE)
