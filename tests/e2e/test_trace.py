"""The artefacts in torch's structured trace, and tlparse on top of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT, python

pytestmark = pytest.mark.device

CODE = """
import torch
from aten_backend.backend import xpu_aten

def f(x, w):
    return torch.softmax(x @ w, -1)

f = torch.compile(f, backend=xpu_aten)
f(torch.randn(8, 8), torch.randn(8, 8, requires_grad=True)).sum().backward()
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    environment = {**os.environ, "TORCH_TRACE": str(folder), "PYTHONPATH": str(ROOT)}
    done = python(CODE, env=environment)
    assert done.returncode == 0, done.stderr
    (log,) = folder.glob("*.log")
    return log


def test_every_stage_is_an_artefact(trace):
    names = []
    for line in trace.read_text().splitlines():
        if '"artifact": {"name": "xpu_aten_' in line:
            record = json.loads(line[line.index("{") :])
            assert record["frame_id"] == 0 and record["has_payload"]
            names.append(record["artifact"]["name"])
    assert len(names) == len(set(names))
    for kind in ("forward", "backward"):
        stages = ("00_dynamo.py", "01_joint.py", f"02_{kind}.py", "05_partition.txt", "10_plan.py", "12_timings.txt")
        for stage in stages:
            assert f"xpu_aten_{kind}_{stage}" in names
        for prefix in ("kernels_000", "binaries_"):
            assert any(n.startswith(f"xpu_aten_{kind}_{prefix}") for n in names)


def test_tlparse_shows_them(trace, tmp_path):
    tool = shutil.which("tlparse") or shutil.which("tlparse", path=str(Path(sys.executable).parent))
    if tool is None:
        pytest.skip("tlparse is not installed")
    out = tmp_path / "out"
    done = subprocess.run(
        [tool, str(trace), "-o", str(out), "--no-browser", "--strict"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (plan,) = out.rglob("xpu_aten_forward_10_plan*")
    assert "def call(args)" in plan.read_text()
    assert plan.name in (out / "index.html").read_text()
