"""Two small real models with real input, also usable as targets: `xpu-aten explain examples/models.py:bert`.

The weights are random, because nothing is downloaded; the structure, the sizes and the input are those of real use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import WordPiece
from transformers import BertConfig, BertModel, ResNetConfig, ResNetForImageClassification

# The Gettysburg Address (Abraham Lincoln, 1863), in four parts of different lengths, so that a batch needs padding.
TEXT = (
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty, "
    "and dedicated to the proposition that all men are created equal.",
    "Now we are engaged in a great civil war, testing whether that nation, or any nation so conceived and so "
    "dedicated, can long endure. We are met on a great battle-field of that war. We have come to dedicate a portion "
    "of that field, as a final resting place for those who here gave their lives that that nation might live. It is "
    "altogether fitting and proper that we should do this.",
    "But, in a larger sense, we can not dedicate -- we can not consecrate -- we can not hallow -- this ground. The "
    "brave men, living and dead, who struggled here, have consecrated it, far above our poor power to add or detract. "
    "The world will little note, nor long remember what we say here, but it can never forget what they did here.",
    "It is for us the living, rather, to be dedicated here to the unfinished work which they who fought here have "
    "thus far so nobly advanced. It is rather for us to be here dedicated to the great task remaining before us -- "
    "that from these honored dead we take increased devotion to that cause for which they gave the last full measure "
    "of devotion -- that we here highly resolve that these dead shall not have died in vain -- that this nation, "
    "under God, shall have a new birth of freedom -- and that government of the people, by the people, for the "
    "people, shall not perish from the earth.",
)

Case = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


def bert() -> Case:
    """A BERT of four layers on four paragraphs of 128 tokens, padding masked."""
    length = 128
    tokenizer = _train_tokenizer(length)
    encoded = tokenizer.encode_batch(list(TEXT))
    ids = torch.tensor([line.ids for line in encoded])
    mask = torch.tensor([line.attention_mask for line in encoded])
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=384,
        num_hidden_layers=4,
        num_attention_heads=6,
        intermediate_size=1536,
        max_position_embeddings=length,
    )
    return BertModel(config).eval(), (ids, mask)


def bert_training() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]:
    """A step of training that BERT to tell the paragraphs apart, up to the loss."""
    model, (ids, mask) = bert()
    head = torch.nn.Linear(384, len(TEXT))
    model.train()

    def step(ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        pooled = model(ids, attention_mask=mask).pooler_output
        return torch.nn.functional.cross_entropy(head(pooled), labels)

    return step, (ids, mask, torch.arange(len(TEXT)))


def _train_tokenizer(length: int) -> Tokenizer:
    """A WordPiece tokenizer trained on the text itself, with BERT's normalisation and special tokens."""
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=tokenizer.token_to_id("[PAD]"), pad_token="[PAD]")
    return tokenizer


def resnet() -> Case:
    """A ResNet-18 on four pictures of 128x128."""
    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=64,
        hidden_sizes=[64, 128, 256, 512],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        num_labels=10,
    )
    model = ResNetForImageClassification(config)
    images = torch.stack([_normalise(_draw(seed)) for seed in range(4)])
    _settle_batch_norms(model, images)
    return model.eval(), (images,)


def _draw(seed: int, size: int = 128) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A drawn picture, height x width x RGB in bytes: a sky, a sun, hills, a striped house and some grain."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:size, 0:size] / size
    picture = np.stack([0.4 + 0.3 * y, 0.6 + 0.2 * y, 0.95 - 0.2 * y], axis=-1)
    sun = np.hypot(x - random.uniform(0.2, 0.8), y - 0.2) < random.uniform(0.06, 0.14)
    picture[sun] = (1.0, 0.85, 0.3)
    hills = y > 0.65 + 0.1 * np.sin(2 * np.pi * (x * random.uniform(1, 3) + random.uniform()))
    picture[hills] = (0.2, 0.5, 0.25)
    left, top = random.uniform(0.1, 0.6), random.uniform(0.45, 0.6)
    house = (abs(x - left - 0.12) < 0.12) & (abs(y - top - 0.15) < 0.15)
    picture[house] = np.where(np.sin(80 * x[house]) > 0, 0.8, 0.55)[:, None] * np.array((1.0, 0.5, 0.4))
    picture += random.normal(0, 0.02, picture.shape)
    return (picture.clip(0, 1) * 255).astype(np.uint8)


def _normalise(picture: np.ndarray[Any, np.dtype[np.uint8]]) -> torch.Tensor:
    """Channels first, scaled with the mean and deviation that image models are usually trained with."""
    mean, deviation = np.array((0.485, 0.456, 0.406)), np.array((0.229, 0.224, 0.225))
    scaled = (picture / 255 - mean) / deviation
    return torch.from_numpy(scaled.transpose(2, 0, 1).astype(np.float32))


def _settle_batch_norms(model: torch.nn.Module, images: torch.Tensor) -> None:
    """Give the batch norms statistics to normalise with: fresh ones (mean 0, variance 1) would hide mistakes."""
    model.train()
    with torch.no_grad():
        for _ in range(5):
            model(images)
        for layer in model.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.weight.uniform_(0.8, 1.2)
                layer.bias.uniform_(-0.2, 0.2)
