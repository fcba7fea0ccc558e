"""The report as one page: what was found first, then the plots, then every table, then where it was made."""

from __future__ import annotations

import importlib.resources

from aten_backend.comparison import phases, stats, summary
from aten_backend.comparison.backends import INDUCTOR
from aten_backend.comparison.records import Comparison
from aten_backend.comparison.report import kernels, plots, roofline
from aten_backend.comparison.report.svg import tag, text
from aten_backend.comparison.sheets import Sheet, is_text

_SHOWN_LOSERS = 8

_READING = (
    ("What is compared", "The same programs, run by PyTorch as it is (<b>eager</b>) and compiled through "
     "<code>torch.compile</code> by each backend. <b>xpu_aten</b> joins at the ATen level: it turns operators into "
     "SYCL kernels itself. <b>inductor</b> is PyTorch's own compiler."),
    ("Times as fast", "Eager's time divided by the backend's. 2× takes half as long, ½× twice as long. Backends take "
     "turns in every round, and ratios are taken within rounds, so that a machine that slows down slows all alike."),
    ("Intervals", "The thin lines, and the numbers in brackets: where the median would lie in 95 of 100 repetitions. "
     "If an interval holds 1, the two are not told apart. <b>eager again</b> is eager against itself: as far as it is "
     "from 1, differences mean nothing."),
    ("Geometric mean", "The usual mean of ratios: 2× and ½× make 1×. Nothing is clipped, and every workload on which a "
     "backend lost is named."),
    ("Compile times", "Of the first call. Cold: nothing is cached. Warm: a later process finds what an earlier one "
     "compiled."),
    ("Distance", "How far the results are from eager's in float64, as a share of the largest number of each tensor. "
     "Eager in float32 has one too: a backend is as exact as eager where the dots lie together."),
)  # fmt: skip


def page(title: str, command: str, comparison: Comparison, tables: list[Sheet]) -> str:
    """The whole HTML document. ``tables`` are those of the terminal and of Markdown."""
    sections = [
        ("summary", "In short", _headline(comparison)),
        ("reading", "How to read this", _reading()),
        ("speed", "Times as fast as eager", plots.speed(comparison)),
        ("compile-cold", "Compile time, cold", plots.compile_times(comparison, warm=False)),
        ("compile-warm", "Compile time, warm", plots.compile_times(comparison, warm=True)),
        ("parts", "Where the time of a run goes", _with(_PARTS, kernels.parts(comparison))),
        ("data", "Time against the data that must move", _with(_DATA, plots.data_against_time(comparison))),
        ("roofline", "Roofline", _with(_ROOF, roofline.roofline(comparison))),
        ("memory", "Peak memory of a run", plots.peak_memory(comparison)),
        ("distance", "Distance from float64", plots.distance(comparison)),
        ("kernels", "Kernel against kernel", _with(_KERNELS, kernels.side_by_side(comparison))),
        ("tables", "Tables", "".join(map(_table, tables))),
        ("machine", "Where this was made", _machine(command, comparison)),
    ]
    shown = [(name, heading, body) for name, heading, body in sections if body]
    links = "".join(tag("a", text(heading), href=f"#{name}") for name, heading, _ in shown)
    bodies = "".join(tag("section", tag("h2", text(h)) + body, id=name) for name, h, body in shown)
    main = tag("h1", text(title)) + tag("p", text(comparison.created), class_="muted") + tag("nav", links) + bodies
    return _document(title, tag("main", main))


_DATA = (
    "Megabytes of arguments, parameters and results, each counted once, along x; the time of a run along y. A program "
    "that only moves memory lies on a diagonal of the machine's bandwidth; one that computes much lies above it. Reads "
    "from a table (embeddings) touch less than they are charged for."
)

_ROOF = (
    "Operations per byte of arguments and results along x, operations per second along y. The roof is what this "
    "machine did in the same run: a triad over large memory, and a matrix product in float32. A program under the "
    "slope waits for memory; one under the flat part computes. Above the slope lies what fits into the caches; far "
    "below either, a program moves intermediate results through memory, is short, or uses formulas of many "
    "instructions, since an op counts one for each element (matrix products, convolutions and attention in full)."
)

_PARTS = (
    "The graphs that AOTAutograd traces were given to each compiler directly, and their kernels, calls of ATen and "
    "Python timed apart, while the program ran that they are of; Dynamo's guards too. The rest is what these leave of "
    "the time of that program: wrappers around graphs, autograd. Where they are more than it, there is no rest."
)
_KERNELS = (
    "Both compilers were given the same graph. Each line has the kernels and calls of ATen of both sides that compute "
    "the same nodes; it opens to their code. Every kernel is in one line."
)


