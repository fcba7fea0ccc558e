"""Autotuning: every alternative computes the same, and the choice is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from aten_backend.autotune import Tuner
from lowering.alternatives import LANES, alternatives
from support import backend

pytestmark = pytest.mark.device

r = torch.randn
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rows": (lambda x: torch.softmax(x * 2, -1), (r(40, 300),)),
    "columns": (lambda x: torch.softmax(x, 0) + x.sum(0), (r(70, 90),)),
    "long": (lambda x: (x * x).sum(), (r(500, 200),)),
    "chain": (F.cross_entropy, (r(60, 100), torch.arange(60))),
    "small": (lambda x, y: (x.sum(0), y.cumsum(0), x.argmax(1)), (r(20, 30), r(17))),
    "transposed": (lambda x, y: x.t() + y, (r(130, 50), r(50, 130))),
    "products": (lambda x: x.prod(1), (r(30, 40),)),
    "halves": (lambda x: F.layer_norm(x, (64,)), (r(30, 64).bfloat16(),)),
}
NAMES = ("a launch each", "a work-item a row", "no tiles", *(f"work-groups of {n}" for n in LANES),
         *(f"a work-group of {n} a row" for n in LANES))  # fmt: skip


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend=backend(), options={"autotune": True, **options}, dynamic=False)


@pytest.mark.parametrize("case", CASES)
def test_every_alternative_computes_the_same(case, monkeypatch):
    function, args = CASES[case]
    wanted = function(*args)
    tried = set()
    for name in NAMES:
        used: list[bool] = []

        def choose(self, launch, cut, name=name, used=used):
            choices = alternatives(launch, self.traits)
            used.append(name in choices)
            return choices.get(name, choices["planned"])

        monkeypatch.setattr(Tuner, "_best", choose)
        found = compiled(function)(*args)
        torch.testing.assert_close(found, wanted)
        tried |= {name} if any(used) else set()
    assert tried, "there was nothing to choose from"


def test_the_choice_is_kept(tmp_path, monkeypatch):
    function, args = CASES["rows"]
    measured: list[int] = []
    measure = Tuner._measure

    def count(*arguments):
        measured.append(1)
        return measure(*arguments)

    monkeypatch.setattr(Tuner, "_measure", count)
    for _ in range(2):
        compiled(function, cache_dir=str(tmp_path))(*args)
    assert measured == [1]
    (kept,) = (tmp_path / "tuned").glob("*.json")
    record = json.loads(kept.read_text())
    assert record["choice"] in record["seconds"]
    kept.write_text("{")
    compiled(function, cache_dir=str(tmp_path))(*args)
    assert measured == [1, 1]


def test_the_choice_is_followed(tmp_path, monkeypatch):
    function, args = CASES["rows"]
    compiled(function, cache_dir=str(tmp_path))(*args)
    (kept,) = (tmp_path / "tuned").glob("*.json")
    kept.write_text(json.dumps({"choice": "work-groups of 64", "seconds": {}}))
    found: list[Any] = []
    best = Tuner._best

    def note(*arguments):
        found.append(best(*arguments))
        return found[-1]

    monkeypatch.setattr(Tuner, "_best", note)
    compiled(function, cache_dir=str(tmp_path))(*args)
    assert [p.schedule.lanes for launches in found for launch in launches for p in launch] == [64]


def test_the_random_stream_is_left_alone(tmp_path):
    def function(x):
        return F.dropout(x, 0.5).softmax(1)

    torch.manual_seed(3)
    wanted = function(r(20, 30))
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(function, cache_dir=str(tmp_path))(r(20, 30)), wanted)


def test_unknown_sizes_are_left_alone(tmp_path):
    torch._dynamo.reset()
    options: Any = {"autotune": True, "cache_dir": str(tmp_path)}
    fn = torch.compile(CASES["rows"][0], backend=backend(), options=options, dynamic=True)
    for rows in (3, 5, 70):
        x = r(rows, 2 * rows)
        torch.testing.assert_close(fn(x), CASES["rows"][0](x))
    assert not list(tmp_path.glob("tuned/*"))
