"""What classes and a partition must be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from torch.fx import GraphModule, Node

from .. import graph
from ..classify import Classes
from ..index import Index, Symbol, product
from ..ops import TABLE
from ..partition import Extern, Group, Partition
from .errors import broken


def verify_classes(gm: GraphModule, classes: Classes) -> None:
    """Every call is in exactly one class; what is fused can be lowered; what is refused has a reason."""
    sorts: dict[str, Iterable[Node]] = {
        "fused": classes.fused,
        "views": classes.views,
        "host": classes.host,
        "refused": classes.refused,
    }
    calls = [n for n in gm.graph.nodes if n.op == "call_function"]
    for node in calls:
        found = [name for name, members in sorts.items() if node in members]
        if len(found) != 1:
            broken(
                "classes", f"{node.name} is in {' and '.join(found) or 'no class'}, every call must be in exactly one"
            )
    strangers = {n for members in sorts.values() for n in members} - set(calls)
    if strangers:
        broken("classes", f"{sorted(n.name for n in strangers)} are no calls of this graph")
    if not classes.inline <= classes.fused:
        broken("classes", f"inline nodes {sorted(n.name for n in classes.inline - classes.fused)} are not fused")
    for node in classes.fused:
        parent = node.args[0] if graph.is_getitem(node) else node
        row = TABLE.get(parent.target)
        if row is None or row.lower is None or parent not in classes.fused:
            broken("classes", f"{node.name} is fused, but the op table cannot lower it")
        if graph.is_mutation(node) and graph.memory(node).op != "placeholder":
            broken("classes", f"{node.name} is fused, but writes to memory of the graph's own")
    for node in classes.views:
        if graph.view_source(node) is None and not graph.is_getitem(node):
            broken("classes", f"{node.name} counts as a view, but shares no memory with an argument")
    for node, reason in classes.refused.items():
        if not reason:
            broken("classes", f"{node.name} is refused without a reason")


# ---- partition


def verify_partition(cut: Partition) -> None:
    """Every node runs once, after all that it needs and in the order of writes; what others need is stored."""
    at = _positions(cut)
    for node, position in at.items():
        for source in _needed(cut, node):
            if source in at and at[source] > position:
                broken(
                    "partition",
                    f"{node.name} runs in step {position}, before {source.name} in step {at[source]}, which it needs",
                )
    _verify_writes(cut, at)
    for position, step in enumerate(cut.steps):
        if isinstance(step, Group):
            _verify_stored(cut, step, position, at)
            _verify_space(cut, step)


def _positions(cut: Partition) -> dict[Node, int]:
    """The step of every node that is in one."""
    classes = cut.classes
    at: dict[Node, int] = {}
    for position, step in enumerate(cut.steps):
        for node in (step.node,) if isinstance(step, Extern) else step.nodes:
            if node in at:
                broken("partition", f"{node.name} is in steps {at[node]} and {position}")
            if node not in (classes.refused if isinstance(step, Extern) else classes.fused):
                broken("partition", f"{node.name} is in a {type(step).__name__.lower()}, against its class")
            at[node] = position
    for node in cut.gm.graph.nodes:
        computed = node in classes.refused or (node in classes.fused and node not in classes.inline)
        if computed and node not in at:
            broken("partition", f"{node.name} is in no step")
    return at


def _needed(cut: Partition, node: Node) -> Iterator[Node]:
    """Nodes whose results must be there before ``node`` runs. A group recomputes the inline nodes that it reads, so it
    needs their arguments instead."""
    in_kernel, seen = node in cut.classes.fused, {node}
    stack = list(node.all_input_nodes)
    while stack:
        source = stack.pop()
        if source in seen:
            continue
        seen.add(source)
        recomputed = in_kernel and source in cut.classes.inline
        if not recomputed and (source in cut.classes.fused or source in cut.classes.refused):
            yield source
        else:
            stack += source.all_input_nodes


def _memory(cut: Partition, node: Node) -> Iterator[tuple[Node, Node]]:
    """(base, reader) for the memory that ``node`` reads; the reader is an inline node where one stands between."""
    stack = [(a, node) for a in node.all_input_nodes if graph.is_tensor(a)]
    while stack:
        arg, reader = stack.pop()
        base = graph.storage_base(arg)
        if node in cut.classes.fused and base in cut.classes.inline:
            stack += [(a, base) for a in base.all_input_nodes if graph.is_tensor(a)]
        else:
            yield graph.memory(base), reader


def _verify_writes(cut: Partition, at: Mapping[Node, int]) -> None:
    """Readers of memory stay on their side of each write to it."""
    order = {n: i for i, n in enumerate(cut.gm.graph.nodes)}
    writers = [(n, {graph.memory(a) for a in graph.written(n)}) for n in at if graph.is_mutation(n)]
    if not writers:
        return
    reads = {n: list(_memory(cut, n)) for n in at}
    for writer, bases in writers:
        for node, found in reads.items():
            for base, reader in found:
                if base not in bases or node is writer:
                    continue
                # in one kernel, what is read there is read before anything is written
                before = at[node] < at[writer] or (at[node] == at[writer] and not graph.written(node))
                if (order[node] < order[writer]) != before:
                    broken("partition", f"{node.name} and {writer.name}, which writes {base.name}, changed places")
                if order[reader] < order[writer] < order[node]:
                    broken(
                        "partition",
                        f"{node.name} recomputes {reader.name} from {base.name} after {writer.name} wrote to it",
                    )


def _verify_stored(cut: Partition, group: Group, position: int, at: Mapping[Node, int]) -> None:
    stored = set(group.stored)
    if not stored <= set(group.nodes):
        broken(
            "partition",
            f"step {position} stores nodes that it does not compute: {[n.name for n in stored - set(group.nodes)]}",
        )
    for node in group.nodes:
        if (
            graph.is_tensor(node)
            and node not in stored
            and (reader := _outside_reader(cut, node, position, at)) is not None
        ):
            broken("partition", f"{node.name} is not stored, but {reader.name} outside its group needs it")


def _outside_reader(cut: Partition, node: Node, position: int, at: Mapping[Node, int]) -> Node | None:
    stack = list(node.users)
    while stack:
        user = stack.pop()
        if user in cut.classes.views or user in cut.classes.inline:
            stack += user.users
        if user.op == "output" or (user in at and at[user] != position):
            return user
    return None


def _verify_space(cut: Partition, group: Group) -> None:
    """The dimensions of each node are distinct axes of the group's space, as many points as the node has elements."""
    axes = cut.axes
    space = [*group.space.rows, *group.space.cols]
    if len(set(space)) != len(space) or tuple(space) != axes.leaves(space):
        broken("partition", f"the space of {group.nodes[0].name}'s group is not made of distinct axes: {space}")
    for node in group.nodes:
        if not graph.is_tensor(node):
            continue
        leaves = axes.leaves(a for d in group.dims[node] for a in d)
        if len(set(leaves)) != len(leaves) or not set(leaves) <= set(space):
            broken("partition", f"{node.name} has the axes {leaves} in a space of {space}")
        for dim, size in zip(group.dims[node], graph.shape(node), strict=True):
            extent = product(axes.size(a) for a in axes.leaves(dim))
            if extent != size and not differ_by_symbols(extent, size):
                broken("partition", f"a dimension of {node.name} has size {size}, its axes {extent}")


def differ_by_symbols(a: Index, b: Index) -> bool:
    """Two sizes that may be equal at run time although they are written differently."""
    return any(isinstance(leaf, Symbol) for leaf in a.leaves() | b.leaves())
