"""Alignment of kernels, the account of a run, rounds between compilers, and the clocks in generated code: all from
rows and processes made up here."""

from __future__ import annotations

import ast
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from aten_backend.comparison import align, backends, reconcile, records, report, sheets
from aten_backend.comparison.graphs import rounds
from aten_backend.comparison.graphs.capture import digest
from aten_backend.comparison.graphs.steps import Clock, timed
from aten_backend.comparison.places import ProcessEndedError
from aten_backend.comparison.records import GraphRow, Row, StepRow
from aten_backend.comparison.workloads import Workload
from compare_cases import comparison
from host.test_compare_report import Page


def graph(compiler: str, *steps: tuple[str, str, str]) -> GraphRow:
    """A graph whose steps are (kind, name, nodes)."""
    rows = [StepRow(kind, name, nodes.split(), 1e-6) for kind, name, nodes in steps]
    codes = {name: f"code of <{name}>" for kind, name, _ in steps if kind == "kernel"}
    return GraphRow("fusion", "gelu", "0 inference", compiler, steps=rows, codes=codes)


def cut(one: align.Alignment) -> list[tuple[list[str], list[str]]]:
    return [([step.name for step in b.ours], [step.name for step in b.theirs]) for b in one.blocks]


OURS = graph(
    "xpu_aten",
    ("kernel", "k_ab", "a b"),
    ("kernel", "k_c", "c"),
    ("aten", "mm", "d"),
    ("kernel", "k_ef", "e f"),
    ("kernel", "k_ef_second", "e f"),
    ("kernel", "k_g", "g a"),
)
THEIRS = graph(
    "inductor",
    ("kernel", "cpp_a", "a"),
    ("kernel", "cpp_bc", "b c"),
    ("aten", "extern.mm", "d"),
    ("kernel", "cpp_ef", "e f"),
    ("aten", "extern.g", "g"),
    ("kernel", "cpp_new", ""),
)


def test_each_step_goes_with_the_one_that_shares_most():
    assert cut(align.align(OURS, THEIRS)) == [
        (["k_ab", "k_c"], ["cpp_a", "cpp_bc"]),
        (["mm"], ["extern.mm"]),
        (["k_ef", "k_ef_second"], ["cpp_ef"]),
        (["k_g"], ["extern.g"]),
        ([], ["cpp_new"]),
    ]


def test_every_step_is_there_once():
    made = align.align(OURS, THEIRS)
    assert sorted(step.name for b in made.blocks for step in b.ours) == sorted(step.name for step in OURS.steps)
    assert sorted(step.name for b in made.blocks for step in b.theirs) == sorted(step.name for step in THEIRS.steps)


def test_verdicts():
    blocks = align.align(OURS, THEIRS).blocks
    assert [block.verdict for block in blocks] == [
        "cut elsewhere",
        "the same cut",
        "2 kernels here, 1 kernel there",
        "1 kernel here, 1 ATen call there",
        "only there",
    ]
    assert blocks[3].apart == {"ours": ("g",), "inductor": ()}
    assert blocks[3].elsewhere == {"ours": ("a",), "inductor": ()}
    assert blocks[0].apart == blocks[0].elsewhere == {"ours": (), "inductor": ()}


def test_a_kernel_that_gathers_leftovers_ties_nothing_together():
    ours = graph("xpu_aten", ("kernel", "k1", "a b"), ("kernel", "k2", "c d"), ("kernel", "rest", "e f"))
    theirs = graph("inductor", ("kernel", "c1", "a b e"), ("kernel", "c2", "c d f"))
    made = align.align(ours, theirs)
    assert cut(made) == [(["k1", "rest"], ["c1"]), (["k2"], ["c2"])]
    assert [block.elsewhere for block in made.blocks] == [
        {"ours": ("f",), "inductor": ()},
        {"ours": (), "inductor": ("f",)},
    ]


def test_text_has_both_codes():
    lines = "\n".join(align.text(align.align(OURS, THEIRS)))
    assert "code of <k_ab>" in lines and "code of <cpp_bc>" in lines
    assert "in a kernel of ours only: g" in lines
    assert "kernel k_ef, 1.0 µs" in lines


