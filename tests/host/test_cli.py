"""The command line: what it prints, its exit codes, and what reaches the functions behind it."""

from __future__ import annotations

import dataclasses
import json

import pytest

import aten_backend
from aten_backend import cli


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    detail: str
    remedy: str = ""


GOOD = Check("device", True, "opencl:cpu:0 [CPU]")
BAD = Check("compiler", False, "no module named numba_dpex", "pip install numba-dpex==0.23.0")


@pytest.fixture
def checks(monkeypatch):
    """The list that `doctor` is given, to be filled by the test."""
    found: list[Check] = []
    monkeypatch.setattr("aten_backend.cli.doctor.diagnose", lambda compiler_python: found)
    monkeypatch.setenv("COLUMNS", "120")
    return found


def test_doctor_passes(checks, capsys):
    checks.append(GOOD)
    assert cli.main(["doctor"]) == 0
    assert "opencl:cpu:0 [CPU]" in capsys.readouterr().out


def test_doctor_fails_and_says_what_to_do(checks, capsys):
    checks.extend([GOOD, BAD])
    assert cli.main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "FAILS" in output
    assert BAD.remedy in output


def test_doctor_json(checks, capsys):
    checks.extend([GOOD, BAD])
    assert cli.main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [dataclasses.asdict(check) for check in checks]


@pytest.mark.parametrize(("given", "used"), [([], None), (["--compiler-python", "other"], "other")])
def test_doctor_uses_the_compiler_named(monkeypatch, given, used):
    asked: list[str | None] = []

    def diagnose(compiler_python):
        asked.append(compiler_python)
        return []

    monkeypatch.setattr("aten_backend.cli.doctor.diagnose", diagnose)
    assert cli.main(["doctor", *given]) == 0
    assert asked == [used]


class Explanation:
    def __str__(self):
        return "one kernel"

    def to_json(self):
        return {"groups": 1}


@pytest.fixture
def explained(monkeypatch, tmp_path):
    """The calls that `explain` got, and a target to name."""
    calls: list[tuple] = []

    def explain(function, *args, options):
        calls.append((function(*args), options))
        return Explanation()

    monkeypatch.setattr(aten_backend, "explain", explain, raising=False)
    (tmp_path / "target.py").write_text("def case():\n    return abs, (-2,)\n")
    return calls, f"{tmp_path / 'target.py'}:case"


def test_explain(explained, capsys):
    calls, target = explained
    assert cli.main(["explain", target]) == 0
    assert capsys.readouterr().out == "one kernel\n"
    assert calls == [(2, {})]


def test_explain_json_and_ir(explained, capsys):
    calls, target = explained
    assert cli.main(["explain", target, "--json", "--ir", "prims"]) == 0
    assert json.loads(capsys.readouterr().out) == {"groups": 1}
    assert calls == [(2, {"ir": "prims"})]


def test_bad_target_is_told_without_a_traceback(capsys):
    assert cli.main(["explain", "absent.py:case"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("xpu-aten: Target file")
    assert "Traceback" not in error


@pytest.mark.parametrize("arguments", [[], ["docter"], ["explain"], ["explain", "a:b", "--ir", "triton"]])
def test_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        cli.main(arguments)
    assert raised.value.code == 2
    assert "usage: xpu-aten" in capsys.readouterr().err
