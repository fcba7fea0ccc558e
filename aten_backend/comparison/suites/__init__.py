"""The suites that come with the project, by name."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterable

from aten_backend.comparison.suites import dynamic, fusion, generation, models, training
from aten_backend.comparison.workloads import Case, Workload, WorkloadError

SUITES: dict[str, tuple[Workload, ...]] = {
    "fusion": fusion.WORKLOADS,
    "models": models.WORKLOADS,
    "training": training.WORKLOADS,
    "generation": generation.WORKLOADS,
    "dynamic": dynamic.WORKLOADS,
}


def select(names: Iterable[str], only: str = "") -> list[Workload]:
    """The workloads of the suites ``names`` whose label contains ``only``. WorkloadError for an unknown suite.

    They can be pickled: recipes become names.
    """
    found: list[Workload] = []
    for name in names:
        if name not in SUITES:
            close = difflib.get_close_matches(name, SUITES, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise WorkloadError(f"There is no suite {name!r}.{hint} Known: {', '.join(SUITES)}.")
        found += [by_name(workload) for workload in SUITES[name] if only in workload.label]
    return found


def by_name(workload: Workload) -> Workload:
    """The same with a recipe that can be pickled."""
    return dataclasses.replace(workload, make=functools.partial(make, workload.suite, workload.name))


def make(suite: str, name: str) -> Case:
    """The case of a workload of a suite."""
    return next(workload for workload in SUITES[suite] if workload.name == name).make()
