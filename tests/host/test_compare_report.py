"""The HTML report: nothing outside of it is needed, its links lead somewhere, and its numbers are those of the JSON."""

from __future__ import annotations

import math
import statistics
from html.parser import HTMLParser

import pytest

from aten_backend import cli
from aten_backend.comparison import records, report, sheets, stats, summary
from aten_backend.comparison.report import svg
from compare_cases import comparison

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Every element with its attributes, and the text; raises where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def values(self, plot: str) -> dict[tuple[str, ...], float]:
        """The numbers behind a plot's marks."""
        keys = ("data-workload", "data-backend", "data-phase", "data-pair")
        return {
            tuple(found[key] for key in keys if key in found): float(found["data-value"])
            for _, found in self.elements
            if found.get("data-plot") == plot
        }


@pytest.fixture
def made():
    made = comparison()
    for row in made.rows:
        row.data_bytes = 4_000_000
        row.peak_bytes = 3_000_000
        if row.cold_compile_seconds:
            row.cold_phases = {"dynamo": 0.25 * row.cold_compile_seconds, "compile": 0.75 * row.cold_compile_seconds}
    return made


def page(made) -> Page:
    return Page(report.page("Comparison", "xpu-aten compare --suite fusion", made, sheets.sheets(made)))


def test_it_needs_nothing_else(made):
    found = page(made)
    assert not [element for element in found.elements if element[0] in ("link", "img", "iframe") or "src" in element[1]]
    text = report.page("Comparison", "xpu-aten compare", made, sheets.sheets(made))
    assert "http:" not in text and "https:" not in text and "@import" not in text and "url(" not in text


def test_links_lead_somewhere(made):
    found = page(made)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    links = [attributes["href"] for tag, attributes in found.elements if tag == "a"]
    assert len(ids) == len(set(ids))
    assert len(links) > 5
    assert {link[1:] for link in links} <= set(ids)


def test_numbers_are_those_of_the_json(made, tmp_path):
    source, target = tmp_path / "result.json", tmp_path / "result.html"
    made.save(source)
    assert cli.main(["compare", "--show", str(source), "--html", str(target)]) == 0
    found = Page(target.read_text(encoding="utf-8"))
    rows = records.load(source).rows
    assert found.values("memory") == {(r.label, r.backend): r.peak_bytes for r in rows if r.backend != "eager again"}
    assert found.values("distance") == {(r.label, r.backend): r.distance for r in rows if r.backend != "eager again"}
    phases = found.values("compile-cold")
    assert phases == {(r.label, r.backend, name): part for r in rows for name, part in r.cold_phases.items()}
    warm = found.values("compile-warm")
    expected = {(r.label, r.backend, "whole"): r.warm_compile_seconds for r in rows if r.warm_compile_seconds}
    assert warm == expected, "a file without phases"
    eager = {r.label: r.samples for r in rows if r.backend == "eager"}
    for (label, backend), value in found.values("speed").items():
        (row,) = [r for r in rows if (r.label, r.backend) == (label, backend)]
        assert value == stats.median(stats.paired_ratios(eager[label], row.samples)).value
    assert len(found.values("speed")) == 9
    means = {f"{m.backend} over {m.over}": m.speedup.value for m in summary.means(made)}
    shown = {pair: value for (pair,), value in found.values("mean").items()}
    assert shown.items() >= means.items()
    assert shown["eager over itself"] == pytest.approx(1, abs=0.05)


def test_tables_have_the_cells_of_markdown(made):
    words = page(made).words
    for sheet in sheets.sheets(made):
        assert sheet.title in words
        assert {cell for row in sheet.rows for cell in row if cell} <= set(words)


def test_what_others_wrote_is_text(made):
    made.rows[2].error = "RuntimeError: <script>alert(1)</script> & more"
    made.rows[2].samples = []
    found = page(made)
    assert [tag for tag, _ in found.elements].count("script") == 1
    assert "failed" in found.words
    assert any("alert(1)" in word for word in found.words)


def test_little_is_enough():
    """Counts alone make a page without plots."""
    made = comparison()
    for row in made.rows:
        row.samples, row.distance, row.peak_bytes = [], None, None
        row.cold_compile_seconds = row.warm_compile_seconds = None
    found = page(made)
    assert "svg" not in [tag for tag, _ in found.elements]
    assert "Tables" in found.words
    assert page(comparison(workloads=())).words


def test_files_of_the_first_schema_are_read():
    text = comparison().to_json().replace('"schema": 2', '"schema": 1')
    assert records.from_json(text).rows


@pytest.mark.parametrize("values", [[0.2, 3.0], [1.0], [1e-3, 50.0], []])
def test_factors_hold_every_value(values):
    scale = svg.factors(values)
    assert scale.low <= min([1.0, *values]) and scale.high >= max([1.0, *values])
    assert 1.0 in [at for at, _ in scale.ticks]
    assert [scale.share(at) for at, _ in scale.ticks] == sorted(scale.share(at) for at, _ in scale.ticks)


def test_scales():
    linear = svg.from_zero([0.3, 7.2], " s")
    assert (linear.low, linear.share(linear.high)) == (0.0, 1.0)
    assert linear.high >= 7.2 and len(linear.ticks) <= 7
    tens = svg.decades([2e3, 5e6], 1e3)
    assert (tens.low, tens.high) == pytest.approx((1e3, 1e7))
    assert math.isclose(tens.share(1e5), 0.5)
    assert tens.x(1e99) == tens.x(tens.high), "what is beyond is at the end"
    same = svg.decades([5.0, 5.0])
    assert same.low < 5.0 < same.high


def test_roofline(made):
    """Operations per second are the workload's operations by the median time, below the machine's peaks."""
    assert not page(made).values("roofline"), "nothing without counts and peaks"
    made.peaks = {"bytes_per_second": 1e10, "flops_per_second": 1e11}
    for row in made.rows:
        row.flops = 8_000_000 if row.backend == "eager" else None
    found = page(made).values("roofline")
    assert {backend for _, backend in found} == {"eager", "xpu_aten", "inductor"}
    row = made.row("fusion/gelu", "xpu_aten")
    assert found["fusion/gelu", "xpu_aten"] == pytest.approx(8e6 / statistics.median(row.samples))
    words = [word for word in page(made).words if "op/B" in word and "fusion/gelu, xpu_aten" in word]
    assert "at 2.00 op/B" in words[0] and words[0].endswith("% of the roof")
