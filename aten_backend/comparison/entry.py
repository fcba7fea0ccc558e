"""``aten_backend.compare``: the comparison from Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aten_backend.comparison import backends as named
from aten_backend.comparison import runner, suites
from aten_backend.comparison.places import can_move
from aten_backend.comparison.records import Comparison
from aten_backend.comparison.runner import Settings
from aten_backend.comparison.workloads import WorkloadError, of_function


def compare(
    fn: Callable[..., Any] | None = None,
    *args: Any,
    suite: str | Sequence[str] = (),
    only: str = "",
    backends: Sequence[str] = named.DEFAULT,
    settings: Settings | None = None,
    json: str | Path | None = None,
) -> Comparison:
    """Compare ``backends`` on ``fn(*args)``, on the named suites, or on both.

    ``only`` keeps the workloads of suites whose name contains it. ``json`` is a file, written after each workload.
    What comes back has ``rows`` and ``to_json()``. A workload that fails is a row with its error; WorkloadError and
    BackendError are raised for names that do not exist, ``runner.Interrupted`` for Ctrl-C. Each backend has a process
    of its own, which knows this one's environment but not what was set in Python, unless ``fn`` or ``args`` cannot be
    pickled, they or a backend are of the script that runs, or ``settings`` says so: then all are measured here, as
    ``settings`` of the result tells (``isolated``), and compiled code is reset.
    """
    chosen = suites.select([suite] if isinstance(suite, str) else suite, only)
    if fn is not None:
        chosen.insert(0, of_function(fn, *args))
    if not chosen:
        raise WorkloadError(f"There is nothing to compare: give a callable or a suite ({', '.join(suites.SUITES)}).")
    settings = settings or Settings()
    parsed = named.parse(tuple(backends), again=not settings.counts_only)
    if not all(map(can_move, chosen)) or not all(backend.is_everywhere for backend in parsed):
        settings = dataclasses.replace(settings, isolated=False)
    comparison = runner.new_comparison(settings, parsed)
    path = None if json is None else Path(json)
    runner.run(chosen, parsed, settings, comparison, lambda: comparison.save(path) if path is not None else None)
    return comparison
