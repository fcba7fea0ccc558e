"""Workloads from the folder that ``xpu-aten dump`` writes: each graph of ATen calls, as its script has it."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from aten_backend.comparison.distance import tensors
from aten_backend.comparison.workloads import Case, Workload, WorkloadError
from aten_backend.dump import replay
from aten_backend.targets import load_plugin

_SCRIPTS = "02_*.py"
"""The graph after decomposition: what the compilers start from."""


def workloads(folder: Path) -> list[Workload]:
    """The graphs in ``folder``, which is a dump or the folder of one graph. WorkloadError if there are none."""
    scripts = sorted(folder.glob(_SCRIPTS)) or sorted(folder.glob(f"*/{_SCRIPTS}"))
    if not scripts:
        raise WorkloadError(f"{folder} holds no graphs ({_SCRIPTS}). Give the folder that `xpu-aten dump` wrote.")
    return [
        Workload("dump", script.parent.relative_to(folder.parent).as_posix(),
                 functools.partial(load, str(script.resolve())), weight=10.0)
        for script in scripts
    ]  # fmt: skip


def load(script: str) -> Case:
    """The graph of a dumped script on its inputs, those of its first call where they were saved.

    Backward graphs too are run as they are, without autograd. WorkloadError for one that cannot be run alone.
    """
    module = load_plugin(script)
    graph = getattr(module, "graph", None)
    if graph is None:
        reason = Path(script).read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        raise WorkloadError(f"{script}: {reason}")
    with contextlib.redirect_stdout(io.StringIO()):  # which of them were saved
        values = tuple(replay.inputs(script, module.INPUTS).values())
    return Case(graph, (values,), exact=functools.partial(_exact, graph, values))


def _exact(graph: Callable[..., Any], values: tuple[Any, ...]) -> list[torch.Tensor]:
    """In float64 whatever dtypes the graph names; from eager where an op has no float64."""
    with contextlib.redirect_stdout(io.StringIO()):
        found = replay.in_float64(graph, values)
    return tensors(graph(*values) if found is None else found)
