"""Two processes on gloo: torch.distributed is the engine, the graphs between its collectives are ours."""

from __future__ import annotations

import copy
import pathlib

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.multiprocessing.spawn import spawn
from torch.nn import functional as F

WORLD = 2
FEATURES = 16


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(FEATURES, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.last(self.norm(F.gelu(self.first(x))))


def _check_gradients(model, parallel, whole, batches, rank):
    torch.compile(parallel, backend="xpu_aten")(batches[rank]).pow(2).mean().backward()
    whole(batches.reshape(-1, FEATURES)).pow(2).mean().backward()
    for mine, theirs in zip(model.parameters(), whole.parameters(), strict=True):
        grad = mine.grad.full_tensor() if hasattr(mine.grad, "full_tensor") else mine.grad
        torch.testing.assert_close(grad, theirs.grad, rtol=1e-4, atol=1e-5)


def _check_collective(model, whole, batches, rank):
    def run(x):
        return collectives.all_reduce(model(x).sin(), "sum", list(range(WORLD))) + 1

    expected = torch.stack([whole(b).sin() for b in batches]).sum(0) + 1
    torch.testing.assert_close(torch.compile(run, backend="xpu_aten")(batches[rank]), expected, rtol=1e-4, atol=1e-5)


def _worker(rank, kind, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    model, batches = Model(), torch.randn(WORLD, 8, FEATURES)
    whole = copy.deepcopy(model)
    if kind == "collective":
        _check_collective(model, whole, batches, rank)
    elif kind == "ddp":
        _check_gradients(model, torch.nn.parallel.DistributedDataParallel(model), whole, batches, rank)
    else:
        parallel = fully_shard(model, mesh=init_device_mesh("cpu", (WORLD,)))
        _check_gradients(model, parallel, whole, batches, rank)
    counted = torch._dynamo.utils.counters["xpu_aten"]
    assert counted["graphs"] > 0 and counted["kernel_calls"] > 0
    dist.destroy_process_group()
    pathlib.Path(folder, f"done{rank}").touch()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp", "collective"])
def test_two_processes(kind, tmp_path):
    spawn(_worker, (kind, str(tmp_path)), WORLD)
    assert all((tmp_path / f"done{rank}").exists() for rank in range(WORLD))
