"""The roofline: operations per second over operations per byte, below what the machine can do."""

from __future__ import annotations

import dataclasses
import math
import statistics

from aten_backend.comparison.backends import AGAIN, EAGER
from aten_backend.comparison.records import Comparison, Row
from aten_backend.comparison.report import plots, svg
from aten_backend.comparison.report.svg import Scale, tag, text

_HEIGHT = 340


@dataclasses.dataclass(frozen=True)
class Point:
    """A row with its ``intensity`` (operations per byte that must move) and its ``speed`` (operations per second)."""

    row: Row
    intensity: float
    speed: float


def points(comparison: Comparison) -> list[Point]:
    """The rows of which everything is known. What a workload computes is what eager computes, for all backends."""
    found = []
    for row in comparison.rows:
        eager = comparison.row(row.label, EAGER)
        if eager is None or not eager.flops or not row.data_bytes or not row.samples or row.error:
            continue
        if row.backend != AGAIN:
            speed = eager.flops / statistics.median(row.samples)
            found.append(Point(row, eager.flops / row.data_bytes, speed))
    return found


def roofline(comparison: Comparison) -> str:
    """The plot; empty where the machine's peaks or the points are not known."""
    found, peaks = points(comparison), comparison.peaks
    if not found or not peaks:
        return ""
    memory, compute = peaks["bytes_per_second"], peaks["flops_per_second"]
    across = svg.decades([*(point.intensity for point in found), compute / memory], 1.0, " op/B")
    up = svg.decades([*(point.speed for point in found), compute], 1e9, " Gop/s")
    drawing = _grid(across, up) + _roof(across, up, memory, compute)
    styles = plots.series(comparison)
    for point in found:
        row = point.row
        share = point.speed / min(compute, memory * point.intensity)
        words = (f"{row.label}, {row.backend}: {point.speed / 1e9:.2f} Gop/s at {point.intensity:.2f} op/B, "
                 f"{share:.0%} of the roof")  # fmt: skip
        data = {"data_plot": "roofline", "data_workload": row.label, "data_backend": row.backend}
        place = {"cx": across.x(point.intensity), "cy": _y(up, point.speed), "r": 5}
        dot = tag("circle", tag("title", text(words)), class_="fill", data_value=point.speed, **place, **data)
        drawing += tag("g", dot, class_=styles[row.backend])
    label = "Operations per second over operations per byte, both logarithmic, below the machine's peaks"
    plot = tag("svg", drawing, width="100%", height=_HEIGHT, role="img", aria_label=label)
    return tag("figure", plots.legend(plots.backends_legend(comparison)) + plot, id="plot-roofline", class_="chart")


def _y(up: Scale, value: float) -> float:
    return 12 + (_HEIGHT - 40) * (1 - up.share(value))


def _grid(across: Scale, up: Scale) -> str:
    drawing = ""
    for at, label in across.ticks:
        drawing += tag("line", x1=across.x(at), x2=across.x(at), y1=12, y2=_HEIGHT - 28, class_="grid")
        drawing += tag("text", text(label), x=across.x(at), y=_HEIGHT - 12, text_anchor="middle", class_="tick")
    for at, label in up.ticks:
        ends = {"y1": _y(up, at), "y2": _y(up, at)}
        drawing += tag("line", x1=across.x(across.low), x2=across.x(across.high), class_="grid", **ends)
        drawing += tag("text", text(label), x=across.x(across.low), y=_y(up, at) - 3, class_="tick")
    return drawing


def _roof(across: Scale, up: Scale, memory: float, compute: float) -> str:
    """Up along the memory's diagonal as far as the two meet, then flat."""
    ridge = compute / memory
    low = max(across.low, up.low / memory)
    start, end = min(low, ridge), max(across.high, ridge)
    lines = [(start, memory * start, ridge, compute), (ridge, compute, end, compute)]
    drawing = "".join(
        tag("line", x1=across.x(x1), y1=_y(up, y1), x2=across.x(x2), y2=_y(up, y2), class_="rate")
        for x1, y1, x2, y2 in lines
    )
    for words, at, anchor in (
        (f"triad, {memory / 1e9:.1f} GB/s", math.sqrt(start * ridge), "end"),
        (f"matrix product, {compute / 1e9:.0f} Gop/s", end, "end"),
    ):
        height = _y(up, min(compute, memory * at)) - 6
        drawing += tag("text", text(words), x=across.x(at), y=height, text_anchor=anchor, class_="tick")
    return drawing
