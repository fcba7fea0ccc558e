"""Cutting a graph into fusion groups and externs.

Nodes are taken in order; each joins the groups of its producers when their dimensions unify with its own (see
``axes``) and no path leaves and re-enters the group. Ancestor sets of groups are bit sets, so that the check costs a
few machine words and the whole stays near linear in the number of nodes.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Iterator, Mapping

from torch.fx import GraphModule, Node

from . import graph
from .axes import Axes, Dim, Dims, Space
from .classify import SMALL, Classes, Refusal, op_name
from .dimensions import Dimensions, ReadDims, broadcast, whole
from .index import ONE, Index, Symbol, product
from .ops import TABLE, Kind
from .order import required_order
from .target import Traits

SIBLING_WINDOW = 4
"""With how many earlier groups over the same loops a group is tried."""


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """A fusion group: its nodes in order, those whose results others need, and each node's dimensions as axes."""

    nodes: tuple[Node, ...]
    stored: tuple[Node, ...]
    space: Space
    dims: Mapping[Node, Dims]
    full: Mapping[Node, Dims]

    def __str__(self) -> str:
        ops = ", ".join(f"{op_name(n)} -> {n.name}" for n in self.nodes if not graph.is_getitem(n))
        stored = ", ".join(n.name for n in self.stored)
        axes = f"{len(self.space.rows)} row axes, {len(self.space.cols)} col axes"
        return f"group over {axes} [{ops}] stores {stored}"


@dataclasses.dataclass(frozen=True, eq=False)
class Extern:
    """One call of ATen, and why."""

    node: Node
    reason: str

    def __str__(self) -> str:
        return f"ATen {op_name(self.node)} -> {self.node.name}: {self.reason}"


