"""What the lowering reads off an FX graph: shapes as indexes, storage bases of views, and kinds of values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import optimization_hint

from .index import Index
from .symbols import to_index

T = TypeVar("T")

ABSORBED = "xpu_aten_absorbed"
"""Where a node's meta has the names of further nodes of the captured graph that it computes."""


def value_of(node: Node) -> Any:
    """The FakeTensor, SymInt or tuple of them that stands for the node's result; None when it has none."""
    return node.meta.get("val")


def is_tensor(node: Any) -> bool:
    """Whether ``node`` is an FX node whose result is one tensor."""
    return isinstance(node, Node) and isinstance(value_of(node), torch.Tensor)


def shape(node: Node) -> tuple[Index, ...]:
    """Sizes of the tensor behind ``node``, or of the first where it has several."""
    return _layout(node)[0]


def strides(node: Node) -> tuple[Index, ...]:
    """Strides of the tensor behind ``node``, in elements."""
    return _layout(node)[1]


def offset(node: Node) -> Index:
    """Storage offset of the tensor behind ``node``, in elements."""
    return _layout(node)[2]


def _layout(node: Node) -> tuple[tuple[Index, ...], tuple[Index, ...], Index]:
    return _kept(node, "xpu_aten_layout", _layout_of)


def _layout_of(node: Node) -> tuple[tuple[Index, ...], tuple[Index, ...], Index]:
    val = first_tensor(node)  # the results of a fused op that has several are of one shape
    assert val is not None, node
    return tuple(map(to_index, val.shape)), tuple(map(to_index, val.stride())), to_index(val.storage_offset())


def covered(node: Node) -> tuple[str, ...]:
    """The nodes of the captured graph that ``node`` computes, itself first."""
    return (node.name, *node.meta.get(ABSORBED, ()))


def bytes_hint(node: Node) -> int:
    """Bytes of the tensor behind ``node`` at the sizes it was traced with; 0 where these depend on data, and for what
    is no tensor."""
    val = first_tensor(node)
    return 0 if val is None else optimization_hint(val.numel(), fallback=0) * val.dtype.itemsize


def _kept(node: Node, key: str, compute: Callable[[Node], T]) -> T:
    """``compute(node)``, kept in the node's meta for this node and this value: meta is copied from node to node."""
    owner, val, result = node.meta.get(key, (None, None, None))
    if owner is not node or val is not value_of(node):
        result = compute(node)
        node.meta[key] = node, value_of(node), result
    return result


def dtype(node: Node) -> torch.dtype:
    """Element type of the tensor behind ``node``."""
    return value_of(node).dtype


def bits(node: Node) -> tuple[bool, bool]:
    """Whether the tensor behind ``node`` is the conjugate, and whether it is the negative, of what its memory holds."""
    val = first_tensor(node)
    return (False, False) if val is None else (val.is_conj(), val.is_neg())


def first_tensor(node: Node) -> torch.Tensor | None:
    """The node's tensor, or the first of its tuple."""
    val = value_of(node)
    if isinstance(val, (tuple, list)):
        val = next((v for v in val if isinstance(v, torch.Tensor)), None)
    return val if isinstance(val, torch.Tensor) else None


def is_getitem(node: Node) -> bool:
    """Whether the node picks one result of an op that has several."""
    return node.op == "call_function" and node.target is operator.getitem


def view_source(node: Node) -> Node | None:
    """The tensor argument that ``node`` is a view of with the same element type, or None when it has its own
    storage."""
    if node.op != "call_function" or not _kept(node, "xpu_aten_is_view", _is_view):
        return None
    return node.args[0].args[0] if is_getitem(node) else node.args[0]


def _is_view(node: Node) -> bool:
    source = _aliased(node)
    if source is None:
        return False
    val, other = value_of(node), value_of(source)
    return val.layout is other.layout is torch.strided and val.dtype == other.dtype


def _aliased(node: Node) -> Node | None:
    """The tensor argument that ``node`` is a view of, be it as elements of another type or of a sparse tensor."""
    val = value_of(node)
    call = node.args[0] if is_getitem(node) else node
    if (
        not isinstance(val, torch.Tensor)
        or not isinstance(call, Node)
        or not isinstance(call.target, torch._ops.OpOverload)
        or not call.args
        or not is_tensor(call.args[0])
    ):
        return None
    source = call.args[0]
    return source if _aliases(call.target, val, value_of(source)) else None