def _document(title: str, body: str) -> str:
    files = importlib.resources.files("aten_backend.comparison.report")
    style, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        + tag("title", text(title))
        + f"<style>{style}</style>"
    )
    script = f"<script>{script}</script>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}\n{script}</body></html>\n'


def _with(words: str, body: str) -> str:
    return tag("p", text(words), class_="muted") + body if body else ""


# ---- the summary


def _headline(comparison: Comparison) -> str:
    """A card for each pair, over everything; the tables have each suite."""
    means = summary.means(comparison)
    whole = "all" if len(summary.suites(comparison)) > 1 else None
    cards = "".join(_card(mean) for mean in means if whole is None or mean.suite == whole)
    itself = summary.noise(comparison)
    if itself:
        floor = stats.geometric_mean(list(itself.values()))
        cards += _box("noise", "eager over itself", floor, "the noise floor: it should be 1", "")
    failed = sum(bool(row.error) for row in comparison.rows)
    counts = ((len(comparison.labels), "workload"), (len(comparison.backends), "backend"), (failed, "failure"))
    words = ", ".join(f"{count or 'no'} {word}{'' if count == 1 else 's'}" for count, word in counts)
    return tag("p", words) + tag("div", cards, class_="cards")


def _card(mean: summary.Mean) -> str:
    verdict = "faster" if mean.speedup.low > 1 else "slower" if mean.speedup.high < 1 else "not told apart"
    lost = f"{mean.backend} is slower on {len(mean.losers)} of {mean.workloads}"
    if mean.losers:
        shown = [f"{label} ({found.value:.2f}×)" for label, found in mean.losers[:_SHOWN_LOSERS]]
        more = len(mean.losers) - len(shown)
        lost += f": {', '.join(shown)}" + (f" and {more} more, in the tables" if more else "")
    without = f"Without {', '.join(mean.left_out)}, which did not run on both." if mean.left_out else ""
    notes = tag("p", text(f"{lost}.")) + (tag("p", text(without)) if without else "")
    return _box(verdict.partition(" ")[0], f"{mean.backend} over {mean.over}", mean.speedup, verdict, notes)


def _box(style: str, heading: str, found: stats.Interval, verdict: str, notes: str) -> str:
    number = tag("strong", f"{found.value:.2f}×", data_plot="mean", data_pair=heading, data_value=found.value)
    ends = tag("span", f"{found.low:.2f} to {found.high:.2f}", class_="muted")
    body = tag("h3", text(heading)) + tag("p", f"{number} {ends}") + tag("p", text(verdict), class_="verdict") + notes
    return tag("div", body, class_=f"card {style}")


def _reading() -> str:
    entries = "".join(tag("dt", text(term)) + tag("dd", words) for term, words in _READING)
    listed = "".join(tag("li", f"<b>{text(name)}</b>: {text(what)}") for name, what in phases.NAMES.items())
    return tag("details", tag("summary", "for newcomers") + tag("dl", entries) + tag("p", "Phases of a compile:")
               + tag("ul", listed), open="")  # fmt: skip


# ---- tables, and the rest


def _table(sheet: Sheet) -> str:
    notes = "".join(tag("p", text(note), class_="muted") for note in sheet.notes)
    heads = "".join(
        tag("th", tag("button", text(heading), type="button"), class_=_kind(sheet, column), scope="col")
        for column, heading in enumerate(sheet.headings)
    )
    rows = "".join(
        tag("tr", "".join(tag("td", text(cell), class_=_kind(sheet, column)) for column, cell in enumerate(row)))
        for row in sheet.rows
    )
    table = tag("table", tag("thead", tag("tr", heads)) + tag("tbody", rows)) if sheet.rows else ""
    return tag("h3", text(sheet.title)) + tag("div", table, class_="wide", tabindex=0) + notes


def _kind(sheet: Sheet, column: int) -> str:
    return "words" if is_text(sheet, column) else "number"


def _machine(command: str, comparison: Comparison) -> str:
    parts = {**comparison.machine, **{f"threads, {name}": count for name, count in comparison.threads.items()},
             **comparison.versions, **comparison.settings}  # fmt: skip
    entries = "".join(tag("tr", tag("th", text(k), scope="row") + tag("td", text(v))) for k, v in parts.items())
    inductor = "" if INDUCTOR in comparison.backends else tag("p", "Inductor was not among the backends.")
    table = tag("div", tag("table", tag("tbody", entries), class_="facts"), class_="wide", tabindex=0)
    return tag("p", f"Made by {tag('code', text(command))}.") + inductor + table
