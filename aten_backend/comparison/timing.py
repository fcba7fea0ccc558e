"""How everything here is timed: warmed up, in samples long enough to measure, in rounds that take turns."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

_SAMPLE_SECONDS = 2e-3
_STEADY_SECONDS = 20e-3  # OpenMP's threads spin for some milliseconds after a region before they sleep
_MOST_REPEATS = 64
_FEWEST_ROUNDS = 6  # fewer give no 95% interval


class Samples(Protocol):
    """Where samples are kept."""

    repeats: int
    samples: list[float]


class Timed:
    """Something that can be run. ``row`` takes its samples."""

    row: Samples

    def run(self) -> Any:
        """Once, whatever it is."""
        raise NotImplementedError

    def settle(self, repeats: int | None = None) -> int | None:
        """Run until what is done once is done, and choose (or take) how many runs make one sample.

        None where it cannot be run.
        """
        self.run()
        started = time.perf_counter()
        self.run()
        once = time.perf_counter() - started
        gc.collect()
        self.row.repeats = repeats or max(1, min(_MOST_REPEATS, round(_SAMPLE_SECONDS / once)))
        return self.row.repeats

    def sample(self) -> None:
        """Time one sample: seconds of one run.

        Untimed ones come first, until caches, cores and this process's own threads are as in steady use.
        """
        gc.disable()
        try:
            _until_steady(self.run)
            self.row.samples.append(self.timed())
        finally:
            gc.enable()

    def timed(self) -> float:
        """Seconds of one run, the mean of as many as make a sample."""
        run, repeats = self.run, self.row.repeats
        started = time.perf_counter()
        for _ in range(repeats):
            run()
        return (time.perf_counter() - started) / repeats


def _until_steady(run: Callable[[], Any]) -> None:
    started = time.perf_counter()
    run()
    while time.perf_counter() - started < _STEADY_SECONDS:
        run()


def interleave(subjects: Sequence[Timed], rounds: int, seconds: float, done: Callable[[], None] = lambda: None) -> None:
    """Rounds in which each subject is timed once, in an order drawn anew, so that drift hits all alike.

    Drawn, not turned: behind a fixed neighbour one would always meet the threads that it left spinning. The rounds end
    after ``seconds``, but not before six.
    """
    chance = random.Random(0)
    repeats: int | None = None
    for subject in subjects:
        repeats = subject.settle(repeats) or repeats
    started = time.perf_counter()
    for number in range(rounds):
        for subject in chance.sample(subjects, len(subjects)):
            subject.sample()
        done()
        if number + 1 >= _FEWEST_ROUNDS and time.perf_counter() - started > seconds:
            break
