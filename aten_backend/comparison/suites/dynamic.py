"""Functions over many sizes, compiled once for all of them (``dynamic=True``). A run makes one call of each size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aten_backend.comparison.suites.fusion import gelu, layer_norm, masked_softmax, normal, squares_of_rows
from aten_backend.comparison.workloads import Case, Workload

ROWS = (3, 5, 8, 17, 32, 61, 64, 100, 127, 128, 200, 255, 256, 333, 384, 511, 512, 640, 777, 1000)


def project(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(x @ w + 1) * x.shape[0]


_TABLE: tuple[tuple[str, Callable[..., Any], Callable[[int], tuple[Any, ...]]], ...] = (
    ("gelu(x+b)*z, rows", gelu, lambda n: (normal(n, 768), normal(768), normal(n, 768))),
    ("layer_norm(x+y), rows", layer_norm, lambda n: (normal(n, 512), normal(n, 512), normal(512), normal(512))),
    ("masked softmax, rows and columns", masked_softmax, lambda n: (normal(n, n + 1), normal(n, 1))),
    ("sum of squares, columns", squares_of_rows, lambda n: (normal(64, n),)),
    ("matmul and tanh, rows", project, lambda n: (normal(n, 256), normal(256, 128))),
)


def _workload(name: str, fn: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]]) -> Workload:
    return Workload("dynamic", name, lambda: Case(fn, tuple(arguments(n) for n in ROWS), dynamic=True), weight=2.0)


WORKLOADS = tuple(_workload(*row) for row in _TABLE)
