"""The JSON of a comparison: what is written, what is refused, and what a resumed run takes over."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aten_backend.comparison import records, runner
from aten_backend.comparison.records import Comparison, RecordError, Row
from compare_cases import WORKLOADS, comparison
from support import ROOT


def test_json_and_back(tmp_path):
    made = comparison()
    path = tmp_path / "compare.json"
    made.save(path)
    assert records.load(path) == made
    assert [file.name for file in tmp_path.iterdir()] == ["compare.json"], "nothing else is left behind"


def test_the_document_names_every_field():
    """docs/compare.md is the schema's documentation."""
    text = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    data = json.loads(comparison().to_json())
    named = set(re.findall(r"`(\w+)`", text))
    assert {*data, *data["rows"][0], *data["settings"]} <= named


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, "schema 99 is none of those"),
        ({"rows": None}, "no list of rows"),
        ({"rows": [3]}, "a row is not an object"),
        ({"surprise": 1}, "does not follow the schema .*surprise"),
        ({"rows": [{"suite": "s", "workload": "w", "backend": "b", "speed": 1}]}, "speed"),
        ({"rows": [{"suite": "s", "workload": "w", "backend": "b", "samples": [0.0]}]}, "not a positive number"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    data = {**json.loads(comparison().to_json()), **change}
    with pytest.raises(RecordError, match=message):
        records.from_json(json.dumps(data))


@pytest.mark.parametrize(("text", "message"), [("", "not JSON"), ("[]", "not the JSON of a comparison")])
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=rf"other\.json: .*{message}"):
        records.load(path)


def test_absent_file():
    with pytest.raises(RecordError, match="Cannot read absent"):
        records.load(Path("absent.json"))


def test_resume_takes_finished_workloads():
    old, new = comparison(), comparison(workloads=())
    old.rows = [row for row in old.rows if (row.workload, row.backend) != ("argmax", "inductor")]
    runner.resume(new, old)
    assert new.labels == ["fusion/gelu", "fusion/softmax"], "one of argmax's rows is missing: it is measured anew"


def test_resume_measures_interrupted_workloads_again():
    old, new = comparison(), comparison(workloads=())
    old.rows[0].interrupted = True
    runner.resume(new, old)
    assert new.labels == ["fusion/softmax", "fusion/argmax"]


def test_resume_keeps_failures():
    old, new = comparison(), comparison(workloads=())
    old.rows[2].error, old.rows[2].samples = "RuntimeError: no", []
    runner.resume(new, old)
    assert len(new.labels) == len(WORKLOADS)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("versions", {"torch": "2.12"}, "versions: torch was '2.12', is '2.13'"),
        ("machine", {"processor": "other"}, "machine: processor"),
        ("threads", {}, "threads: intra_op was None, is 2"),
    ],
)
def test_resume_refuses_to_mix(part, value, message):
    old, new = comparison(), comparison(workloads=())
    setattr(old, part, value)
    with pytest.raises(RecordError, match=message):
        runner.resume(new, old)


def test_row_of_an_error_is_none():
    made = Comparison({}, {}, {}, {}, rows=[Row("s", "w", "b", error="no")])
    assert made.row("s/w", "b") is None


def test_an_error_is_a_line_that_says_something():
    error = ValueError("backend='xpu_aten' raised:\nKeyError: 'b'\n\nSet TORCHDYNAMO_VERBOSE=1")
    assert records.describe(error) == "ValueError: backend='xpu_aten' raised: KeyError: 'b'"
    assert records.describe(ValueError()) == "ValueError"
