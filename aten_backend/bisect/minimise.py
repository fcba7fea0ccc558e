"""The least part of a graph that still shows a fault: a window of its calls, one result, then call by call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence


@dataclasses.dataclass(frozen=True)
class Part:
    """Calls of a graph in order, by name, and those of them that are returned. What they read beside each other becomes
    an input, with the value that it has in eager."""

    inside: tuple[str, ...]
    results: tuple[str, ...]


Shows = Callable[[Part], bool]
"""Whether a part shows the fault."""

Readers = Callable[[Sequence[str]], tuple[str, ...]]
"""Those among some calls that others, or nobody, read: what a part must return so that none is dead."""


def minimise(part: Part, shows: Shows, readers: Readers, tensors: Collection[str]) -> Part:
    """A part of ``part``, which shows the fault, that shows it still, and from which no call can be taken. ``tensors``
    are the calls that can be returned."""
    part = _window(part, shows, readers)
    part = _one_result(part, shows)
    part = _fewer(part, shows)
    for name in (
        n for n in part.inside[:-1] if n in tensors
    ):  # an earlier call as the result takes all later ones away
        shorter = Part(part.inside, (name,))
        if shows(shorter):
            return _fewer(_cut_after(shorter), shows)
    return part


def _window(part: Part, shows: Shows, readers: Readers) -> Part:
    """The fewest calls from the front that show it, then the fewest of these from the back, both by halves."""
    if len(part.inside) <= _FEW:
        return part
    calls = part.inside

    def ending(end: int) -> Part:
        return Part(calls[:end], readers(calls[:end]))

    low, high = 0, len(calls)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(ending(middle)) else (middle, high)
    shorter = part if high == len(calls) else ending(high)
    low, high = 0, len(shorter.inside)
    while high - low > 1:
        middle = (low + high) // 2
        tail = Part(shorter.inside[middle:], readers(shorter.inside[middle:]))
        low, high = (middle, high) if shows(tail) else (low, middle)
    return Part(shorter.inside[low:], readers(shorter.inside[low:])) if low else shorter


_FEW = 12
"""Calls that are tried one by one at once."""


def _one_result(part: Part, shows: Shows) -> Part:
    """The same with as few results as show it: one of them, or those left after taking others away."""
    for name in part.results if len(part.results) > 1 else ():
        alone = Part(part.inside, (name,))
        if shows(alone):
            return alone
    results = list(part.results)
    for name in part.results:
        rest = tuple(r for r in results if r != name)
        if rest and shows(Part(part.inside, rest)):
            results.remove(name)
    return Part(part.inside, tuple(results))


def _fewer(part: Part, shows: Shows) -> Part:
    """Take away runs of calls, long ones first, as long as the fault is shown (delta debugging)."""
    size = max(len(part.inside) // 2, 1)
    while True:
        start, smaller = 0, False
        while start < len(part.inside):
            run = set(part.inside[start : start + size])
            left = tuple(n for n in part.inside if n not in run)
            candidate = Part(left, tuple(r for r in part.results if r not in run))
            if candidate.inside and candidate.results and shows(candidate):
                part, smaller = candidate, True
            else:
                start += size
        if size == 1 and not smaller:
            return part
        size = max(size // 2, 1)


def _cut_after(part: Part) -> Part:
    """Without the calls after the last result."""
    last = max(part.inside.index(r) for r in part.results)
    return Part(part.inside[: last + 1], part.results)
