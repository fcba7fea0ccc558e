"""The minimiser, on made-up graphs in which the fault is known."""

from __future__ import annotations

import pytest

from aten_backend.bisect.minimise import Part, minimise

CALLS = tuple(f"n{i}" for i in range(200))


def chain_readers(names):
    """A chain: each call is read by the next; the last of a run is read from outside."""
    inside = set(names)
    return tuple(n for n in names if f"n{int(n[1:]) + 1}" not in inside)


def live(part):
    """What of a part of the chain its results are computed from, within the part."""
    inside, found = set(part.inside), set()
    for name in part.results:
        place = int(name[1:])
        while f"n{place}" in inside:
            found.add(f"n{place}")
            place -= 1
    return found


WHOLE = Part(CALLS, ("n199",))


def least(needed, start=WHOLE):
    tried = []

    def shows(part):
        tried.append(part)
        return set(needed) <= live(part)

    assert shows(start)
    found = minimise(start, shows, chain_readers, set(CALLS))
    return found, len(tried)


@pytest.mark.parametrize("needed", [("n0",), ("n117",), ("n199",), ("n40", "n41", "n42"), CALLS[10:30]])
def test_only_what_is_needed_is_left(needed):
    found, trials = least(needed)
    assert found.inside == needed
    assert set(found.results) <= set(found.inside)
    assert trials < 150


def test_a_fault_that_needs_everything_stays_whole():
    found, _ = least(CALLS[:6], Part(CALLS[:6], ("n5",)))
    assert found.inside == CALLS[:6]


def test_one_result_is_kept():
    part = Part(CALLS[:4], CALLS[:4])
    found = minimise(part, lambda p: "n2" in p.results, chain_readers, set(CALLS))
    assert found == Part(("n2",), ("n2",))
