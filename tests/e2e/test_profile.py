"""Profiles: device time apart from host time, names and lines, and nothing on the way when nobody looks."""

from __future__ import annotations

import json

import pytest
import torch

from aten_backend import cli, pipeline
from aten_backend.flame import flame
from aten_backend.profiling import profile
from dump_cases import LINES, program
from runtime import executor
from support import backend

pytestmark = pytest.mark.device


def model(x, w):
    y = x @ w
    return torch.softmax(y.sin() * 2, -1)


def inputs():
    return torch.randn(128, 128), torch.randn(128, 128)


def test_kernels_are_timed_on_the_device():
    found = profile(model, *inputs(), rounds=3)
    kernel, matmul = (next(s for s in found.steps if s.kernel is k) for k in (True, False))
    assert kernel.calls == matmul.calls == 3
    assert kernel.bytes == 3 * 2 * 128 * 128 * 4  # reads and writes one matrix
    assert kernel.device > 0 and kernel.host > 0
    assert matmul.device == 0 and matmul.what == "aten.mm.default"
    assert "y.sin()" in kernel.source and kernel.frames[-1].startswith("model (test_profile.py:")
    assert found.waits > 0 and found.elsewhere > 0
    for _, _, spans in found.spans:
        for span in spans:
            # no kernel ends before it was submitted, and none outside the rounds
            assert all(span.start <= end and begin < end <= found.rounds[-1][1] for begin, end in span.kernels)


def test_backward_is_run_too():
    x, w = inputs()
    found = profile(lambda x, w: model(x, w).sum(), x, w.requires_grad_(), rounds=1)
    assert {s.graph for s in found.steps} == {"forward 0", "backward 0"}


def test_the_trace_and_the_picture():
    found = profile(model, *inputs(), rounds=2)
    events = json.loads(found.to_chrome())["traceEvents"]
    named = [e for e in events if e["ph"] == "X"]
    assert {e["tid"] for e in named} == {1, 2} and all(e["dur"] >= 0 for e in named)
    assert sum(e["name"].startswith("round") for e in named) == 2
    page = flame(found)
    assert "aten.mm.default" in page and "model (test_profile.py:" in page and "<script src" not in page


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.syspath_prepend(str(tmp_path))
    trace, picture = tmp_path / "trace.json", tmp_path / "flame.html"
    arguments = ["--rounds", "2", "--trace", str(trace), "--flame", str(picture)]
    assert cli.main(["profile", f"{program(tmp_path)}:case", *arguments]) == 0
    output = capsys.readouterr().out
    assert "aten.mm.default" in output and f"program.py:{LINES['mm']}" in output and "waiting for kernels" in output
    assert trace.exists() and picture.exists()
    assert cli.main(["profile", f"{program(tmp_path)}:case", "--rounds", "0"]) == 2


def test_torch_profiler_shows_kernels_with_their_line():
    compiled = torch.compile(model, backend=backend())
    args = inputs()
    compiled(*args)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        compiled(*args)
    names = [e.key for e in found.key_averages() if e.key.startswith("xpu_aten")]
    assert any("sin" in n and "test_profile.py:" in n for n in names)
    assert any(n.startswith("xpu_aten aten.mm.default") for n in names)
    assert "xpu_aten wait for kernels" in names


def test_nothing_is_marked_when_nobody_looks(monkeypatch):
    """Dumping, profiling and torch.profiler leave the code of the plan that runs every day as it is."""
    graphs = []
    plain = executor.link

    def link(*args):
        graphs.append(plain(*args))
        return graphs[-1]

    monkeypatch.setattr(pipeline, "link", link)
    args = inputs()
    compiled = torch.compile(model, backend=backend())
    compiled(*args)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        compiled(*args)
    profile(model, *args, rounds=1)
    before, after = graphs
    assert before.run.__code__.co_code == after.run.__code__.co_code
    assert before.text == after.text and "around" not in before.run.__code__.co_names
