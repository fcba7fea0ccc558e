"""Alignment of kernels, the account of a run, and the clocks in generated code: all from rows made up here."""

from __future__ import annotations

import ast
import time

import pytest

from aten_backend.comparison import align, reconcile, records, report, sheets
from aten_backend.comparison.graphs.steps import Clock, timed
from aten_backend.comparison.records import GraphRow, StepRow
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
        one.samples = [sample * 0.8 for sample in end_to_end.samples]
        one.parts = {"kernels": 2e-4, "aten": 1e-4, "host": 1e-4}
        one.clocked_seconds = 4e-4
        end_to_end.guard_seconds = 2e-5
        made.graphs.append(one)
    made.graphs.append(GraphRow("fusion", "gelu", "1 inference", "inductor", "RuntimeError: broken"))
    return made


def test_the_account_adds_up(made):
    made.graphs.pop()
    accounts = reconcile.accounts(made)
    assert [one.backend for one in accounts] == ["xpu_aten", "inductor"]
    for one in accounts:
        assert one.graphs == pytest.approx(0.8 * one.end_to_end)
        assert sum(one.parts.values()) == pytest.approx(one.end_to_end)
        assert one.parts["kernels"] == pytest.approx(2 * one.parts["aten"])
        assert one.explained == pytest.approx(1)


def test_a_graph_that_failed_leaves_no_account(made):
    assert [one.backend for one in reconcile.accounts(made)] == ["xpu_aten"]
    (sheet,) = [one for one in sheets.sheets(made) if one.title == "One trace for all"]
    assert sheet.rows[-1][-1] == "RuntimeError: broken"


def test_json_and_back(made):
    assert records.from_json(made.to_json()).graphs == made.graphs


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
