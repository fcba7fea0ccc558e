"""Axis inference: which loop of an iteration space each dimension of each node is.

A dimension is a product of axes, slowest first; a dimension of size one has none. Reshapes split axes, broadcasts bring
fresh ones, and fusing two nodes unifies theirs. Two nodes can share a loop nest exactly when their dimensions unify
without making two axes of one node the same. All changes are kept on a trail, so that an attempt can be taken back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from .index import ONE, Index, divide_exactly, index

AxisId = int
Dim = tuple[AxisId, ...]
Dims = tuple[Dim, ...]


class Axes:
    """A union-find over axes, in which an axis may also be split into a slow and a fast one."""

    def __init__(self) -> None:
        self._sizes: list[Index] = []
        self._same: dict[AxisId, AxisId] = {}
        self._parts: dict[AxisId, tuple[AxisId, AxisId]] = {}
        self._trail: list[tuple[dict[Any, Any], Any]] = []

    def fresh(self, size: Index) -> Dim:
        """A new axis for a dimension of ``size``; none for size one."""
        if size == ONE:
            return ()
        self._sizes.append(size)
        return (len(self._sizes) - 1,)

    def fresh_dims(self, shape: Iterable[Index]) -> Dims:
        """New axes for every dimension of ``shape``."""
        return tuple(self.fresh(s) for s in shape)

    def size(self, axis: AxisId) -> Index:
        """The extent of ``axis``."""
        return self._sizes[axis]

    def mark(self) -> int:
        """A point to which ``undo`` can return."""
        return len(self._trail)

    def undo(self, mark: int) -> None:
        """Take back every unification and split since ``mark``."""
        while len(self._trail) > mark:
            table, key = self._trail.pop()
            del table[key]

    def record(self, table: dict[Any, Any], key: Any, value: object) -> None:
        """Set ``table[key]`` so that ``undo`` removes it again."""
        table[key] = value
        self._trail.append((table, key))

    def leaves(self, dim: Iterable[AxisId]) -> Dim:
        """``dim`` in terms of axes that are neither unified with another nor split."""
        found: list[AxisId] = []
        stack = list(reversed(list(dim)))
        while stack:
            axis = stack.pop()
            while axis in self._same:
                axis = self._same[axis]
            if axis in self._parts:
                slow, fast = self._parts[axis]
                stack += [fast, slow]
            else:
                found.append(axis)
        return tuple(found)

    def split(self, axis: AxisId, inner: Index, outer: Index) -> None:
        """Make ``axis`` the product of a slow axis of size ``outer`` and a fast one of size ``inner``."""
        self.record(self._parts, axis, (self.fresh(outer)[0], self.fresh(inner)[0]))

    def unify(self, left: Iterable[AxisId], right: Iterable[AxisId]) -> bool:
        """Make two dimensions the same loops; False when their factors do not fit each other."""
        a, b = list(self.leaves(left))[::-1], list(self.leaves(right))[::-1]
        while a and b:
            x, y = a.pop(), b.pop()
            if x == y:
                continue
            size_x, size_y = self._sizes[x], self._sizes[y]
            if size_x == size_y:
                self.record(self._same, y, x)
            elif not self._unify_split(x, size_x, y, size_y, a, b) and not self._unify_split(
                y, size_y, x, size_x, b, a
            ):
                return False
            a, b = list(self.leaves(a[::-1]))[::-1], list(self.leaves(b[::-1]))[::-1]
        return not a and not b

    def _unify_split(
        self,
        large: AxisId,
        large_size: Index,
        small: AxisId,
        small_size: Index,
        rest_large: list[AxisId],
        rest_small: list[AxisId],
    ) -> bool:
        """Split ``large`` so that its slow part is ``small``; the fast part stays to be unified."""
        inner = _larger_factor(large_size, small_size)
        if inner is None:
            return False
        self.split(large, inner, small_size)
        slow, fast = self._parts[large]
        self.record(self._same, slow, small)
        rest_large.append(fast)
        return True

    def unify_dims(self, left: Dims, right: Dims) -> bool:
        """Unify dimension by dimension."""
        return len(left) == len(right) and all(self.unify(a, b) for a, b in zip(left, right, strict=True))

    def reshape(self, dims: Dims, shape: Sequence[Index]) -> Dims | None:
        """The dimensions of a row-major reshape to ``shape``, splitting axes where needed; None when factors do not
        fit."""
        queue = list(self.leaves(a for d in dims for a in d))[::-1]
        out: list[Dim] = []
        for size in shape:
            taken: list[AxisId] = []
            wanted = size
            while wanted != ONE:
                if not queue:
                    return None
                axis = queue.pop()
                rest = divide_exactly(wanted, self._sizes[axis])
                if rest is not None and rest != index(0):
                    taken.append(axis)
                    wanted = rest
                    continue
                inner = _larger_factor(self._sizes[axis], wanted)
                if inner is None:
                    return None
                self.split(axis, inner, wanted)
                slow, fast = self._parts[axis]
                taken.append(slow)
                queue.append(fast)
                wanted = ONE
            out.append(tuple(taken))
        return tuple(out) if not queue else None

    def distinct(self, dims: Iterable[Dim]) -> bool:
        """Whether no axis occurs twice among ``dims``."""
        found = self.leaves(a for d in dims for a in d)
        return len(set(found)) == len(found)


def _larger_factor(large: Index, small: Index) -> Index | None:
    """large / small when that is exact and more than one."""
    if small.constant == 0:
        return None
    inner = divide_exactly(large, small)
    return None if inner is None or inner == ONE or inner.constant == 0 else inner


@dataclasses.dataclass(frozen=True)
class Space:
    """The iteration space of a group: axes that every element has, and axes that its reductions combine."""

    rows: Dim
    cols: Dim
