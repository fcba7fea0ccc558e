"""torch's portable cache carries what was compiled here to a process whose own caches are empty."""

from __future__ import annotations

import json
import os

import pytest

from support import python

PROGRAM = """
import json, pathlib, sys, torch
import aten_backend.portable
from torch._dynamo.utils import counters
file, options = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
loaded = torch.compiler.load_cache_artifacts(file.read_bytes()) if file.exists() else None
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(20, 40), torch.nn.GELU(), torch.nn.LayerNorm(40))
x = torch.randn(4, 20)
got = torch.compile(model, backend="xpu_aten", options=options)(x)
torch.testing.assert_close(got, model(x))
got.sum().backward()
if not file.exists():
    file.write_bytes(torch.compiler.save_cache_artifacts()[0])
print(json.dumps({"found": counters["aot_autograd"]["autograd_cache_hit"],
                  "compiled": counters["xpu_aten"]["cache_misses"],
                  "kernels": 0 if loaded is None else len(loaded.artifacts["xpu_aten_kernel"]),
                  "graphs": 0 if loaded is None else len(loaded.artifacts["aot_autograd"])}))
"""


def run(folder, name, options):
    """Run the program with caches of its own under ``name``."""
    environment = {k: v for k, v in os.environ.items() if k != "XPU_ATEN_VERIFY"}  # a watched compile is never skipped
    environment |= {"XPU_ATEN_CACHE_DIR": str(folder / name), "TORCHINDUCTOR_CACHE_DIR": str(folder / f"{name}_torch")}
    done = python(PROGRAM, str(folder / "artifacts"), json.dumps(options), env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_kernels_are_carried(tmp_path):
    first, second = (run(tmp_path, name, {}) for name in ("here", "there"))
    assert first["compiled"] > 0
    assert second == {"found": 0, "compiled": 0, "kernels": first["compiled"], "graphs": 0}


@pytest.mark.slow
def test_whole_graphs_are_carried(tmp_path):
    first, second = (run(tmp_path, name, {"aot_cache": True}) for name in ("here", "there"))
    assert first["compiled"] > 0 and first["found"] == 0
    assert second["compiled"] == 0 and second["found"] == 1 and second["graphs"] == 1
