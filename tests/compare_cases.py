"""Comparisons made up for tests."""

from __future__ import annotations

import random
from collections.abc import Mapping

from aten_backend.comparison.records import Comparison, Row

WORKLOADS = ("gelu", "softmax", "argmax")
BACKENDS = {"eager": 1.0, "eager again": 1.0, "xpu_aten": 0.5, "inductor": 0.6}
"""Times in milliseconds."""


def comparison(
    times: Mapping[str, float] = BACKENDS,
    seed: int = 0,
    spread: float = 0.02,
    rounds: int = 30,
    workloads: tuple[str, ...] = WORKLOADS,
) -> Comparison:
    """A comparison with samples drawn around ``times``, in rounds that drift."""
    chance = random.Random(seed)
    settings = {"rounds": rounds, "seconds": 20.0, "counts_only": False, "backends": list(times)}
    made = Comparison({"processor": "test"}, {"torch": "2.13"}, {"intra_op": 2}, settings, "2026-01-01T00:00:00+00:00")
    for workload in workloads:
        drift = [chance.uniform(1, 2) for _ in range(rounds)]
        made.rows += [_row(workload, name, drift, 1e-3 * base, spread, chance) for name, base in times.items()]
    return made


def _row(workload: str, backend: str, drift: list[float], base: float, spread: float, chance: random.Random) -> Row:
    samples = [base * d * chance.lognormvariate(0, spread) for d in drift]
    row = Row("fusion", workload, backend, distance=1e-7, peak_bytes=0, samples=samples)
    if "eager" not in backend:
        row.cold_compile_seconds, row.warm_compile_seconds = 2e3 * base, 1e2 * base
        row.counts = {"kernels": 1, "launches": 1, "extern_calls": 0, "fallback_nodes": 0}
    return row
