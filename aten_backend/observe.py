"""The stage runner: names each stage, times it, and shows its artefact to whoever watches. Stages know nothing of
it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from aten_backend.dump.story import Follower
from aten_backend.dump.text import readable
from aten_backend.options import Options
from lowering import verify
from runtime.verify import verify_plan

T = TypeVar("T")

Observer = Callable[[str, Any, float], None]
"""Called with the stage's name, the artefact that it returned, and the seconds that it took. A Follower is
told of stages that raise as well."""

LOGGERS = {
    "dynamo": "aten_backend.backend",
    "joint": "aten_backend.backend",
    "forward": "aten_backend.backend",
    "backward": "aten_backend.backend",
    "inference": "aten_backend.backend",
    "passes": "lowering.passes",
    "classify": "lowering.classify",
    "partition": "lowering.partition",
    "build": "lowering.build",
    "split": "lowering.split",
    "schedule": "lowering.schedule",
    "chain": "lowering.chain",
    "tune": "aten_backend.autotune",
    "emit": "lowering.emit",
    "plan": "runtime.plan",
    "compile": "runtime.compiler",
    "link": "runtime.executor",
}


def log_stage(stage: str, artefact: Any, seconds: float) -> None:
    """One logger a stage: times at INFO, the artefact itself at DEBUG (``TORCH_LOGS=+lowering.partition``)."""
    logger = logging.getLogger(LOGGERS[stage])
    logger.info("%s took %.1f ms", stage, seconds * 1e3)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s:\n%s", stage, readable(artefact))


class Verifier:
    """Holds each artefact against its specification, together with the earlier ones that it was made from.

    One for each compile: it remembers the artefacts of the graph that is under way.
    """

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __call__(self, stage: str, artefact: Any, seconds: float) -> None:
        self._made[stage] = artefact
        check = getattr(self, f"_{stage}", None)
        if check is not None:
            check(artefact)

    def _classify(self, classes: Any) -> None:
        verify.verify_classes(self._made["passes"], classes)

    def _partition(self, cut: Any) -> None:
        verify.verify_partition(cut)

    def _build(self, bodies: Any) -> None:
        cut = self._made["partition"]
        for group, body in zip((g for g in cut.groups if g.stored), bodies, strict=True):
            verify.verify_group(cut, group, body)

    def _split(self, parts: Any) -> None:
        cut = self._made["partition"]
        for group, kernels in zip((g for g in cut.groups if g.stored), parts, strict=True):
            verify.verify_parts(cut, group, [body for body, _ in kernels])

    def _schedule(self, phases: Any) -> None:
        for phase in (p for parts in phases for p in parts):
            verify.verify_schedule(phase.group, phase.schedule)

    def _chain(self, launches: Any) -> None:
        verify.verify_launches([p for parts in self._made["schedule"] for p in parts], [found for found, _ in launches])

    def _tune(self, launches: Any) -> None:
        self._chain(launches)

    def _emit(self, kernels: Any) -> None:
        for kernel in kernels:
            verify.verify_kernel(kernel)
        verify.verify_names(kernels)

    def _plan(self, plan: Any) -> None:
        verify_plan(plan)


_guests: list[Observer] = []


@contextlib.contextmanager
def watching(observer: Observer) -> Iterator[None]:
    """Let ``observer`` watch every compile that begins meanwhile, whoever asked for it."""
    _guests.append(observer)
    try:
        yield
    finally:
        _guests.remove(observer)


def observers(options: Options, followers: Sequence[Follower] = ()) -> tuple[Observer, ...]:
    """Who watches a compile under ``options``: the loggers, who is ``watching``, ``followers``, and when asked for the
    specification of each artefact, which comes last, so that what breaks it is written before."""
    watchers: list[Observer] = [log_stage, *_guests, *followers]
    if options.verify != "off":
        watchers.append(Verifier())
    return tuple(watchers)


@dataclasses.dataclass(frozen=True)
class StageRunner:
    """Runs stages for one graph."""

    observers: tuple[Observer, ...] = (log_stage,)

    def __call__(self, stage: str, function: Callable[..., T], *args: Any) -> T:
        start = time.perf_counter()
        try:
            artefact = function(*args)
            seconds = time.perf_counter() - start
            for observer in self.observers:
                observer(stage, artefact, seconds)
        except Exception as error:
            for observer in self.observers:
                if isinstance(observer, Follower):
                    observer.failed(stage, error, time.perf_counter() - start)
            raise
        return artefact