@pytest.fixture
def made():
    """A comparison with a graph of each compiler, timed in parts."""
    made = comparison(workloads=("gelu",))
    for row in (OURS, THEIRS):
        one = records.GraphRow(**vars(row))
        end_to_end = next(r for r in made.rows if r.backend == one.compiler)
        whole = [sample * 1.25 for sample in end_to_end.samples]
        one.samples = [sample * 0.8 for sample in whole]
        second = statistics.median(whole)
        one.parts = {"kernels": 0.4 * second, "aten": 0.2 * second, "host": 0.25 * second}
        one.clocked_seconds = 0.85 * second
        made.graphs.append(one)
        made.traced.append(Row("fusion", "gelu", one.compiler, guard_seconds=0.05 * second, samples=whole))
    made.graphs.append(GraphRow("fusion", "gelu", "1 inference", "inductor", "RuntimeError: broken"))
    return made


def test_the_account_adds_up(made):
    made.graphs.pop()
    accounts = reconcile.accounts(made)
    assert [one.backend for one in accounts] == ["xpu_aten", "inductor"]
    for one in accounts:
        assert one.graphs == pytest.approx(0.8 * one.whole)
        assert one.whole == pytest.approx(1.25 * (one.end_to_end or 0))
        assert sum(one.parts.values()) == pytest.approx(one.whole)
        assert one.parts["kernels"] == pytest.approx(0.4 * one.whole), "as it was measured"
        assert one.explained == pytest.approx(0.9)
        assert one.parts["rest"] == pytest.approx(0.1 * one.whole)


def test_parts_that_are_more_than_the_whole_are_told(made):
    made.graphs.pop()
    for one in made.graphs:
        one.parts = {name: 2 * part for name, part in one.parts.items()}
    for account in reconcile.accounts(made):
        assert account.explained == pytest.approx(1.75)
        assert account.parts["rest"] == pytest.approx(-0.75 * account.whole)
    (sheet,) = [one for one in sheets.sheets(made) if one.title == "The whole and its parts"]
    assert {row[-1] for row in sheet.rows} == {"1.75"}
    found = Page(report.page("Comparison", "xpu-aten compare --graphs", made, sheets.sheets(made)))
    assert "rest" not in {key[-1] for key in found.values("parts")}


def test_a_graph_that_no_run_calls_leaves_the_account(made):
    """A graph of one size, which another for all sizes has replaced."""
    made.graphs[-1] = GraphRow("fusion", "gelu", "1 inference", "inductor")
    assert [one.backend for one in reconcile.accounts(made)] == ["xpu_aten", "inductor"]


def test_a_graph_that_failed_leaves_no_account(made):
    assert [one.backend for one in reconcile.accounts(made)] == ["xpu_aten"]
    (sheet,) = [one for one in sheets.sheets(made) if one.title == "One trace for all"]
    assert sheet.rows[-1][-1] == "RuntimeError: broken"


def test_json_and_back(made):
    again = records.from_json(made.to_json())
    assert (again.graphs, again.traced) == (made.graphs, made.traced)


def test_the_page_has_every_step_once_and_its_code(made):
    found = Page(report.page("Comparison", "xpu-aten compare --graphs", made, sheets.sheets(made)))
    shown = [(a["data-compiler"], a["data-step"]) for _, a in found.elements if "data-step" in a]
    assert sorted(shown) == sorted((row.compiler, step.name) for row in made.graphs for step in row.steps)
    assert "code of <k_ab>" in found.words
    parts = found.values("parts")
    for one in reconcile.accounts(made):
        mine = {key[-1]: value for key, value in parts.items() if key[1] == one.backend}
        assert mine == {name: part * 1e3 for name, part in one.parts.items()}


def test_clocks_are_put_around_statements():
    definition = ast.parse("def call(args):\n x = args[0]\n y = work(x)\n return y").body[0]
    assert isinstance(definition, ast.FunctionDef)
    clock, after = Clock(), []

    def work(x):
        time.sleep(0.01)
        return x + 1

    call = timed(definition, {"work": work, "wait": lambda: after.append(1)}, {1: "k0"}, clock, extra=("wait()",))
    assert [call([1]), call([2])] == [2, 3]
    assert list(clock.seconds) == ["k0"]
    assert 0.02 <= clock.seconds["k0"] < 5
    assert after == [1, 1]