_MAY_COPY = frozenset(
    {torch.ops.aten.reshape.default, torch.ops.aten.contiguous.default, torch.ops.prims.reshape.default}
)
_UNDECLARED = frozenset({torch.ops.aten._unsafe_view.default, torch.ops.prims.as_strided.default})


def _aliases(op: torch._ops.OpOverload, val: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether the op returns a view of its first argument: by its schema, as torch merges equal nodes of a graph, after
    which a view's fake tensor may share storage with a node that is gone."""
    if op in _MAY_COPY:
        return val.untyped_storage()._cdata == source.untyped_storage()._cdata
    if op in _UNDECLARED:
        return True
    first = op._schema.arguments[0].alias_info
    alias = op._schema.returns[0].alias_info if op._schema.returns else None
    return first is not None and alias is not None and not alias.is_write


def is_mutation(node: Node) -> bool:
    """Whether the op writes to one of its arguments."""
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target._schema.is_mutable
        and node.target not in _UNDECLARED
    )


def readers(node: Node) -> Iterator[Node]:
    """What reads the memory of ``node``, itself or through views; writes through views count, and so do views of
    another type, which may be copies here."""
    for user in node.users:
        if is_getitem(user) or (view_source(user) is node and not is_mutation(user)):
            yield from readers(user)
            continue
        yield user
        if not is_mutation(user) and _aliased(user) is node:
            yield from readers(user)


def written(node: Node) -> tuple[Node, ...]:
    """The arguments whose memory the op writes to."""
    if node.op != "call_function" or not is_mutation(node):
        return ()
    found: list[Any] = []
    for (_, value), argument in zip(bound_arguments(node), node.target._schema.arguments, strict=True):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += value if isinstance(value, (list, tuple)) else [value]
    return tuple(v for v in found if is_tensor(v))


def destination(node: Node) -> Node | None:
    """The argument in whose memory the op leaves its result, as in-place ops do; None for all others."""
    if node.op != "call_function" or not is_mutation(node) or not is_tensor(node):
        return None
    schema = node.target._schema
    first, result = schema.arguments[0].alias_info, schema.returns[0].alias_info
    in_place = first is not None and result is not None and first.is_write and result.is_write
    return node.args[0] if in_place and is_tensor(node.args[0]) else None


def memory(node: Node) -> Node:
    """The node that brought the memory into being that ``node`` sees: behind views, those of another type too, and
    behind writes in place."""
    *_, first = holders(node)
    return first


def holders(node: Node) -> Iterator[Node]:
    """The nodes that hold the memory that ``node`` sees, each behind a write in place or a view of another type of the
    next."""
    source: Node | None = node
    while source is not None:
        base = storage_base(source)
        yield base
        source = destination(base) or _aliased(base)


def start(node: Node) -> Index | None:
    """Where the tensor of ``node`` starts, in elements from the start of the one that brought its memory into being;
    None where the two count in elements of different types."""
    base, root = storage_base(node), memory(node)
    place = offset(node) - offset(base)
    if base is root:
        return place
    target = destination(base)
    before = None if target is None else start(target)
    return None if before is None else place + before


def storage_base(node: Node) -> Node:
    """The node whose tensor holds the memory that ``node`` sees: itself unless it is a view."""
    while (source := view_source(node)) is not None:
        node = source
    return node


def bound_arguments(node: Node) -> Iterator[tuple[str, Any]]:
    """(name, value) for every argument of the op's schema, defaults filled in."""
    schema = node.target._schema
    for position, argument in enumerate(schema.arguments):
        if position < len(node.args) and not argument.kwarg_only:
            yield argument.name, node.args[position]
        elif argument.name in node.kwargs:
            yield argument.name, node.kwargs[argument.name]
        else:
            yield argument.name, argument.default_value if argument.has_default_value() else None


def arguments(node: Node) -> dict[str, Any]:
    """The op's arguments by name, defaults filled in."""
    return dict(bound_arguments(node))
