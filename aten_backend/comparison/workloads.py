"""What is compared: a workload is a name and a recipe; the recipe makes a case, which can be run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from aten_backend.targets import load_target


class WorkloadError(Exception):
    """A workload that cannot be made, or a name that is none. The text says what to do."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A callable and its calls. One run of the case makes all of them."""

    fn: Callable[..., Any]
    calls: tuple[tuple[Any, ...], ...]
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    train: bool = False
    """Whether a run is a forward and a backward pass; ``fn`` is a module then."""
    dynamic: bool | None = None
    """As in ``torch.compile``."""
    exact: Callable[[], list[Any]] | None = None
    """Results in float64 of those for whom converting inputs and weights is not enough."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """A row of a suite."""

    suite: str
    name: str
    make: Callable[[], Case]
    weight: float = 1.0
    """How long it takes to compile, roughly, in units of one fused region; for the time left."""

    @property
    def label(self) -> str:
        """The name with its suite, which no other workload has."""
        return f"{self.suite}/{self.name}"


def of_function(fn: Callable[..., Any], *args: Any, suite: str = "own", name: str | None = None) -> Workload:
    """A workload of one call of the user's own."""
    called = name or str(getattr(fn, "__name__", type(fn).__name__))
    return Workload(suite, called, functools.partial(Case, fn, (args,)), weight=4.0)


def of_target(text: str) -> Workload:
    """A workload of a target of the command line, which is loaded anew wherever it is made."""
    return Workload("own", text, functools.partial(_load, text), weight=4.0)


def _load(text: str) -> Case:
    fn, args = load_target(text)
    return Case(fn, (args,))
