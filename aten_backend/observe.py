"""The stage runner: names each stage, times it, and shows its artefact to whoever watches. Stages know nothing of it."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

Observer = Callable[[str, Any, float], None]
"""Called with the stage's name, the artefact that it returned, and the seconds that it took."""

LOGGERS = {
    "passes": "lowering.passes", "classify": "lowering.classify", "partition": "lowering.partition", "build": "lowering.build", "schedule": "lowering.schedule",
    "emit": "lowering.emit", "plan": "runtime.plan", "compile": "runtime.compiler", "link": "runtime.executor", "graph": "lowering.graph",
}  # fmt: skip


def log_stage(stage: str, artefact: Any, seconds: float) -> None:
    """One logger a stage: times at INFO, the artefact itself at DEBUG (``TORCH_LOGS=+lowering.partition``)."""
    logger = logging.getLogger(LOGGERS[stage])
    logger.info("%s took %.1f ms", stage, seconds * 1e3)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s:\n%s", stage, readable(artefact))


def readable(artefact: Any) -> str:
    """An artefact as text."""
    if isinstance(artefact, (list, tuple)):
        return "\n\n".join(map(readable, artefact))
    return str(artefact)


@dataclasses.dataclass(frozen=True)
class StageRunner:
    """Runs stages for one graph."""

    observers: tuple[Observer, ...] = (log_stage,)

    def __call__(self, stage: str, function: Callable[..., T], *args: Any) -> T:
        start = time.perf_counter()
        artefact = function(*args)
        seconds = time.perf_counter() - start
        for observer in self.observers:
            observer(stage, artefact, seconds)
        return artefact
