"""Caches and buffers updated in place.

AOTAutograd makes every graph functional: ``cache.index_copy_(...)`` becomes a copy of the whole cache with some places
changed, and a last ``copy_`` of all of it into the input. Where nothing reads the old contents any more, the update can
be made in the input itself, and costs what it changes. (The idea is Inductor's ``reinplace``; this is for chains of
updates of one input.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .. import graph
from ..index import ZERO
from ..ops import IN_PLACE

aten = torch.ops.aten

VIEWS = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
}
"""For ops that replace a part of their first argument by the second, the view that is that part."""


def run(gm: GraphModule) -> int:
    """Write in place what can be; returns how many updates."""
    count = 0
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and node.target is aten.copy_.default:
            updates = _updates(*node.args[:2])
            if updates and _is_free_to_write(gm, node, updates):
                _rewrite(gm, node, updates)
                count += len(updates)
    return count


def _updates(target: Any, value: Any) -> list[Node]:
    """The updates, in order, that make ``value`` from ``target``; none where it is not made so."""
    found: list[Node] = []
    while isinstance(value, Node) and value is not target:
        if value.op != "call_function" or value.target not in (*IN_PLACE, *VIEWS):
            return []
        found.append(value)
        value = value.args[0]
    return found[::-1] if value is target else []


def _is_free_to_write(gm: GraphModule, last: Node, updates: Sequence[Node]) -> bool:
    """Whether each state of the input is read before the next update only, and no state is a result of the graph."""
    target = last.args[0]
    assert isinstance(target, Node)
    if target.op != "placeholder" or graph.offset(target) != ZERO:
        return False
    states = (target, *updates)
    if any(_layout(s) != _layout(target) for s in updates):
        return False
    order = {n: i for i, n in enumerate(gm.graph.nodes)}
    for state, update in zip(states, (*updates, last), strict=True):
        readers = [r for r in _readers(state) if r is not update and r is not last]
        if any(r.op == "output" for r in readers) and state is not target:
            return False
        if update is not last and any(order[r] > order[update] for r in readers if r.op != "output"):
            return False
    others = [a for u in updates for a in u.all_input_nodes if a is not u.args[0] and graph.is_tensor(a)]
    return not any(graph.memory(a) in states for a in others)


def _layout(node: Node) -> tuple[Any, ...]:
    return graph.shape(node), graph.strides(node), graph.offset(node), graph.dtype(node)


def _readers(node: Node) -> Iterator[Node]:
    """What reads the memory of ``node``, itself or through views."""
    for user in node.users:
        if graph.view_source(user) is node and not graph.is_mutation(user):
            yield from _readers(user)
        else:
            yield user


def _rewrite(gm: GraphModule, last: Node, updates: Sequence[Node]) -> None:
    state = last.args[0]
    assert isinstance(state, Node)
    gm.graph.erase_node(last)
    for update in updates:
        writer = _Writer(gm, update)
        with gm.graph.inserting_before(update):
            state = writer.update(state)
        update.replace_all_uses_with(state)
        for replaced in (update, *writer.replaced):
            gm.graph.erase_node(replaced)


class _Writer:
    """Makes nodes in the place of one update."""

    def __init__(self, gm: GraphModule, update: Node) -> None:
        self.gm, self.node = gm, update
        self.replaced: list[Node] = []

    def _call(self, target: Any, args: tuple[Any, ...], kwargs: Any, value: Any) -> Node:
        made = self.gm.graph.call_function(target, args, kwargs)
        made.meta.update({k: v for k, v in self.node.meta.items() if not k.startswith("xpu_aten")}, val=value)
        return made

    def update(self, state: Node) -> Node:
        """Make the update in the memory of ``state``; returns a node for what is there afterwards."""
        value, (_, *rest) = graph.value_of(self.node), self.node.args
        if self.node.target in IN_PLACE:
            return self._call(IN_PLACE[self.node.target], (state, *rest), self.node.kwargs, value)
        self._write(self._part(state, self.node), self.node.args[1], state)
        return self._call(aten.alias.default, (state,), {}, value)

    def _part(self, whole: Node, update: Node) -> Node:
        """The part of ``whole`` that ``update`` replaces."""
        view, (_, _, *rest) = VIEWS[update.target], update.args
        values = [graph.value_of(a) if isinstance(a, Node) else a for a in (whole, *rest)]
        return self._call(view, (whole, *rest), {}, view(*values))

    def _write(self, part: Node, value: Any, state: Node) -> None:
        """Give ``part`` of ``state`` the contents ``value``, itself an update of that part where nobody else needs
        it."""
        if not _is_update(value, part, state):
            self._call(aten.copy_.default, (part, value), {}, graph.value_of(part))
            return
        self.replaced.append(value)
        if value.target in IN_PLACE:
            self._call(IN_PLACE[value.target], (part, *value.args[1:]), value.kwargs, graph.value_of(part))
        else:
            self._write(self._part(part, value), value.args[1], state)


def _is_update(value: Any, part: Node, state: Node) -> bool:
    """Whether ``value`` is what is in ``part`` of ``state`` with some places changed, and nobody else needs it."""
    if not isinstance(value, Node) or value.op != "call_function" or value.target not in (*IN_PLACE, *VIEWS):
        return False
    others = [a for a in value.all_input_nodes if a is not value.args[0] and graph.is_tensor(a)]
    return (
        len(value.users) == 1
        and _is_same(value.args[0], part, state)
        and not any(graph.memory(a) is graph.memory(state) for a in others)
    )


def _is_same(node: Any, part: Node, state: Node) -> bool:
    """Whether ``node`` is a view of ``state`` that sees just what ``part`` does."""
    source = node if graph.is_tensor(node) else None
    while source is not None and source is not state:
        source = graph.view_source(source)
    return source is state and _layout(node)[:3] == _layout(part)[:3]
