"""Regions that should be one kernel each: what a fusing compiler is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from aten_backend.comparison.workloads import Case, Workload


def normal(*shape: int) -> Tensor:
    return torch.randn(shape)


def half(*shape: int) -> Tensor:
    return torch.randn(shape).bfloat16()


def positive(*shape: int) -> Tensor:
    return torch.rand(shape) + 0.5


def below(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape)


def gelu(x: Tensor, b: Tensor, z: Tensor) -> Tensor:
    return F.gelu(x + b) * z


def layer_norm(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x + y, w.shape, w, b)


def rms_norm_silu(x: Tensor, w: Tensor, g: Tensor, u: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w * F.silu(g) * u


def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(x * 0.125 + mask, -1)


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def batch_norm_relu_add(x: Tensor, mean: Tensor, var: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, mean, var, w, b)) + r


def group_norm_silu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.group_norm(x, 8, w, b))


def transposed_add(x: Tensor, z: Tensor) -> Tensor:
    return x.t() + z


def squares_of_rows(x: Tensor) -> Tensor:
    return (x * x).sum(-1)


def squares_of_columns(x: Tensor) -> Tensor:
    return (x * x).sum(0)


def squares_of_all(x: Tensor) -> Tensor:
    return (x * x).sum()


def argmax(x: Tensor, y: Tensor) -> Tensor:
    return (x + y).argmax(-1)


def cumsum_sigmoid(x: Tensor) -> Tensor:
    return torch.sigmoid(x).cumsum(-1)


def embed(ids: Tensor, table: Tensor, positions: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(F.embedding(ids, table) + positions, w.shape, w, b)


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


def adamw(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    step = (m / 0.271) / ((v / 0.002997).sqrt() + 1e-8)
    return p * (1 - 1e-3 * 0.01) - 1e-3 * step, m, v


def index_add(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
    return x.index_add(0, index, source)


Arguments = Callable[[], tuple[Any, ...]]

_MATRIX = (1024, 1024)
_IMAGE = (4, 64, 56, 56)

# name, function, its arguments
_TABLE: tuple[tuple[str, Callable[..., Any], Arguments], ...] = (
    ("gelu(x+b)*z 2048x4096", gelu, lambda: (normal(2048, 4096), normal(4096), normal(2048, 4096))),
    ("gelu(x+b)*z 256x768", gelu, lambda: (normal(256, 768), normal(768), normal(256, 768))),
    ("gelu(x+b)*z 16x64", gelu, lambda: (normal(16, 64), normal(64), normal(16, 64))),
    ("layer_norm(x+y)", layer_norm, lambda: (normal(*_MATRIX), normal(*_MATRIX), normal(1024), normal(1024))),
    ("rmsnorm*silu(g)*u", rms_norm_silu, lambda: (normal(*_MATRIX), normal(1024), normal(*_MATRIX), normal(*_MATRIX))),
    ("masked softmax", masked_softmax, lambda: (normal(8, 12, 128, 128), normal(8, 1, 1, 128))),
    ("softmax 2048x4096", softmax, lambda: (normal(2048, 4096),)),
    ("batch_norm+relu+add", batch_norm_relu_add,
     lambda: (normal(*_IMAGE), normal(64), positive(64), normal(64), normal(64), normal(*_IMAGE))),
    ("group_norm+silu", group_norm_silu, lambda: (normal(*_IMAGE), normal(64), normal(64))),
    ("x.t()+z", transposed_add, lambda: (normal(2048, 1024), normal(1024, 2048))),
    ("sum of squares, rows", squares_of_rows, lambda: (normal(2048, 2048),)),
    ("sum of squares, columns", squares_of_columns, lambda: (normal(2048, 2048),)),
    ("sum of squares, all", squares_of_all, lambda: (normal(2048, 2048),)),
    ("argmax(x+y)", argmax, lambda: (normal(1024, 2048), normal(1024, 2048))),
    ("cumsum of sigmoid", cumsum_sigmoid, lambda: (normal(1024, 2048),)),
    ("embedding+position+layer_norm", embed,
     lambda: (below(4096, 8, 128), normal(4096, 512), normal(128, 512), normal(512), normal(512))),
    ("rotary embedding", rotary, lambda: (normal(4, 12, 128, 64), normal(128, 64), normal(128, 64))),
    ("AdamW arithmetic", adamw, lambda: (normal(*_MATRIX), normal(*_MATRIX), normal(*_MATRIX), positive(*_MATRIX))),
    ("index_add", index_add, lambda: (normal(4096, 256), below(4096, 16384), normal(16384, 256))),
    ("gelu(x+b)*z bf16", gelu, lambda: (half(*_MATRIX), half(1024), half(*_MATRIX))),
    ("layer_norm(x+y) bf16", layer_norm, lambda: (half(*_MATRIX), half(*_MATRIX), half(1024), half(1024))),
    ("rmsnorm*silu(g)*u bf16", rms_norm_silu, lambda: (half(*_MATRIX), half(1024), half(*_MATRIX), half(*_MATRIX))),
    ("softmax bf16", softmax, lambda: (half(*_MATRIX),)),
    ("sum of squares, rows bf16", squares_of_rows, lambda: (half(2048, 2048),)),
)  # fmt: skip


def _workload(name: str, fn: Callable[..., Any], arguments: Arguments) -> Workload:
    return Workload("fusion", name, lambda: Case(fn, (arguments(),)))


WORKLOADS = tuple(_workload(*row) for row in _TABLE)
