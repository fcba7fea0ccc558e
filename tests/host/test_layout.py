"""Drawings: no box on another, every edge downwards, and thousands of boxes at once."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from aten_backend.dump.layout import layered


def overlaps(corners, sizes):
    """Pairs of boxes that share points, by sweeping from left to right."""
    order = sorted(range(len(corners)), key=lambda v: corners[v][0])
    found = []
    for i, a in enumerate(order):
        (ax, ay), (aw, ah) = corners[a], sizes[a]
        for b in order[i + 1 :]:
            (bx, by), (_, bh) = corners[b], sizes[b]
            if bx >= ax + aw:
                break
            if by < ay + ah and ay < by + bh:
                found.append((a, b))
    return found


def chain(count, seed=0):
    """A deep graph with short and long edges, as a model's is."""
    random.seed(seed)
    edges = {(random.randrange(max(0, v - 6), v), v) for v in range(1, count) for _ in range(2)}
    edges |= {(v, min(v + 40, count - 1)) for v in range(0, count - 50, 50)}
    return [(236.0, 40.0 + 15 * random.randint(1, 13)) for _ in range(count)], sorted(edges)


@pytest.mark.parametrize("count", [1, 2, 60, 400])
def test_boxes_stand_apart_and_edges_go_down(count):
    sizes, edges = chain(count) if count > 50 else ([(100.0, 50.0)] * count, [(0, count - 1)] if count > 1 else [])
    drawn = layered(sizes, edges)
    assert not overlaps(drawn.corners, sizes)
    for (a, b), route in zip(edges, drawn.routes, strict=True):
        (ax, ay), (aw, ah) = drawn.corners[a], sizes[a]
        assert route[0] == pytest.approx((ax + aw / 2, ay + ah), abs=0.2)
        assert route[-1] == pytest.approx((drawn.corners[b][0] + sizes[b][0] / 2, drawn.corners[b][1]), abs=0.2)
        assert all(p[1] <= q[1] for p, q in itertools.pairwise(route))
    assert all(x >= 0 and x + w <= drawn.width + 0.2 for (x, _), (w, _) in zip(drawn.corners, sizes, strict=True))


def test_no_boxes():
    assert layered([], []).corners == ()


def test_thousands_of_boxes_take_seconds():
    sizes, edges = chain(4000)
    start = time.process_time()
    layered(sizes, edges)
    assert time.process_time() - start < 20
