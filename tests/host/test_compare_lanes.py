"""Lanes, what can be handed to another process, and how a sample is taken: without any process."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

import aten_backend
from aten_backend.comparison import suites
from aten_backend.comparison.backends import Backend
from aten_backend.comparison.lane import Lane
from aten_backend.comparison.places import ProcessEndedError, can_move, dumps
from aten_backend.comparison.records import Row
from aten_backend.comparison.timing import Timed, interleave
from aten_backend.comparison.workloads import Workload, of_function, of_target


class Fake:
    """A place whose bench gives a sample each time, until its process ends."""

    def __init__(self, name: str, order: list[str], lives: int) -> None:
        self.name, self.order, self.lives = name, order, lives
        self.row = Row("own", "one", name)

    def start(self, folder: Path) -> None:
        self.lives += 0

    def ask(self, do, *given):
        if do == "settle":
            self.row.repeats = given[0] or 7
        elif not self.lives:
            raise ProcessEndedError(f"the process of {self.name} ended with SIGKILL")
        else:
            self.lives -= 1
            self.order.append(self.name)
            self.row.samples.append(1.0)
        return self.row

    def close(self, patience: float = 0.0) -> None: ...


def lanes(**lives: int) -> tuple[list[Lane], list[str]]:
    order: list[str] = []
    workload = Workload("own", "one", lambda: pytest.fail("made in the process that measures"))
    return [Lane(workload, Backend(name), Fake(name, order, n)) for name, n in lives.items()], order


def test_rounds_take_turns():
    made, order = lanes(eager=10, inductor=10)
    interleave(made, 10, 60.0)
    rounds = [frozenset(order[n : n + 2]) for n in range(0, 20, 2)]
    assert set(rounds) == {frozenset(("eager", "inductor"))}
    assert len(set(order[::2])) == 2, "the order is drawn"
    assert [lane.row.repeats for lane in made] == [7, 7], "the first one's choice is everybody's"


def test_a_process_that_ends_is_an_error_and_the_others_go_on():
    (dead, alive), _ = lanes(eager=3, inductor=10)
    interleave([dead, alive], 10, 60.0)
    assert dead.row.error == "the process of eager ended with SIGKILL"
    assert (len(dead.row.samples), len(alive.row.samples)) == (3, 10)
    assert not dead.usable and alive.usable


def test_a_sample_is_taken_in_steady_use():
    """Untimed runs fill some milliseconds: OpenMP's threads still spin that long after a neighbour's region."""

    class Counting(Timed):
        def __init__(self) -> None:
            self.row = Row("own", "one", "eager", repeats=2)
            self.starts: list[float] = []

        def run(self) -> None:
            self.starts.append(time.perf_counter())
            time.sleep(1e-3)

    subject = Counting()
    subject.sample()
    assert subject.starts[-2] - subject.starts[0] >= 20e-3, "the last two are timed"
    assert len(subject.row.samples) == 1


def module_level(x):
    return x + 1


def test_what_can_move():
    x = torch.ones(3)
    assert can_move(of_function(module_level, x))
    assert can_move(of_function(torch.nn.Linear(2, 2), x))
    assert can_move(of_target("file.py:function")), "it is loaded where it is run"
    assert not can_move(of_function(lambda x: x, x))


def test_what_the_script_defines_cannot_move(monkeypatch):
    """Pickle would name it, and another process would look for the name in a script of its own."""
    monkeypatch.setattr(module_level, "__module__", "__main__")
    monkeypatch.setattr("__main__.module_level", module_level, raising=False)
    assert not can_move(of_function(module_level, torch.ones(3)))


def test_every_suite_can_move():
    for workload in suites.select(suites.SUITES):
        assert len(dumps(workload)) < 1000, "a name, not tensors"


@pytest.mark.parametrize(("fn", "isolated"), [(torch.sin, True), (lambda x: x, False)])
def test_the_result_says_whether_backends_had_processes(monkeypatch, fn, isolated):
    monkeypatch.setattr("aten_backend.comparison.entry.runner.run", lambda *given: None)
    assert aten_backend.compare(fn, torch.ones(3)).settings["isolated"] is isolated


def test_backends_that_other_processes_know(monkeypatch):
    assert all(Backend(name).is_everywhere for name in ("eager", "xpu_aten:prims", "xpu_inductor", "inductor"))
    torch._dynamo.register_backend(lambda gm, inputs: gm, name="of_this_script")
    monkeypatch.setattr("aten_backend.comparison.entry.runner.run", lambda *given: None)
    made = aten_backend.compare(torch.sin, torch.ones(3), backends=("eager", "of_this_script"))
    assert made.settings["isolated"] is False
