"""The page of the two levels, without its kernels: sizes, what was measured, and where they go."""

from __future__ import annotations

import pytest

from aten_backend.comparison import costs, levels, sizes
from compare_cases import comparison


def test_every_file_is_counted_once():
    files = [path for part in sizes.PARTS for path in part.files]
    assert len(files) == len(set(files))
    for part in sizes.PARTS:
        for pattern in part.patterns + part.but:
            assert list(sizes.ROOT.glob(pattern)), f"{pattern} names no file"


def test_lines_of_code(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text('"""Text."""\n\n# why\nx = 1  # here\n    # there\n')
    (tmp_path / "b.py").write_text("y = 2\n")
    monkeypatch.setattr(sizes, "ROOT", tmp_path)
    assert sizes.Part("all", ("*.py",)).lines == 3
    assert sizes.Part("one", ("*.py",), ("a.py",)).lines == 1


def test_costs():
    made = comparison({"eager": 1.0, "xpu_aten": 0.5, "xpu_inductor": 0.55, "inductor": 0.6}, spread=0.001)
    for row in made.rows:
        if row.cold_compile_seconds:
            row.cold_phases = {"dynamo": 0.25, "compile": row.cold_compile_seconds - 0.25}
    launches, compiles, times = costs.sheets(made)
    assert launches.rows[0][:4] == ("fusion/gelu", "1", "1", "1")
    assert compiles.rows[0][:5] == ("fusion", "xpu_aten", "3", "1.00", "0.25")
    assert [row[1] for row in compiles.rows] == ["xpu_aten", "xpu_inductor", "inductor"]
    found = {(row[1], row[2]): float(row[3].partition(" ")[0]) for row in times.rows}
    assert found["xpu_aten", "xpu_inductor"] == pytest.approx(1.1, abs=0.02)
    assert found["xpu_inductor", "inductor"] == pytest.approx(1.09, abs=0.02)


def test_what_failed_is_left_out():
    made = comparison()
    for row in made.rows:
        if row.backend == "xpu_aten":
            row.error, row.counts, row.samples, row.cold_compile_seconds = "no", {}, [], None
    assert [row[1] for sheet in costs.sheets(made)[1:] for row in sheet.rows if row[1] == "xpu_aten"] == []


def test_parts_of_a_page_are_replaced(tmp_path):
    page = tmp_path / "levels.md"
    page.write_text("# Levels\n\n<!-- levels: measured -->\nearlier\n<!-- levels: end of measured -->\n\nWords.\n")
    levels.write(page, [], None)
    kept = page.read_text()
    assert "earlier" in kept and "Words." in kept and "| lines |" in kept, "what is not measured anew stays"
    levels.write(page, [], comparison())
    levels.write(page, [], comparison())
    text = page.read_text()
    assert "earlier" not in text and text.count("### Times") == 1 and text.count("<!-- levels: sizes -->") == 1
    assert text.index("### Times") < text.index("Words.")