class Fake:
    """A place whose bench has traced a graph, until its process ends."""

    def __init__(self, name: str, order: list[str], traces: str = "abc", lives: int = 100, error: str = "") -> None:
        self.name, self.order, self.traces, self.lives, self.error = name, order, traces, lives, error
        self.row = Row("own", "one", name)

    def start(self, folder: Path) -> None: ...

    def ask(self, do: str, *given: Any) -> Any:
        self.lives -= 1
        if self.lives < 0:
            raise ProcessEndedError(f"the process of {self.name} ended with SIGKILL")
        self.order.append(f"{self.name} {do}")
        if do == "trace":
            self.row.error = self.error
        if do == "sample":
            self.row.samples.append(1.0)
        if do == "graph_rows":
            steps = [StepRow("kernel", "k", ["a"])]
            return [
                GraphRow("own", "one", f"{n} inference", self.name, samples=self.row.samples, steps=steps, digest=text)
                for n, text in enumerate(self.traces)
            ]
        return self.row

    def close(self, patience: float = 0.0) -> None: ...


def traced(*fakes: Fake, number: int = 6) -> tuple[list[Row], list[GraphRow]]:
    places = [(backends.Backend(fake.name), fake) for fake in fakes]
    workload = Workload("own", "one", lambda: pytest.fail("made in the process that measures"))
    return rounds.measure(workload, places, number, 60.0, Path("nowhere"), lambda what: None)


def test_compilers_take_turns():
    order: list[str] = []
    fakes = [Fake(name, order) for name in ("eager", "eager again", "xpu_aten", "inductor")]
    rows, graphs = traced(*fakes)
    three = {"eager", "xpu_aten", "inductor"}
    assert {one.partition(" ")[0] for one in order} == three and "eager again trace" not in order
    samples = [one.partition(" ")[0] for one in order if one.endswith("sample")]
    assert [set(samples[n : n + 3]) for n in range(0, 18, 3)] == [three] * 6
    assert order.index("inductor trace") < order.index("eager sample"), "all compile before any is timed"
    assert [(row.graph, row.compiler) for row in graphs[:4]] == [
        ("0 inference", "eager"), ("0 inference", "xpu_aten"), ("0 inference", "inductor"), ("1 inference", "eager")
    ]  # fmt: skip
    assert not any(row.error for row in rows) and not any(row.error for row in graphs)


def test_nothing_is_timed_for_counts():
    order: list[str] = []
    traced(Fake("xpu_aten", order), number=0)
    assert order == ["xpu_aten trace", "xpu_aten graph_rows", "xpu_aten end"]


@pytest.mark.parametrize(("traces", "named"), [("abx", "2 inference"), ("ab", "2 inference"), ("abcd", "3 inference")])
def test_another_trace_is_an_error(traces, named):
    rows, graphs = traced(Fake("eager", []), Fake("xpu_aten", []), Fake("inductor", [], traces))
    expected = f"the trace differs from that of eager in graph {named}"
    mine = [row for row in graphs if row.compiler == "inductor"]
    assert [(row.error, row.samples, row.steps) for row in mine] == [(expected, [], [])] * len(traces)
    assert [row.error for row in rows] == ["", "", expected]
    assert not [row.error for row in graphs if row.error and row.compiler != "inductor"]


def test_a_compiler_that_fails_is_a_row_and_the_others_go_on():
    dead, broken = Fake("xpu_aten", [], lives=4), Fake("inductor", [], error="RuntimeError: broken")
    rows, graphs = traced(Fake("eager", []), dead, broken)
    assert [(row.compiler, row.graph, row.error) for row in graphs if row.error] == [
        ("xpu_aten", "all", "the process of xpu_aten ended with SIGKILL"),
        ("inductor", "all", "RuntimeError: broken"),
    ]
    assert [len(row.samples) for row in rows if not row.error] == [6]


def test_the_digest_of_a_graph():
    def graph_of(fn, *sizes):
        return torch.fx.experimental.proxy_tensor.make_fx(fn)(*(torch.ones(size) for size in sizes))

    one = digest(graph_of(lambda x: x * 2, 3))
    assert one == digest(graph_of(lambda x: x * 2, 3))
    assert len({one, digest(graph_of(lambda x: x * 3, 3)), digest(graph_of(lambda x: x * 2, 4)),
                digest(graph_of(lambda x: 2 + x, 3))}) == 4  # fmt: skip
