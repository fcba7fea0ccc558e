"""The op table and the reasons for what is not in it."""

from __future__ import annotations

from . import bessel, factories, pointwise, reads, reductions, scans, scatters, special, views, windows, writes
from . import complex as complex_numbers
from .externs import DELIBERATE, reason_for
from .table import TABLE, Coords, Kind, Row, Scope, Updates
from .writes import IN_PLACE

__all__ = [
    "DELIBERATE",
    "IN_PLACE",
    "TABLE",
    "Coords",
    "Kind",
    "Row",
    "Scope",
    "Updates",
    "bessel",
    "complex_numbers",
    "factories",
    "pointwise",
    "reads",
    "reason_for",
    "reductions",
    "scans",
    "scatters",
    "special",
    "views",
    "windows",
    "writes",
]
