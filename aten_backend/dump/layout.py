"""Drawing a directed graph in layers, after Sugiyama, Tagawa and Toda (1981): layers by longest path, long edges
through a chain of points, order by barycentres, then places near their neighbours without overlap.

Linear in nodes and points but for sorting each layer, so that graphs of thousands of nodes are laid out at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

GAP_X, GAP_Y = 26, 44
SWEEPS, PULLS = 6, 10
POINT = 8
"""Width of a point that a long edge goes through."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Upper left corners of the boxes, and for each edge the points that it goes through from box to box."""

    corners: tuple[tuple[float, float], ...]
    routes: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def layered(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Boxes of ``sizes`` (width, height) and ``edges`` between them, each from a lower number to a higher."""
    drawing = _Drawing(sizes, edges)
    drawing.order()
    return drawing.place()


class _Drawing:
    def __init__(self, sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> None:
        self.sizes, self.edges = sizes, edges
        layer = _layers(len(sizes), edges)
        self.layers: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
        for box, level in enumerate(layer):
            self.layers[level].append(box)
        self.widths = [width for width, _ in sizes]
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.chains = self._chains(layer)
        self.x: list[float] = []

    def _chains(self, layer: list[int]) -> list[list[int]]:
        """For each edge the boxes and points that it goes through; edges from one box share theirs."""
        shared: dict[tuple[int, int], int] = {}
        chains = []
        for a, b in self.edges:
            chain = [a]
            for level in range(layer[a] + 1, layer[b]):
                point = shared.get((a, level))
                if point is None:
                    point = shared[a, level] = self._point(level)
                    self._join(chain[-1], point)
                chain.append(point)
            self._join(chain[-1], b)
            chains.append([*chain, b])
        return chains

    def _point(self, level: int) -> int:
        self.widths.append(POINT)
        self.above.append([])
        self.below.append([])
        self.layers[level].append(len(self.widths) - 1)
        return len(self.widths) - 1

    def _join(self, a: int, b: int) -> None:
        self.below[a].append(b)
        self.above[b].append(a)

    def order(self) -> None:
        """Sort each layer by where its neighbours stand in the one before, down and up in turn."""
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            before: dict[int, float] = {}
            for layer in self.layers if down else reversed(self.layers):
                near = self.above if down else self.below
                ranks = {v: _mean([before[u] for u in near[v]], i) for i, v in enumerate(layer)}
                layer.sort(key=ranks.__getitem__)
                before = {v: float(i) for i, v in enumerate(layer)}

    def place(self) -> Layout:
        """Coordinates."""
        self.x = [0.0] * len(self.widths)
        for layer in self.layers:
            self._spread(layer, [0.0] * len(layer))
        for pull in range(PULLS):
            near = self.above if pull % 2 == 0 else self.below
            for layer in self.layers if pull % 2 == 0 else reversed(self.layers):
                self._spread(layer, [_mean([self.x[u] for u in near[v]], self.x[v]) for v in layer])
        left = min((self.x[v] - self.widths[v] / 2 for v in range(len(self.widths))), default=0.0)
        right = max((self.x[v] + self.widths[v] / 2 for v in range(len(self.widths))), default=0.0)
        tops, heights, y = [], [], 0.0
        for layer in self.layers:
            height = max((self.sizes[v][1] for v in layer if v < len(self.sizes)), default=0.0)
            tops.append(y)
            heights.append(height)
            y += height + GAP_Y
        level = {v: n for n, layer in enumerate(self.layers) for v in layer}
        corners = tuple(
            (round(self.x[v] - self.widths[v] / 2 - left, 1), tops[level[v]]) for v in range(len(self.sizes))
        )
        routes = tuple(self._route(chain, level, tops, heights, left) for chain in self.chains)
        return Layout(corners, routes, right - left, max(y - GAP_Y, 0.0))

    def _route(
        self, chain: list[int], level: dict[int, int], tops: list[float], heights: list[float], left: float
    ) -> tuple[tuple[float, float], ...]:
        points = []
        for n, v in enumerate(chain):
            x = round(self.x[v] - left, 1)
            top = tops[level[v]]
            bottom = top + (self.sizes[v][1] if n == 0 else heights[level[v]])
            points += [(x, bottom)] if n == 0 else [(x, top)] if n == len(chain) - 1 else [(x, top), (x, bottom)]
        return tuple(points)

    def _spread(self, layer: list[int], wanted: list[float]) -> None:
        """Put a layer's members as near to where they are ``wanted`` as their order and widths allow: blocks that
        would overlap are joined and stand at their members' mean (least squares, by pooling)."""
        blocks: list[tuple[float, int, list[int], float]] = []  # mean of starts, weight, members, width
        for v, want in zip(layer, wanted, strict=True):
            block = (want - self.widths[v] / 2, 1, [v], self.widths[v] + GAP_X)
            while blocks and blocks[-1][0] + blocks[-1][3] > block[0]:
                start, weight, members, width = blocks.pop()
                total = weight + block[1]
                mean = (start * weight + (block[0] - width) * block[1]) / total
                block = (mean, total, members + block[2], width + block[3])
            blocks.append(block)
        for start, _, members, _ in blocks:
            at = start
            for v in members:
                self.x[v] = at + self.widths[v] / 2
                at += self.widths[v] + GAP_X


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest path from a source; a source itself stands right above the first that reads it."""
    layer, first = [0] * count, [count] * count
    for a, b in sorted(edges, key=lambda edge: edge[1]):
        layer[b] = max(layer[b], layer[a] + 1)
    fed = {b for _, b in edges}
    for a, b in edges:
        first[a] = min(first[a], layer[b])
    return [first[v] - 1 if v not in fed and first[v] < count else layer[v] for v in range(count)]


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default
