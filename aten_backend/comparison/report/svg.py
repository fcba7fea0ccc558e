"""Small helpers for inline SVG. Lengths along x are shares of the width, so that text keeps its size on any screen."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable

_EDGE = 4.0
"""Per cent of the width that stays free at each side, for the labels of the outermost ticks."""


def tag(name: str, content: str = "", /, **attributes: object) -> str:
    """An element. ``content`` is markup already; attributes are escaped here, ``class_`` is class and _ is -."""
    given = [(key.rstrip("_").replace("_", "-"), str(value)) for key, value in attributes.items()]
    opening = " ".join([name, *(f'{key}="{html.escape(value)}"' for key, value in given)])
    return f"<{opening}>{content}</{name}>"


def text(value: object) -> str:
    """Escaped text."""
    return html.escape(str(value), quote=False)


@dataclasses.dataclass(frozen=True)
class Scale:
    """Where values lie between ``low`` and ``high``, and which of them are ticks, with their labels."""

    low: float
    high: float
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        """Between 0 and 1; values beyond the ends are put there."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return (at - low) / (high - low)

    def x(self, value: float) -> str:
        """A place along x."""
        return percent(_EDGE + (100 - 2 * _EDGE) * self.share(value))

    def width(self, start: float, end: float) -> str:
        """The length between two values along x."""
        return percent((100 - 2 * _EDGE) * abs(self.share(end) - self.share(start)))


def percent(value: float) -> str:
    return f"{value:.3f}%"


def factors(values: Iterable[float]) -> Scale:
    """For speed-ups: powers of two, 1 in the middle of what is shown or near it."""
    exponents = [math.log2(value) for value in values]
    low = min(-1, math.floor(min(exponents, default=0)))
    high = max(1, math.ceil(max(exponents, default=0)))
    step = max(1, math.ceil((high - low) / 6))
    shown = [e for e in range(low, high + 1) if e % step == 0]
    ticks = tuple((2.0**e, f"{2**e}×" if e >= 0 else f"1/{2**-e}") for e in shown)
    return Scale(2.0**low, 2.0**high, True, ticks)


def decades(values: Iterable[float], unit: float = 1.0, name: str = "", fewest: int = 2) -> Scale:
    """Powers of ten around positive values. Labels are in multiples of ``unit``, whose ``name`` follows."""
    exponents = [math.log10(value / unit) for value in values if value > 0] or [0.0]
    low, high = math.floor(min(exponents)), math.ceil(max(exponents))
    high = max(high, low + fewest)
    step = max(1, math.ceil((high - low) / 6))
    ticks = tuple((10.0**e * unit, f"{10.0**e:g}{name}") for e in range(low, high + 1, step))
    return Scale(10.0**low * unit, 10.0**high * unit, True, ticks)


def from_zero(values: Iterable[float], name: str) -> Scale:
    """Linear, from zero, with round ticks."""
    most = max(values, default=0.0) or 1.0
    step = 10 ** math.floor(math.log10(most))
    step = next(step * part for part in (0.2, 0.5, 1, 2) if most / (step * part) <= 5.5)
    count = math.ceil(most / step)
    ticks = tuple((number * step, f"{number * step:g}{name}") for number in range(count + 1))
    return Scale(0.0, count * step, False, ticks)


def strip(content: str, scale: Scale, height: int, label: str) -> str:
    """One row of a chart: grid lines, and ``content`` over them. ``label`` is for those who cannot see it."""
    lines = "".join(
        tag("line", x1=scale.x(at), x2=scale.x(at), y1=0, y2=height, class_="grid") for at, _ in scale.ticks
    )
    return tag("svg", lines + content, width="100%", height=height, role="img", aria_label=label)


def axis(scale: Scale) -> str:
    """The labels below the rows."""
    labels = "".join(
        tag("text", text(label), x=scale.x(at), y=13, text_anchor="middle", class_="tick") for at, label in scale.ticks
    )
    return tag("svg", labels, width="100%", height=18, aria_hidden="true")
