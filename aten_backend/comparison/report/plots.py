"""The plots of a report: each a figure made from the rows of a comparison, or nothing where nothing is known."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from aten_backend.comparison import phases, stats
from aten_backend.comparison.backends import AGAIN, EAGER
from aten_backend.comparison.records import Comparison, Row
from aten_backend.comparison.report import svg
from aten_backend.comparison.report.svg import Scale, tag, text

_BAR = 14
_GIGABYTE = 1e9


def series(comparison: Comparison) -> dict[str, str]:
    """The style of each backend: eager is grey, the others take colours in order."""
    others = [name for name in comparison.backends if name not in (EAGER, AGAIN)]
    styles = {name: f"series-{number % 6 + 1}" for number, name in enumerate(others)}
    return {name: styles.get(name, "series-eager") for name in comparison.backends}


@dataclasses.dataclass(frozen=True)
class Bar:
    """A line of a chart: who, what is drawn, and the number beside it."""

    who: str
    style: str
    drawing: str
    value: str
    label: str


def speed(comparison: Comparison) -> str:
    """How many times as fast as eager, on a logarithmic scale, with intervals."""
    found = {
        (row.label, row.backend): stats.median(stats.paired_ratios(eager.samples, row.samples))
        for row in comparison.rows
        if row.samples and row.backend != EAGER and (eager := comparison.row(row.label, EAGER)) and not row.error
    }
    if not found:
        return ""
    scale = svg.factors(value for one in found.values() for value in (one.low, one.high))
    styles = series(comparison)

    def bars(row: Row) -> list[Bar]:
        one = found.get((row.label, row.backend))
        if one is None:
            return [_failed(row, scale)] if row.error else []
        data = {"data_plot": "speed", "data_workload": row.label, "data_backend": row.backend, "data_value": one.value}
        start = scale.x(min(one.value, 1.0))
        body = tag("rect", x=start, width=scale.width(1.0, one.value), y=2, height=_BAR - 4, class_="fill", **data)
        ends = f"{row.label}, {row.backend}: {one} times as fast as eager"
        return [Bar(row.backend, styles[row.backend], body + _whisker(scale, one), f"{one.value:.2f}×", ends)]

    return chart("plot-speed", comparison, scale, bars, one=1.0)


def _whisker(scale: Scale, one: stats.Interval) -> str:
    middle = _BAR / 2
    return tag("line", x1=scale.x(one.low), x2=scale.x(one.high), y1=middle, y2=middle, class_="whisker") + "".join(
        tag("line", x1=scale.x(end), x2=scale.x(end), y1=middle - 3, y2=middle + 3, class_="whisker")
        for end in (one.low, one.high)
    )


def _failed(row: Row, scale: Scale) -> Bar:
    words = tag("text", "failed", x=scale.x(scale.low), y=11, class_="failed")
    return Bar(row.backend, "", words, "", f"{row.label}, {row.backend}: {row.error}")


def compile_times(comparison: Comparison, warm: bool) -> str:
    """The first call by phase, cold or warm."""
    name = "warm" if warm else "cold"

    def seconds(row: Row) -> float | None:
        return row.warm_compile_seconds if warm else row.cold_compile_seconds

    known = [found for row in comparison.rows if (found := seconds(row)) is not None]
    if not known:
        return ""
    scale = svg.from_zero(known, " s")

    def bars(row: Row) -> list[Bar]:
        whole = seconds(row)
        if whole is None:
            return []
        spent = row.warm_phases if warm else row.cold_phases
        drawing = stack(spent or {"whole": whole}, scale, row, f"compile-{name}")
        label = f"{row.label}, {row.backend}, {name}: {whole:.2f} s" + "".join(
            f"; {phases.NAMES.get(phase, phase)} {part:.2f} s" for phase, part in spent.items()
        )
        return [Bar(row.backend, "", drawing, f"{whole:.2f} s", label)]

    entries = {f"phase-{phase}": what for phase, what in phases.NAMES.items()}
    return chart(f"plot-compile-{name}", comparison, scale, bars, entries)


def stack(spent: Mapping[str, float], scale: Scale, row: Row, plot: str) -> str:
    drawing, at = "", 0.0
    for phase, part in spent.items():
        data = {"data_plot": plot, "data_workload": row.label, "data_backend": row.backend, "data_value": part}
        place = {"x": scale.x(at), "width": scale.width(at, at + part), "y": 2, "height": _BAR - 4}
        drawing += tag("rect", class_=f"phase-{phase}", data_phase=phase, **place, **data)
        at += part
    return drawing


def distance(comparison: Comparison) -> str:
    """How far the results are from eager in float64."""
    return _dots("distance", comparison, lambda row: row.distance, (1.0, ""), lambda value: f"{value:.1e}")


def peak_memory(comparison: Comparison) -> str:
    """How far resident memory grows over a run, in megabytes."""
    return _dots("memory", comparison, lambda row: row.peak_bytes, (1e6, " MB"), lambda value: f"{value / 1e6:.1f} MB")


def _dots(
    plot: str,
    comparison: Comparison,
    value: Callable[[Row], float | None],
    unit: tuple[float, str],
    words: Callable[[float], str],
) -> str:
    """A dot for each backend on a line for each workload, on a logarithmic scale. Zero is at the left end."""
    rows = [row for row in comparison.rows if row.backend != AGAIN and not row.error and value(row) is not None]
    if not any(value(row) for row in rows):
        return ""
    scale = svg.decades((value(row) or 0.0 for row in rows), *unit)
    styles = series(comparison)

    def bars(row: Row) -> list[Bar]:
        if row not in rows:
            return []
        found = value(row) or 0.0
        label = f"{row.label}, {row.backend}: {words(found)}"
        data = {"data_plot": plot, "data_workload": row.label, "data_backend": row.backend, "data_value": found}
        at = scale.x(found) if found else scale.x(scale.low)
        drawing = tag("line", x1=scale.x(scale.low), x2=at, y1=_BAR / 2, y2=_BAR / 2, class_="stem")
        return [Bar(row.backend, styles[row.backend],
                    drawing + tag("circle", cx=at, cy=_BAR / 2, r=4.5, class_="fill", **data),
                    words(found), label)]  # fmt: skip

    return chart(f"plot-{plot}", comparison, scale, bars)


def data_against_time(comparison: Comparison) -> str:
    """Seconds of a run over the bytes of its arguments and results; diagonals have the same bytes per second."""
    points = [
        (row, row.data_bytes, statistics.median(row.samples))
        for row in comparison.rows
        if row.data_bytes and row.samples and not row.error and row.backend != AGAIN
    ]
    if not points:
        return ""
    across = svg.decades([size for _, size, _ in points], 1e6, " MB")
    up = svg.decades([time for _, _, time in points], 1e-3, " ms")
    height, styles = 340, series(comparison)

    def y(value: float) -> float:
        return 12 + (height - 40) * (1 - up.share(value))

    drawing = ""
    for at, label in across.ticks:
        drawing += tag("line", x1=across.x(at), x2=across.x(at), y1=12, y2=height - 28, class_="grid")
        drawing += tag("text", text(label), x=across.x(at), y=height - 12, text_anchor="middle", class_="tick")
    for at, label in up.ticks:
        drawing += tag("line", x1=across.x(across.low), x2=across.x(across.high), y1=y(at), y2=y(at), class_="grid")
        drawing += tag("text", text(label), x=across.x(across.low), y=y(at) - 3, class_="tick")
    drawing += _same_speed(across, up, y)
    for row, size, time in points:
        words = f"{row.label}, {row.backend}: {size / 1e6:.2f} MB in {time * 1e3:.3f} ms, {size / time / 1e9:.2f} GB/s"
        data = {"data_plot": "data", "data_workload": row.label, "data_backend": row.backend, "data_value": time}
        dot = tag("circle", tag("title", text(words)), cx=across.x(size), cy=y(time), r=5, class_="fill", **data)
        drawing += tag("g", dot, class_=styles[row.backend])
    label = "Time over megabytes of arguments and results, both logarithmic"
    plot = tag("svg", drawing, width="100%", height=height, role="img", aria_label=label)
    return tag("figure", legend(backends_legend(comparison)) + plot, id="plot-data", class_="chart")


def _same_speed(across: Scale, up: Scale, y: Callable[[float], float]) -> str:
    """Lines of so many gigabytes per second, where they cross the plot."""
    drawing = ""
    for speed in (0.1, 1, 10, 100):
        low = max(across.low, up.low * speed * _GIGABYTE)
        high = min(across.high, up.high * speed * _GIGABYTE)
        if low < high:
            end, top = across.x(high), y(high / speed / _GIGABYTE)
            drawing += tag("line", x1=across.x(low), y1=y(low / speed / _GIGABYTE), x2=end, y2=top, class_="rate")
            drawing += tag("text", f"{speed:g} GB/s", x=end, y=top + 12, text_anchor="end", class_="tick")
    return drawing


# ---- the frame of a chart


def chart(
    identity: str,
    comparison: Comparison,
    scale: Scale,
    bars: Callable[[Row], list[Bar]],
    entries: Mapping[str, str] | None = None,
    one: float | None = None,
) -> str:
    """A block for each workload with a line for each backend, and an axis below. ``one`` is marked in every line."""
    mark = "" if one is None else tag("line", x1=scale.x(one), x2=scale.x(one), y1=0, y2=_BAR, class_="one")
    blocks = []
    for label in comparison.labels:
        lines = [bar for row in comparison.rows if row.label == label for bar in bars(row)]
        if lines:
            blocks.append(_block(label, [_line(bar, scale, mark) for bar in lines]))
    blocks.append(_block("", [tag("div", "<span></span>" + svg.axis(scale) + "<span></span>", class_="bar")]))
    shown = legend(backends_legend(comparison) if entries is None else entries)
    return tag("figure", shown + tag("div", "".join(blocks), class_="rows"), id=identity, class_="chart")


def _block(label: str, lines: Sequence[str]) -> str:
    suite, slash, name = label.partition("/")
    heading = f"{tag('small', text(suite))} {text(name)}" if slash else text(label)
    return tag("div", tag("div", heading, class_="name") + tag("div", "".join(lines), class_="bars"), class_="row")


def _line(bar: Bar, scale: Scale, mark: str) -> str:
    drawing = svg.strip(mark + bar.drawing + tag("title", text(bar.label)), scale, _BAR, bar.label)
    who, value = tag("span", text(bar.who), class_="who"), tag("span", text(bar.value), class_="value")
    return tag("div", who + drawing + value, class_=f"bar {bar.style}".strip())


def backends_legend(comparison: Comparison) -> dict[str, str]:
    """The entries of a legend: the backends by style."""
    named: dict[str, list[str]] = {}
    for backend, style in series(comparison).items():
        named.setdefault(style, []).append(backend)
    return {style: ", ".join(names) for style, names in named.items()}


def legend(entries: Mapping[str, str]) -> str:
    """What the styles in ``entries`` stand for."""
    items: Iterable[str] = (
        tag("li", tag("i", class_=style) + text(what)) for style, what in entries.items() if what != AGAIN
    )
    return tag("ul", "".join(items), class_="legend")
