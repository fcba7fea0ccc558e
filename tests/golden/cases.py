"""Functions whose kernels are kept as text: one for each way in which a kernel is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def _attention_scores(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax((q @ k.transpose(-1, -2)) / 8 + torch.where(mask, 0.0, -1e9)[:, None, None], -1)


def _rms_norm_gated(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w * F.silu(g)


def _adam(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    m, v = torch.lerp(m, g, 0.1), v * 0.999 + g * g * 0.001
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v


def cases() -> dict[str, Case]:
    """By name; the same arguments every time."""
    torch.manual_seed(0)
    r = torch.randn
    return {
        "pointwise": (lambda x, b, z: F.gelu(x + b) * z, (r(32, 48), r(48), r(32, 48))),
        "transposed": (lambda x, y: x.t() + y, (r(24, 40), r(40, 24))),
        "rank5": (
            lambda x, y: x.permute(4, 0, 2, 1, 3) * y,
            (r(2, 3, 4, 5, 6), r(6, 2, 4, 3, 5)),
        ),
        "softmax": (lambda x: torch.softmax(x * 2 + 1, -1), (r(16, 100),)),
        "softmax_columns": (lambda x: torch.softmax(x, 0), (r(64, 80),)),
        "layer_norm": (lambda x, y, w, b: F.layer_norm(x + y, (64,), w, b), (r(16, 64), r(16, 64), r(64), r(64))),
        "rms_norm_gated": (_rms_norm_gated, (r(16, 64), r(64), r(16, 64))),
        "sum_columns": (lambda x: (x * x).sum(0), (r(200, 64),)),
        "sum_all": (lambda x: (x * x).sum(), (r(33, 65),)),
        "short_rows": (lambda x, w: torch.softmax(x * w, -1), (r(515, 33), r(33))),
        "long_rows": (lambda x: torch.softmax(x, -1), (r(6, 9001),)),
        "sum_all_long": (lambda x: (x * x).sum(), (r(400, 100),)),
        "small_groups": (lambda x, y: (x.sum(0), torch.cat([x, x * 2], 1).softmax(1), y.cumsum(0)), (r(24, 40), r(30))),
        "rows_then_small": (lambda x, y: (x.softmax(1).sum(1).cumsum(0), y[2:] - y[:-2]), (r(300, 500), r(30))),
        "argmax": (lambda x, y: (x + y).argmax(1), (r(16, 70), r(16, 70))),
        "halves": (
            lambda x, y: F.silu(x) * y.to(torch.bfloat16),
            (r(16, 64).bfloat16(), r(16, 64).half()),
        ),
        "integers": (
            lambda x, m: torch.where(m, x // 3, x & 5) * 2,
            (torch.arange(-20, 28), torch.arange(48) % 2 == 0),
        ),
        "embedding": (
            lambda w, p, i: F.embedding(i, w) + p,
            (r(50, 16), r(8, 16), torch.randint(0, 50, (3, 8))),
        ),
        "cat_and_pad": (
            lambda x, y: F.pad(torch.cat([x, y * 2], 1), (1, 2), value=0.5),
            (r(6, 4), r(6, 5)),
        ),
        "attention_scores": (_attention_scores, (r(2, 4, 16, 8), r(2, 4, 16, 8), torch.rand(2, 16) > 0.2)),
        "adam": (_adam, (r(12, 20), r(12, 20), r(12, 20), r(12, 20).abs())),
        "batch_norm_relu": (
            lambda x, m, v, w, b, y: F.relu(F.batch_norm(x, m, v, w, b) + y),
            (r(2, 8, 6, 6), r(8), r(8).abs() + 0.5, r(8), r(8), r(2, 8, 6, 6)),
        ),
    }