@dataclasses.dataclass(frozen=True, eq=False)
class Partition:
    """The graph in execution order. ``axes`` resolves the groups' dimensions."""

    gm: GraphModule
    classes: Classes
    steps: tuple[Group | Extern, ...]
    axes: Axes
    refusals: tuple[Refusal, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The fusion groups alone."""
        return tuple(s for s in self.steps if isinstance(s, Group))

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


@dataclasses.dataclass
class _Draft:
    """A group that may still grow. ``ancestors`` has a bit for every group that must run before it, ``before`` and
    ``after`` are its neighbours in that order. ``axes_used`` spans the space; ``cols`` are the axes its reductions
    combine; ``reads`` has what it reads and the dimensions by which it does so each time (None: anywhere). ``free``
    are dimensions of its own nodes that it reads at other places than the loop's: no reduction may have to be known
    there."""

    nodes: list[Node]
    axes_used: tuple[int, ...]
    cols: tuple[int, ...] | None
    ancestors: int
    before: set[int] = dataclasses.field(default_factory=set)
    after: set[int] = dataclasses.field(default_factory=set)
    reads: dict[Node, list[ReadDims | None]] = dataclasses.field(default_factory=dict)
    free: list[Dim] = dataclasses.field(default_factory=list)


class Partitioner:
    """The state of one partition; ``run`` is the whole of it."""

    def __init__(self, gm: GraphModule, classes: Classes, traits: Traits) -> None:
        self.gm, self.classes, self.traits = gm, classes, traits
        self.axes = Axes()
        self.dimensions = Dimensions(self.axes, classes.views)
        self.home: dict[Node, int] = {}
        self.drafts: dict[int, _Draft] = {}
        self._ids = itertools.count()
        self._memory: dict[Node, frozenset[Node]] = {}
        self.order = {n: i for i, n in enumerate(gm.graph.nodes)}
        self.after = required_order(gm)
        self.later = {n: {w for w in before if graph.written(w)} for n, before in self.after.items()}
        self.later = {n: writers for n, writers in self.later.items() if writers}
        self.needed_inline = _needed_inline(gm, classes)

    def run(self) -> Partition:
        """The partition of the graph."""
        for node in self.gm.graph.nodes:
            if node.op != "call_function" or node in self.classes.views or node in self.classes.host:
                continue
            if node in self.classes.inline and node not in self.needed_inline:
                continue
            if graph.is_getitem(node):
                self._adopt(node)
            else:
                self._place(node)
        self._merge_siblings()
        return Partition(self.gm, self.classes, tuple(self._steps()), self.axes, self.classes.refusals())

    # ---- placing one node
    # ----------------------------------------------------------------------------------------------

    def _adopt(self, node: Node) -> None:
        """One result of an op with several belongs where the op is."""
        parent = node.args[0]
        assert isinstance(parent, Node)
        self.home[node] = self.home[parent]
        self.drafts[self.home[node]].nodes.append(node)
        if parent in self.dimensions.dims:
            self.dimensions.dims[node] = self.dimensions.full[node] = self.dimensions.dims[parent]

    def _place(self, node: Node) -> None:
        own = next(self._ids)
        draft = self.drafts[own] = _Draft([node], (), None, 0, set(self._sources(node)))
        self.home[node] = own
        for source in draft.before:
            draft.ancestors |= self.drafts[source].ancestors | 1 << source
            self.drafts[source].after.add(own)
        if node in self.classes.refused:
            return
        draft.axes_used = tuple(a for d in self.dimensions.own(node) for a in d)
        draft.cols = self.dimensions.reduced(node)
        for arg in node.all_input_nodes:
            if graph.is_tensor(arg) and arg is not graph.destination(node):
                self._add_read(draft, arg, self.dimensions.read(node, arg))
        for producer in self._producer_groups(node):
            if producer in self.drafts and producer != self.home[node]:
                self._try_merge(producer, self.home[node])

    def _add_read(self, draft: _Draft, arg: Node, dims: ReadDims | None) -> None:
        """Note a read of ``arg``; through a node that is recomputed, also of what that reads."""
        draft.reads.setdefault(arg, []).append(dims)
        if dims is not None and arg in self.classes.inline and TABLE[arg.target].kind is Kind.POINTWISE:
            for source in arg.all_input_nodes:
                if graph.is_tensor(source):
                    self._add_read(draft, source, broadcast(dims, source))

    def _sources(self, node: Node) -> Iterator[int]:
        """Groups that must run before ``node``."""
        stack, seen = [*node.all_input_nodes, *self.after.get(node, ())], set()
        while stack:
            source = stack.pop()
            if source in seen:
                continue
            seen.add(source)
            if source in self.home:
                yield self.home[source]
                if source not in self.classes.inline:
                    continue
            stack += source.all_input_nodes

    def _producer_groups(self, node: Node) -> list[int]:
        """Groups that hold an argument of ``node`` itself or behind views, the latest first."""
        found: dict[int, int] = {}
        for source in node.all_input_nodes:
            if graph.is_tensor(source):
                base = graph.storage_base(source)
                if base in self.home and base not in self.classes.refused:
                    found[self.home[base]] = max(self.order[base], found.get(self.home[base], 0))
        return sorted(found, key=lambda g: -found[g])

    # ---- merging
    # -------------------------------------------------------------------------------------------------------

    def _try_merge(self, a: int, b: int) -> bool:
        """Make one group of two when their loops unify, no cycle arises and the device takes the result."""
        left, right = self.drafts[a], self.drafts[b]
        if left.nodes[0] in self.classes.refused or right.nodes[0] in self.classes.refused:
            return False
        if left.nodes[0] in self.classes.inline or right.nodes[0] in self.classes.inline:
            return False
        if _has_updates(left.nodes[0]) or _has_updates(right.nodes[0]):
            return False
        if self._path_outside(a, b) or not self._is_small_enough(left, right) or self._meets_writes(left, right):
            return False
        mark, free = self.axes.mark(), (len(left.free), len(right.free))
        cols = (
            self._unified_cols(left, right) if self._connect(left, right, b) and self._connect(right, left, a) else None
        )
        if cols is None:
            self.axes.undo(mark)
            del left.free[free[0] :], right.free[free[1] :]
            return False
        self._commit(a, b, cols[0])
        return True

    def _meets_writes(self, left: _Draft, right: _Draft) -> bool:
        """Whether a node of one group comes after a write of the other to memory that it reads or writes."""
        return any(
            not self.later[n].isdisjoint(other.nodes)
            for own, other in ((left, right), (right, left))
            for n in own.nodes
            if n in self.later
        )

    def _is_small_enough(self, left: _Draft, right: _Draft) -> bool:
        """Whether the device takes a kernel with the statements and buffers of both groups."""
        count = len(left.nodes) + len(right.nodes)
        if count > self.traits.max_group_nodes:
            return False
        if count + len(left.reads) + len(right.reads) <= self.traits.max_kernel_arguments:
            return True  # even if every node were stored
        members = {*left.nodes, *right.nodes}
        read = {graph.storage_base(a) for d in (left, right) for a in d.reads} - members
        stored = sum(graph.is_tensor(n) and self._escapes(n, members) for n in members)
        return len(read) + stored <= self.traits.max_kernel_arguments

    def _connect(self, users: _Draft, producers: _Draft, producer_id: int) -> bool:
        """Unify the dimensions along every edge from one group to the other, and of what both read from memory."""
        for arg, readers in users.reads.items():
            base = graph.storage_base(arg)
            if base in self.classes.inline and any(self.home.get(n) == producer_id for n in self._behind_inline(base)):
                return False
            if self.home.get(base) == producer_id and base not in self.classes.inline:
                dims = self.dimensions.of(arg)
                if dims is None or not all(r is not None and self._unify_read(r, dims, users) for r in readers):
                    return False
        return True

    def _unify_read(self, wanted: ReadDims, dims: Dims, user: _Draft) -> bool:
        """Unify where the reader's place is the loop's; where it reads anywhere, note those loops."""
        if len(wanted) != len(dims):
            return False
        user.free += [d for w, d in zip(wanted, dims, strict=True) if w is None]
        return all(w is None or self.axes.unify(w, d) for w, d in zip(wanted, dims, strict=True))

    def _behind_inline(self, node: Node) -> frozenset[Node]:
        """What is read from memory when ``node`` is recomputed."""
        if node not in self.classes.inline:
            return frozenset((node,))
        if node not in self._memory:
            bases = (graph.storage_base(s) for s in node.all_input_nodes if graph.is_tensor(s))
            self._memory[node] = frozenset().union(*map(self._behind_inline, bases))
        return self._memory[node]

    def _unified_cols(self, left: _Draft, right: _Draft) -> tuple[tuple[int, ...] | None] | None:
        """The cols of the merged group (in a tuple, as they may be none), or None when the spaces do not fit."""
        self._unify_shared_reads(left, right)
        spans = [self.axes.leaves(d.axes_used) for d in (left, right)]
        sets = [set(s) for s in spans]
        if any(len(s) != len(t) for s, t in zip(sets, spans, strict=True)) or not (
            sets[0] <= sets[1] or sets[1] <= sets[0]
        ):
            return None
        everything = sets[0] | sets[1]
        if any(_may_be_empty(self.axes.size(a)) for own in sets for a in everything - own):
            return None  # a space without points would leave what does not vary over the empty axis unstored
        found = [set(self.axes.leaves(d.cols)) for d in (left, right) if d.cols is not None]
        if len(found) == 2 and found[0] != found[1]:
            return None
        if found:
            rows = everything - found[0]
            for draft, own in zip((left, right), sets, strict=True):
                # a group with reductions must run over all rows; one without may be a part of the space
                if draft.cols is not None and not rows <= own:
                    return None
            free = set(self.axes.leaves(a for d in left.free + right.free for a in d))
            if not free <= found[0] or (free and any(_is_scan(n) for n in left.nodes + right.nodes)):
                return None
        ordered = [d.cols for d in (left, right) if d.cols is not None and any(map(_is_scan, d.nodes))]
        if len(ordered) == 2 and self.axes.leaves(ordered[0]) != self.axes.leaves(ordered[1]):
            return None
        return (ordered[0] if ordered else left.cols if left.cols is not None else right.cols,)

    def _unify_shared_reads(self, left: _Draft, right: _Draft) -> None:
        """Let both groups read the same memory at the same place where that contradicts nothing."""
        few, many = sorted((left, right), key=lambda d: len(d.reads))
        for arg in few.reads:
            if arg not in many.reads:
                continue
            mark = self.axes.mark()
            mine, theirs = (whole(d.reads[arg][0]) for d in (few, many))
            if mine is None or theirs is None:
                continue
            if not self.axes.unify_dims(mine, theirs) or not self._distinct(left, right):
                self.axes.undo(mark)

    def _distinct(self, *drafts: _Draft) -> bool:
        return all(self.axes.distinct([d.axes_used]) for d in drafts)

    def _path_outside(self, a: int, b: int) -> bool:
        """Whether some third group lies on a path between the two."""
        return any(
            self.drafts[last].ancestors >> step & 1
            for first, last in ((a, b), (b, a))
            for step in self.drafts[first].after
            if step != last
        )

    def _commit(self, a: int, b: int, cols: tuple[int, ...] | None) -> None:
        """Move the nodes of ``b`` into ``a`` and mend the ancestor sets of everything after them."""
        left, right = self.drafts[a], self.drafts.pop(b)
        for node in right.nodes:
            self.home[node] = a
        left.nodes = sorted(left.nodes + right.nodes, key=self.order.__getitem__)
        if len(set(self.axes.leaves(right.axes_used))) > len(set(self.axes.leaves(left.axes_used))):
            left.axes_used = right.axes_used
        left.cols = cols
        left.free += right.free
        for arg, readers in right.reads.items():
            left.reads[arg] = left.reads.get(arg, []) + readers
        left.reads = {arg: r for arg, r in left.reads.items() if self.home.get(graph.storage_base(arg)) != a}
        self._join_order(a, left, b, right)

    def _join_order(self, a: int, left: _Draft, b: int, right: _Draft) -> None:
        """Give ``a`` the neighbours of ``b``, and everything after it its ancestors."""
        for g in right.before:
            self.drafts[g].after.discard(b)
        for g in right.after:
            self.drafts[g].before.discard(b)
        left.before = (left.before | right.before) - {a, b}
        left.after = (left.after | right.after) - {a, b}
        for g in left.before:
            self.drafts[g].after.add(a)
        for g in left.after:
            self.drafts[g].before.add(a)
        merged = (left.ancestors | right.ancestors) & ~(1 << a | 1 << b)
        if merged == left.ancestors and not right.after:
            return
        left.ancestors = merged
        stack, seen = list(left.after), set()
        while stack:
            g = stack.pop()
            if g not in seen:
                seen.add(g)
                self.drafts[g].ancestors = self.drafts[g].ancestors & ~(1 << b) | 1 << a | merged
                stack += self.drafts[g].after

    def _merge_siblings(self) -> None:
        """Fuse groups over the same loops: those that read the same memory, then any, as each saves a launch."""
        readers: dict[Node, list[Node]] = {}
        for draft in self.drafts.values():
            for arg in draft.reads:
                if not all(s == ONE for s in graph.shape(arg)):
                    readers.setdefault(arg, []).append(draft.nodes[0])
        for users in readers.values():
            self._merge_bucket(users)
        shapes: dict[tuple[tuple[Index, ...], ...], list[Node]] = {}
        for draft in self.drafts.values():
            if draft.nodes[0] not in self.classes.refused:
                loops = (self._rows(draft), self.axes.leaves(draft.cols or ()))
                shapes.setdefault(tuple(tuple(map(self.axes.size, part)) for part in loops), []).append(draft.nodes[0])
        for users in shapes.values():
            self._merge_bucket(users, by_position=True)

    def _merge_bucket(self, members: list[Node], by_position: bool = False) -> None:
        """Merge the groups of ``members`` where that is possible; ``by_position`` pairs their loops in order. Each is
        tried with the last few only, so that the work stays linear."""
        tried: list[Node] = []
        for member in members:
            for other in reversed(tried[-SIBLING_WINDOW:]):
                if self._merge_pair(self.home[other], self.home[member], by_position):
                    break
            else:
                tried.append(member)

    def _merge_pair(self, a: int, b: int, by_position: bool) -> bool:
        if a == b:
            return True
        if self._extent(a) != self._extent(b):
            return False
        mark, left, right = self.axes.mark(), self.drafts[a], self.drafts[b]
        pairs = not by_position or (self._walks_cols(left) == self._walks_cols(right) and self._pair_loops(left, right))
        if pairs and self._try_merge(a, b):
            return True
        self.axes.undo(mark)
        return False

    def _pair_loops(self, left: _Draft, right: _Draft) -> bool:
        """Unify rows with rows and cols with cols, in order."""
        for part in (lambda d: self.axes.leaves(d.cols or ()), self._rows):
            if not self.axes.unify(part(left), part(right)):
                return False
        return self._distinct(left, right)

    def _walks_cols(self, draft: _Draft) -> bool:
        """Whether memory runs along the cols in most of what the group reads: two groups of which one reads along its
        cols and one across them have no good schedule in common."""
        cols, along = set(self.axes.leaves(draft.cols or ())), 0
        for arg, readers in draft.reads.items():
            for dim, stride in zip(readers[0] or (), graph.strides(arg), strict=False):
                if dim and stride == ONE:
                    along += 1 if cols.issuperset(self.axes.leaves(dim)) else -1
        return along > 0

    def _rows(self, draft: _Draft) -> tuple[int, ...]:
        """The row axes, in the order of a node that has them all: groups over one shape pair them up alike."""
        cols = set(self.axes.leaves(draft.cols or ()))
        everything = self.axes.leaves(draft.axes_used)
        rows = [a for a in everything if a not in cols]
        for node in reversed(draft.nodes):
            own = [
                a for a in self.axes.leaves(a for d in self.dimensions.dims.get(node, ()) for a in d) if a not in cols
            ]
            if len(own) == len(rows) and set(own) == set(rows):
                return tuple(own)
        return tuple(rows)

    def _extent(self, group: int) -> Index:
        """Number of points of a group's space."""
        return product(self.axes.size(a) for a in self.axes.leaves(self.drafts[group].axes_used))

    # ---- the result
    # ------------------------------------------------------------------------------------------------------

    def _steps(self) -> Iterator[Group | Extern]:
        """Groups and externs, each after all that it needs; groups together and externs together as long as there are
        any, as each change between them waits for the device; small groups last, so that they can share a launch with
        those before them; otherwise in the graph's order."""
        pending = {g: len(d.before) for g, d in self.drafts.items()}
        ready: dict[bool, list[tuple[int, int, int]]] = {False: [], True: []}
        is_extern = False
        for g in [g for g, count in pending.items() if not count]:
            heapq.heappush(ready[self._is_extern(g)], self._rank(g))
        while ready[False] or ready[True]:
            is_extern = is_extern if ready[is_extern] else not is_extern
            *_, g = heapq.heappop(ready[is_extern])
            yield self._finish(self.drafts[g])
            for follower in self.drafts[g].after:
                pending[follower] -= 1
                if not pending[follower]:
                    heapq.heappush(ready[self._is_extern(follower)], self._rank(follower))

    def _is_extern(self, group: int) -> bool:
        return self.drafts[group].nodes[0] in self.classes.refused

    def _rank(self, group: int) -> tuple[int, int, int]:
        """Which of the ready groups comes first: large ones in the graph's order, then small ones by size."""
        extent = None if self._is_extern(group) else self._extent(group).constant
        size = -extent if extent is not None and extent <= SMALL else -SMALL - 1
        return size, self.order[self.drafts[group].nodes[0]], group

    def _finish(self, draft: _Draft) -> Group | Extern:
        first = draft.nodes[0]
        if first in self.classes.refused:
            return Extern(first, self.classes.refused[first])
        members = set(draft.nodes)
        stored = tuple(n for n in draft.nodes if graph.is_tensor(n) and self._escapes(n, members))
        everything = self.axes.leaves(draft.axes_used)
        cols = set(self.axes.leaves(draft.cols or ()))
        # cols in the order of the reduction that brought them: a scan runs over them so
        space = Space(tuple(a for a in everything if a not in cols), self.axes.leaves(draft.cols or ()))
        return Group(
            tuple(draft.nodes),
            stored,
            space,
            {n: self.dimensions.dims[n] for n in draft.nodes},
            {n: self.dimensions.full[n] for n in draft.nodes},
        )

    def _escapes(self, node: Node, members: set[Node]) -> bool:
        """Whether anything outside the group needs the memory of ``node``, or it is memory that was there before."""
        if graph.destination(node) is not None:
            return True
        for user in node.users:
            if user in self.classes.views:
                if self._escapes(user, members):
                    return True
            elif user in self.classes.inline or (user not in members and user not in self.classes.host):
                return True
        return False


def _may_be_empty(size: Index) -> bool:
    """Whether an axis of ``size`` may have no points: it is zero, or a symbol that may be."""
    return size.constant == 0 or any(isinstance(a, Symbol) and a.low < 1 for a in size.leaves())


def _is_scan(node: Node) -> bool:
    return node.target in TABLE and TABLE[node.target].kind is Kind.SCAN


def _has_updates(node: Node) -> bool:
    return node.target in TABLE and TABLE[node.target].updates is not None


def _needed_inline(gm: GraphModule, classes: Classes) -> frozenset[Node]:
    """Inline nodes that something besides a fused node reads, so that they must be in memory as well."""
    needed: set[Node] = set()
    for node in classes.inline:
        stack: list[Node] = [node]
        while stack:
            for user in stack.pop().users:
                if user in classes.views:
                    stack.append(user)
                elif user not in classes.fused and user not in classes.host:
                    needed.add(node)
    return frozenset(needed)


def partition(gm: GraphModule, classes: Classes, traits: Traits) -> Partition:
    """Cut ``gm`` into fusion groups and externs."""
    return Partitioner(gm, classes, traits).run()
