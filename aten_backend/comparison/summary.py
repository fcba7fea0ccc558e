"""From rows to statements: speed-ups with intervals, geometric means with the losers, and who launches more kernels."""

from __future__ import annotations

import dataclasses

from aten_backend.comparison import stats
from aten_backend.comparison.backends import AGAIN, EAGER, INDUCTOR, OURS, TWIN
from aten_backend.comparison.records import Comparison, Row
from aten_backend.comparison.stats import Interval

Ratios = dict[str, list[float]]
"""For each workload, by its label, the ratios of the rounds."""


@dataclasses.dataclass(frozen=True)
class Mean:
    """How many times as fast ``backend`` is as ``over``, over the workloads of a suite."""

    suite: str
    backend: str
    over: str
    speedup: Interval
    workloads: int
    losers: tuple[tuple[str, Interval], ...]
    """Workloads on which ``backend`` is slower, the slowest first."""
    left_out: tuple[str, ...]
    """Workloads that one of the two could not run."""


@dataclasses.dataclass(frozen=True)
class CompileMean:
    """How many times as long ``over`` compiles as ``backend``: geometric means, cold and warm."""

    suite: str
    backend: str
    over: str
    cold: float
    warm: float | None


@dataclasses.dataclass(frozen=True)
class Counted:
    """Kernel launches of one of our backends beside Inductor's calls of fused kernels, for one workload."""

    label: str
    ours: Row
    theirs: Row

    @property
    def more(self) -> int:
        """Launches beyond Inductor's, without the second stages of long reductions."""
        extra = self.ours.counts["launches"] - self.ours.counts.get("second_stages", 0) - self.theirs.counts["launches"]
        return max(0, extra)

    @property
    def two_stages(self) -> bool:
        """Whether ours has more launches only because long reductions take two each."""
        return not self.more and self.ours.counts["launches"] > self.theirs.counts["launches"]


def pairs(comparison: Comparison) -> list[tuple[str, str]]:
    """Which backend is set against which: each against eager, ours at either level against Inductor, and against each
    other."""
    others = [name for name in comparison.backends if name not in (EAGER, AGAIN)]
    twins = [name for name in others if name == TWIN]
    wanted = [(name, EAGER) for name in others]
    wanted += [(name, INDUCTOR) for name in (*ours(comparison), *twins)]
    wanted += [(name, TWIN) for name in ours(comparison)]
    return [(name, over) for name, over in wanted if over in comparison.backends]


def ours(comparison: Comparison) -> list[str]:
    """Our backends among those compared."""
    return [name for name in comparison.backends if name.partition(":")[0] == OURS]


def ratios(comparison: Comparison, backend: str, over: str) -> Ratios:
    """Time of ``over`` divided by that of ``backend``, round by round, for each workload that both ran."""
    found: Ratios = {}
    for label in comparison.labels:
        mine, theirs = comparison.row(label, backend), comparison.row(label, over)
        if mine is not None and theirs is not None and mine.samples and theirs.samples:
            found[label] = stats.paired_ratios(theirs.samples, mine.samples)
    return found


def suites(comparison: Comparison) -> list[str]:
    """The suites that were run, and "all" if there are several."""
    names = list(dict.fromkeys(row.suite for row in comparison.rows))
    return [*names, "all"] if len(names) > 1 else names


def of_suite(suite: str, label: str) -> bool:
    """Whether a workload belongs to a suite, or to "all"."""
    return suite == "all" or label.startswith(f"{suite}/")


def means(comparison: Comparison) -> list[Mean]:
    """Geometric means for each suite and pair. Nothing is clipped, and who lost is told."""
    found = []
    for backend, over in pairs(comparison):
        measured = ratios(comparison, backend, over)
        for suite in suites(comparison):
            mine = {label: values for label, values in measured.items() if of_suite(suite, label)}
            if mine:
                missing = [label for label in comparison.labels if of_suite(suite, label) and label not in mine]
                found.append(_mean(suite, backend, over, mine, missing))
    return found


def _mean(suite: str, backend: str, over: str, measured: Ratios, missing: list[str]) -> Mean:
    each = {label: stats.median(values) for label, values in measured.items()}
    losers = sorted(((label, found) for label, found in each.items() if found.value < 1), key=lambda one: one[1].value)
    mean = stats.geometric_mean(list(measured.values()))
    return Mean(suite, backend, over, mean, len(each), tuple(losers), tuple(missing))


def noise(comparison: Comparison) -> Ratios:
    """Eager against itself: the ratios of two things that are the same."""
    return ratios(comparison, AGAIN, EAGER)


def compile_means(comparison: Comparison) -> list[CompileMean]:
    """Compile times of Inductor over ours, for each suite."""
    found = []
    for backend in ours(comparison):
        for suite in suites(comparison):
            both = [
                (mine, theirs)
                for label in comparison.labels
                if of_suite(suite, label)
                and (mine := comparison.row(label, backend)) is not None
                and (theirs := comparison.row(label, INDUCTOR)) is not None
            ]
            cold = [b.cold_compile_seconds / a.cold_compile_seconds for a, b in both
                    if a.cold_compile_seconds and b.cold_compile_seconds]  # fmt: skip
            warm = [b.warm_compile_seconds / a.warm_compile_seconds for a, b in both
                    if a.warm_compile_seconds and b.warm_compile_seconds]  # fmt: skip
            if cold:
                mean = stats.plain_geometric_mean
                found.append(CompileMean(suite, backend, INDUCTOR, mean(cold), mean(warm) if warm else None))
    return found


def counted(comparison: Comparison, backend: str) -> list[Counted]:
    """The workloads of which both counts are known."""
    found = []
    for label in comparison.labels:
        mine, theirs = comparison.row(label, backend), comparison.row(label, INDUCTOR)
        if mine is not None and theirs is not None and "launches" in mine.counts and "launches" in theirs.counts:
            found.append(Counted(label, mine, theirs))
    return found
