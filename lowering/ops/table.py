"""THE op table: for every op that is lowered, one row, which answers "can this be fused?" and "how?" alike."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.fx import Node

from ..faults import Fault
from ..index import Index
from ..values import Body, Scalar

Coords = tuple[Index, ...]


class Kind(enum.Enum):
    """How a node's elements relate to those of its arguments."""

    POINTWISE = "pointwise"  # element i of the result reads element i (after broadcasting) of each argument
    REDUCTION = "reduction"  # combines over some dimensions of its first argument
    SCAN = "scan"  # combines along one dimension, up to each position
    VIEW = "view"  # the same memory, other coordinates
    READ = "read"  # reads its arguments elsewhere: cat, pad, embedding, gather, flip
    FACTORY = "factory"  # reads nothing


class Scope(Protocol):
    """What a row's ``lower`` may ask of the group under construction."""

    body: Body

    def read(self, arg: Node, coords: Coords, mask: Scalar | None = None) -> Scalar:
        """Element ``coords`` of the tensor ``arg`` in its compute type; zero where ``mask`` is false."""
        ...

    def operand(self, arg: Any, coords: Coords, result_rank: int) -> Any:
        """A pointwise argument at the result's ``coords``: tensors broadcast, numbers become values, others pass."""
        ...

    def reduced(self, node: Node, coords: Coords) -> Coords:
        """Coordinates in the first argument of the reduction ``node``, for its result's ``coords``."""
        ...

    def reduce(self, fn: str, value: Scalar) -> Scalar:
        """``value`` combined over the group's cols."""
        ...

    def scan(self, fn: str, value: Scalar) -> Scalar:
        """``value`` combined over the group's cols up to the current one."""
        ...

    def checked(self, value: Scalar, size: Index, fault: Fault, dim: int = 0) -> Index:
        """A data-dependent index of dimension ``dim``, certain to be in [0, size); else the host raises ``fault``."""
        ...


@dataclasses.dataclass(frozen=True)
class Updates:
    """One pass over a result that is in memory: for each point of ``rows`` and, in order, of ``cols`` (sizes both),
    ``at`` gives the element that changes and the value that ``fn`` (as in ir.Update) combines it with. Two rows never
    change one element."""

    rows: Coords
    cols: Coords
    fn: str
    at: Callable[[Scope, Coords, Coords], tuple[Coords, Scalar]]


Lower = Callable[[Scope, Node, Coords], Any]
Pull = Callable[[Node, Coords], "Coords | None"]


@dataclasses.dataclass(frozen=True)
class Row:
    """One op. ``refuse`` says why a particular node is left to ATen, or None. ``cost`` counts in additions an element.

    A VIEW has ``pull``, which maps coordinates of the result to those of the first argument (None: there is none); one
    that ``reshapes`` keeps the row-major order.
    A REDUCTION has ``dims``, the dimensions of its first argument that it combines, and whether these stay; a SCAN too.
    A READ has ``aligned``, which tells for each dimension of an argument the dimension of the result that it is read
    along (None: anywhere); other arguments are read anywhere. ``once`` says that no element is read twice. One with
    ``updates`` writes at places that depend on data: ``lower`` gives its elements before the first pass. It is a group
    of its own.
    """

    kind: Kind
    lower: Lower | None = None
    pull: Pull | None = None
    dims: Callable[[Node], tuple[tuple[int, ...], bool]] | None = None
    aligned: Callable[[Node], dict[Node, tuple[int | None, ...]]] = lambda node: {}
    once: bool = False
    reshapes: bool = False
    refuse: Callable[[Node], str | None] = lambda node: None
    cost: int = 1
    updates: Callable[[Node], tuple[Updates, ...]] | None = None


TABLE: dict[torch._ops.OpOverload, Row] = {}


def overloads(names: Sequence[str]) -> list[torch._ops.OpOverload]:
    """The functional overloads behind names such as ``aten.add`` (all of them) or ``aten.add.Tensor`` (that one)."""
    found = []
    for name in names:
        space, op, *overload = name.split(".")
        packet = getattr(getattr(torch.ops, space), op)
        candidates = [getattr(packet, o) for o in (overload or packet.overloads())]
        found += [c for c in candidates if overload or (not c._schema.is_mutable and _returns_tensors(c))]
    return found


def _returns_tensors(op: torch._ops.OpOverload) -> bool:
    return bool(op._schema.returns) and all(isinstance(r.type, torch.TensorType) for r in op._schema.returns)


def register(names: Sequence[str], row: Row) -> None:
    """Add ``row`` for all overloads of ``names``; two rows for one overload are a mistake."""
    for op in overloads(names):
        if op in TABLE:
            raise AssertionError(f"{op} has two rows in the op table")
        TABLE[op] = row
