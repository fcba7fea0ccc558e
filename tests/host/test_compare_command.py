"""`xpu-aten compare` up to the measurement, which is replaced, and the suites as data."""

from __future__ import annotations

import json

import pytest
import torch

import aten_backend
from aten_backend import cli
from aten_backend.comparison import backends, distance, records, suites
from aten_backend.comparison.runner import Interrupted
from aten_backend.comparison.workloads import Case
from compare_cases import BACKENDS, comparison


@pytest.fixture
def asked(monkeypatch):
    """What the runner was asked, instead of running."""
    calls: list[tuple] = []

    def run(workloads, chosen, settings, made, save, progress):
        calls.append(([one.label for one in workloads], [one.name for one in chosen], settings))
        made.rows = comparison(workloads=("gelu",)).rows
        save()

    monkeypatch.setattr("aten_backend.commands.compare.runner.run", run)
    return calls


def test_suites_and_backends(asked, capsys):
    given = ["compare", "--suite", "fusion", "--only", "argmax", "--backends", "xpu_aten,eager", "--ir", "both"]
    assert cli.main(given) == 0
    ((labels, names, settings),) = asked
    assert labels == ["fusion/argmax(x+y)"]
    assert names == ["xpu_aten:aten", "xpu_aten:prims", "eager", "eager again"]
    assert (settings.rounds, settings.counts_only) == (30, False)
    assert "fusion/gelu" in capsys.readouterr().out


def test_files(asked, tmp_path, capsys):
    result, page = tmp_path / "new.json", tmp_path / "page.md"
    given = ["compare", "--suite", "dynamic", "--json", str(result), "--markdown", str(page)]
    assert cli.main(given) == 0
    assert json.loads(result.read_text())["schema"] == records.SCHEMA
    assert "xpu-aten compare --suite dynamic" in page.read_text()
    assert cli.main(["compare", "--show", str(result)]) == 0
    assert "fusion/gelu" in capsys.readouterr().out
    assert len(asked) == 1, "showing measures nothing"


def test_regressions_are_the_exit_code(tmp_path, capsys):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    comparison().save(old)
    comparison({**BACKENDS, "xpu_aten": 0.6}, seed=1).save(new)
    assert cli.main(["compare", "--show", str(new), "--baseline", str(old)]) == 1
    assert "slower" in capsys.readouterr().out
    assert cli.main(["compare", "--show", str(old), "--baseline", str(old)]) == 0


def test_interrupt_keeps_and_shows(monkeypatch, tmp_path, capsys):
    def run(workloads, chosen, settings, made, save, progress):
        made.rows = comparison(workloads=("gelu",)).rows
        save()
        raise Interrupted

    monkeypatch.setattr("aten_backend.commands.compare.runner.run", run)
    result = tmp_path / "new.json"
    assert cli.main(["compare", "--suite", "fusion", "--resume", str(result)]) == 130
    assert "Interrupted" in capsys.readouterr().out
    assert len(json.loads(result.read_text())["rows"]) == len(BACKENDS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--suite", "fusoin"], "Did you mean 'fusion'"),
        ([], "Nothing to compare"),
        (["--suite", "fusion", "--only", "absent"], "No workload of fusion has 'absent'"),
        (["--suite", "fusion", "--backends", "tritonn"], "torch knows no backend 'tritonn'"),
        (["--suite", "fusion", "--backends", "xpu_aten:triton"], "xpu_aten:prims"),
        (["--show", "absent.json"], "Cannot read absent.json"),
    ],
)
def test_mistakes_are_told(given, message, capsys):
    assert cli.main(["compare", *given]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_list(capsys):
    assert cli.main(["compare", "--list"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert {"fusion/index_add", "models/BERT", "training/T5 step"} <= set(lines)


def test_labels_are_unique():
    labels = [workload.label for name in suites.SUITES for workload in suites.select([name])]
    assert len(labels) == len(set(labels))


def test_the_function_is_public():
    assert aten_backend.compare.__module__ == "aten_backend.comparison.entry"


@pytest.mark.parametrize("workload", suites.SUITES["fusion"], ids=lambda workload: workload.name)
def test_eager_is_near_its_float64(workload):
    """Every region runs, in float64 as well, and gives finite numbers."""
    case = workload.make()
    exact = distance.in_float64(case)
    results = distance.tensors(case.fn(*case.calls[0]))
    wide = distance.tensors(exact.fn(*exact.calls[0]))
    assert distance.distance(results, wide) < (0.02 if "bf16" in workload.name else 1e-4)


def test_distance():
    one = torch.tensor([1.0, 2.0])
    inf, nan = torch.tensor([1.0, torch.inf]), torch.tensor([1.0, torch.nan])
    assert distance.distance([one], [one.double()]) == 0
    assert distance.distance([one], [torch.tensor([1.0, 4.0])]) == 0.5, "as a share of the largest"
    assert distance.distance([inf, nan], [inf, nan]) == 0
    assert distance.distance([one], [nan]) == distance.distance([one], [one[:1]]) == torch.inf
    assert distance.distance([one], []) == torch.inf
    noise, zero = torch.tensor([1e-9]), torch.tensor([1e-20], dtype=torch.float64)
    assert distance.distance([one, noise], [one.double(), zero]) < 1e-2, "what is zero but for rounding"
    assert distance.distance([torch.tensor([True, False])], [torch.tensor([True, True])]) == 1


def test_float64_keeps_integers():
    case = distance.in_float64(Case(torch.add, ((torch.ones(2), torch.ones(2, dtype=torch.int64)),)))
    assert [one.dtype for one in case.calls[0]] == [torch.float64, torch.int64]


def test_eager_stands_for_two():
    assert [one.name for one in backends.parse(("eager", "xpu_aten"))] == ["eager", "eager again", "xpu_aten"]
    assert [one.name for one in backends.parse(("eager",), again=False)] == ["eager"]
