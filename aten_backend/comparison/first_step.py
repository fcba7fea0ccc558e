"""A training script that ends with its first step, and says when: ``python -m aten_backend.comparison.first_step B T``.

``B`` is a backend, ``T`` the time (seconds since the epoch) at which the process was started. Prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, WORDS = 64, 2, 2, 200


class Block(nn.Module):
    """A transformer's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.merge = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(self.first(x)).chunk(3, -1)
        query, key, value = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.merge(mixed.transpose(1, 2).flatten(2))
        result: Tensor = x + self.down(F.gelu(self.up(self.second(x))))
        return result


def step(backend: str) -> float:
    """One step of AdamW, model and optimizer compiled by ``backend``; returns the loss."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(WORDS, WIDTH), *(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(0, WORDS, (4, 32))
    options: Any = {"aot_cache": True} if backend == "xpu_aten" else None
    run = torch.compile(model, backend=backend, options=options)
    update = torch.compile(optimizer.step, backend=backend, options=options)
    loss = F.cross_entropy(run(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    update()
    return loss.item()


def main(backend: str, started: float) -> None:
    """The script."""
    loss = step(backend)
    seconds = time.time() - started
    traced = counters["aot_autograd"]
    kernels = counters["xpu_aten"]["cache_misses"] + counters["inductor"]["fxgraph_cache_miss"]
    found = {
        "backend": backend,
        "seconds": seconds,
        "loss": loss,
        "graphs_traced": traced["autograd_cache_miss"] + traced["autograd_cache_bypass"],
        "graphs_found": traced["autograd_cache_hit"],
        "kernels_compiled": kernels,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
