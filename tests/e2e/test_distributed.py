"""Two and four processes on gloo: torch.distributed is the engine, the graphs between its collectives are ours."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.multiprocessing.spawn import spawn
from torch.nn import functional as F

FEATURES, STEPS = 16, 4


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(FEATURES, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.last(self.norm(F.gelu(self.first(x))))


def _losses(run, parameters, batch):
    """The loss before each step, of this process's part of the batch."""
    optimizer, found = torch.optim.AdamW(parameters, lr=1e-2), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = run(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)


def _check_training(kind, model, whole, batches, rank):
    """The mean of the processes' losses is that of one process which has the whole batch, and so are the weights."""
    world = len(batches)
    if kind == "ddp":
        parallel = torch.nn.parallel.DistributedDataParallel(model)
    else:
        parallel = fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    ours = _losses(torch.compile(parallel, backend="xpu_aten"), parallel.parameters(), batches[rank])
    dist.all_reduce(ours)
    alone = _losses(whole, whole.parameters(), batches.reshape(-1, FEATURES))
    torch.testing.assert_close(ours / world, alone, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(model.parameters(), whole.parameters(), strict=True):
        weight = mine.full_tensor() if hasattr(mine, "full_tensor") else mine
        torch.testing.assert_close(weight, theirs, rtol=1e-3, atol=1e-4)


def _check_collective(model, whole, batches, rank):
    world = len(batches)

    def run(x):
        return collectives.all_reduce(model(x).sin(), "sum", list(range(world))) + 1

    expected = torch.stack([whole(b).sin() for b in batches]).sum(0) + 1
    torch.testing.assert_close(torch.compile(run, backend="xpu_aten")(batches[rank]), expected, rtol=1e-4, atol=1e-5)


def _worker(rank, world, kind, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, batches = Model(), torch.randn(world, 8, FEATURES)
    whole = copy.deepcopy(model)
    if kind == "collective":
        _check_collective(model, whole, batches, rank)
    else:
        _check_training(kind, model, whole, batches, rank)
    ours = counters["xpu_aten"]
    assert ours["graphs"] > 0 and ours["kernel_calls"] > 0
    dist.destroy_process_group()
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps({"compiled": ours["cache_misses"]}))


def _spawn(kind, world, folder):
    """How many kernels each process compiled."""
    folder.mkdir()
    spawn(_worker, (world, kind, str(folder)), world)
    return [json.loads((folder / f"rank{rank}.json").read_text())["compiled"] for rank in range(world)]


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_training_ends_where_one_process_does(kind, world, tmp_path):
    _spawn(kind, world, tmp_path / "run")


@pytest.mark.slow
def test_collective_inside_a_graph(tmp_path):
    _spawn("collective", 2, tmp_path / "run")


@pytest.mark.slow
def test_processes_share_one_kernel_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XPU_ATEN_CACHE_DIR", str(tmp_path / "kernels"))
    assert sum(_spawn("ddp", 2, tmp_path / "first")) > 0
    assert _spawn("ddp", 2, tmp_path / "second") == [0, 0]
