"""A second process finds what the first one compiled: no tracing, no kernels, the same numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from aten_backend.comparison import warm

PROGRAM = """
import json, sys, torch
from torch._dynamo.utils import counters
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(20, 40), torch.nn.GELU(), torch.nn.LayerNorm(40), torch.nn.Linear(40, 10))
x = torch.randn(4, 20)
expected = model(x)
got = torch.compile(model, backend="xpu_aten", options=json.loads(sys.argv[1]))(x)
got.sum().backward()
torch.testing.assert_close(got, expected)
ours, aot = counters["xpu_aten"], counters["aot_autograd"]
gradient = model[0].weight.grad.abs().sum().item()
print(json.dumps({"hit": aot["autograd_cache_hit"], "compiled": ours["cache_misses"], "graphs": ours["graphs"],
                  "calls": ours["kernel_calls"], "grad": gradient}))
"""


@pytest.fixture
def run(tmp_path):
    """Run the program in a fresh process that shares this test's caches."""
    environment = {k: v for k, v in os.environ.items() if k != "XPU_ATEN_VERIFY"}  # a watched compile is never skipped
    environment |= {"XPU_ATEN_CACHE_DIR": str(tmp_path / "kernels"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch")}

    def once(**options):
        options = {"aot_cache": True, **options}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(options)],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return once


@pytest.mark.slow
def test_second_process_compiles_nothing(run):
    cold, warm = run(), run()
    assert cold["hit"] == 0 and cold["compiled"] > 0
    assert warm["hit"] == 1 and warm["compiled"] == 0
    assert {k: cold[k] for k in ("graphs", "calls", "grad")} == {k: warm[k] for k in ("graphs", "calls", "grad")}


@pytest.mark.slow
def test_options_that_change_code_are_part_of_the_key(run):
    run()
    assert run(ir="prims")["hit"] == 0
    assert run(disable_ops=["aten.gelu"])["hit"] == 0


@pytest.mark.slow
def test_off_unless_asked_for(run):
    run(aot_cache=False)
    again = run(aot_cache=False)
    assert again["hit"] == 0 and again["compiled"] == 0  # the kernels themselves are at hand


@pytest.mark.slow
def test_second_training_script_traces_and_compiles_nothing(tmp_path, monkeypatch):
    """Model and optimizer, by what ``xpu-aten warm`` runs."""
    monkeypatch.delenv("XPU_ATEN_VERIFY")
    cold, again = (warm.start("xpu_aten", tmp_path) for _ in range(2))
    assert cold.graphs_traced == 2 and cold.kernels_compiled > 0
    assert (again.graphs_traced, again.graphs_found, again.kernels_compiled) == (0, 2, 0)
    assert again.loss == cold.loss
