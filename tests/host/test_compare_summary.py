"""What the tables of a comparison say."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from aten_backend.comparison import baseline, render, sheets, summary
from compare_cases import BACKENDS, comparison


def test_means_list_the_losers_and_clip_nothing():
    made = comparison({**BACKENDS, "xpu_aten": 2.0})
    (mean,) = [one for one in summary.means(made) if (one.backend, one.over) == ("xpu_aten", "eager")]
    assert mean.speedup.value == pytest.approx(0.5, rel=0.03)
    assert {label for label, _ in mean.losers} == set(made.labels)


def test_a_failure_is_left_out_and_told():
    made = comparison()
    made.rows[2].error = "RuntimeError: a | b [red]"
    (mean,) = [one for one in summary.means(made) if (one.backend, one.over) == ("xpu_aten", "inductor")]
    assert mean.left_out == ("fusion/gelu",)
    assert mean.workloads == 2
    page = render.markdown("T", "xpu-aten compare", made, sheets.sheets(made))
    assert "RuntimeError: a \\| b [red]" in page


def test_compile_times():
    (mean,) = summary.compile_means(comparison())
    assert [mean.cold, mean.warm] == pytest.approx([1.2, 1.2])


@pytest.mark.parametrize(
    ("counts", "remark"),
    [
        ({"launches": 3}, "2 more than Inductor"),
        ({"launches": 2, "second_stages": 1}, "1 long reduction in two stages"),
        ({"launches": 3, "second_stages": 1}, "1 more than Inductor; 1 long reduction in two stages"),
        ({"launches": 1}, ""),
    ],
)
def test_counts_are_flagged(counts, remark):
    made = comparison()
    made.rows[2].counts.update(counts)
    (sheet,) = [one for one in sheets.sheets(made) if one.title.startswith("Kernels")]
    assert sheet.rows[0][-1] == remark
    assert sheet.rows[0][:4] == ("fusion/gelu", str(counts["launches"]), "1", "1")


def test_terminal_and_markdown_show_the_same_cells():
    made = comparison()
    tables = sheets.sheets(made, baseline.changes(made, made))
    out = io.StringIO()
    render.show(Console(file=out, width=200), tables)
    page = render.markdown("Comparison", "xpu-aten compare", made, tables)
    for sheet in tables:
        assert sheet.title in page
        for row in sheet.rows:
            assert all(cell in out.getvalue() and cell in page for cell in row)
    assert "Nothing differs from the baseline" in out.getvalue()


def test_an_empty_comparison_has_no_tables():
    assert sheets.sheets(comparison(workloads=())) == []
