"""Compile times by phase: disjoint, and nothing lost."""

from __future__ import annotations

import time

import pytest
import torch

from aten_backend.comparison import memory, phases
from aten_backend.observe import StageRunner, observers, watching
from aten_backend.options import Options


def test_phases_add_up():
    torch._dynamo.reset()
    started = time.perf_counter()
    with phases.recorded() as spent:
        torch.compile(lambda x: torch.sin(x) + 1, backend="aot_eager")(torch.ones(3))
    whole = time.perf_counter() - started
    assert list(spent) == list(phases.NAMES)
    assert sum(spent.values()) == pytest.approx(whole, rel=0.05, abs=0.01)
    assert spent["dynamo"] > 0 and spent["aot"] > 0 and spent["run"] > 0
    assert spent["generate"] == spent["compile"] == 0, "eager has neither"


def test_phases_of_known_times():
    torch_seconds = {
        "_compile.compile_inner": 5.0,
        "OutputGraph.call_user_compiler": 4.0,
        "backward._backward_impl": 2.0,
        "compile_fx_inner": 3.0,
        "async_compile.wait": 1.0,
    }
    found = phases._phases(10.0, torch_seconds, {})
    assert found == {"dynamo": 1.0, "aot": 3.0, "generate": 2.0, "compile": 1.0, "run": 3.0}
    ours = {name: seconds for name, seconds in torch_seconds.items() if "fx" not in name and "async" not in name}
    found = phases._phases(10.0, ours, {"passes": 0.5, "emit": 0.5, "compile": 2.0, "link": 0.25})
    assert found == {"dynamo": 1.0, "aot": 2.75, "generate": 1.0, "compile": 2.25, "run": 3.0}


def test_guests_watch_stages():
    seen: list[tuple[str, int]] = []
    with watching(lambda stage, artefact, seconds: seen.append((stage, artefact))):
        run = StageRunner(observers(Options.parse()))
    assert run("passes", lambda: 7) == 7
    assert seen == [("passes", 7)]
    StageRunner(observers(Options.parse()))("passes", lambda: 8)
    assert len(seen) == 1, "who came later is not watched"


def test_what_shares_memory_counts_once():
    x, module = torch.ones(10, 10), torch.nn.Linear(4, 4)
    assert memory.data_bytes([x, x[:5], (x.t(),)]) == 400
    assert memory.data_bytes([module, {"x": x}]) == 400 + 64 + 16
