"""Every example runs."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def test_every_example_is_run_here():
    tested = {"softmax", "demo", "models"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


@pytest.mark.device
def test_softmax(capsys):
    importlib.import_module("softmax").main()
    assert float(capsys.readouterr().out.split()[-1]) <= 1e-6


@pytest.mark.models
def test_models_make_real_input():
    models = importlib.import_module("models")
    model, (ids, mask) = models.bert()
    assert ids.shape == mask.shape == (4, 128)
    assert len(set(mask.sum(1).tolist())) > 1, "padding is part of the example"
    assert len(ids.unique()) > 100
    assert model.config.num_hidden_layers == 4
    step, args = models.bert_training()
    loss = step(*args)
    assert loss.requires_grad and 0.5 < loss.item() < 5  # near log 4, what guessing one of four costs
    model, (images,) = models.resnet()
    assert images.shape == (4, 3, 128, 128)
    assert not model.training
    # A picture survives the network: the classes differ from picture to picture.
    assert model(images).logits.std(0).min() > 0


@pytest.mark.models
@pytest.mark.device
@pytest.mark.slow
def test_demo(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "160")
    report = tmp_path / "report.html"
    assert importlib.import_module("demo").main(["--rounds", "2", "--html", str(report)]) == 0
    assert "plot-speed" in report.read_text(encoding="utf-8")
    output = capsys.readouterr().out
    assert output.count("xpu_aten") >= 2
    # Inductor may fail where there is no C++ compiler; ours may not.
    assert "xpu_aten failed" not in output
    assert "explain failed" not in output


@pytest.mark.models
@pytest.mark.slow
def test_models_are_targets():
    target = f"{EXAMPLES / 'models.py'}:bert"
    command = [sys.executable, "-m", "aten_backend.cli", "explain", target, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)
