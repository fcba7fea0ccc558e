"""A kernel of Inductor's loop IR: its fused nodes become one group IR, which is scheduled and emitted as xpu_aten's."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
import torch.utils._pytree as pytree
from torch._inductor.codegen.common import CSEProxy
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.utils import generate_assert
from torch._inductor.virtualized import OpsValue, V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from aten_backend.loop_level.combine import scan_function
from aten_backend.loop_level.indexing import (
    IndexReader,
    digits,
    flat_position,
    host_index,
    part_of,
)
from aten_backend.loop_level.overrides import Overrides
from aten_backend.loop_level.switch import device_traits
from aten_backend.loop_level.updates import spread
from aten_backend.loop_level.values import Value
from lowering import ir
from lowering.assemble import Phase
from lowering.dtypes import NAMES, compute_name
from lowering.errors import ArtifactError
from lowering.faults import FAULTS, SUBSCRIPT, Fault
from lowering.index import Axis, Index, Loaded, atom
from lowering.ops.pointwise import nonzero
from lowering.rewrite import prune
from lowering.schedule import choose
from lowering.simplify import collapse
from lowering.split import split_long
from lowering.values import Body, Scalar, coordinate


class Handler(CSEProxy):
    """Inductor's handler of loop bodies, with values of the group IR in place of text: the group shares equal
    statements by itself."""

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bounds = self._bound_variable(name, *args, **kwargs)
        result = getattr(self.parent_handler, name)(*args, **kwargs)

        def known(value: Any) -> Value:
            value = value.value if isinstance(value, OpsValue) else value
            assert isinstance(value, Value), (name, value)
            return Value(value.scalar, value.dtype, value.bounds.tighten(bounds))

        return pytree.tree_map(known, result)


class GroupKernel(SIMDKernel):
    """Takes the nodes that Inductor's scheduler fused. All values of a row are at hand everywhere, as in a persistent
    kernel of Inductor's: how often the loops over them run is the emitter's business."""

    overrides = Overrides

    def __init__(self, tiling: dict[str, sympy.Expr], features: Any, **kwargs: Any) -> None:
        super().__init__(tiling, features, **kwargs)
        self.body: Body = Body()
        self.reader = IndexReader(self.body, self.nonzero, self._place)
        self.buffers: list[ir.Buffer] = []
        self.axes: dict[str, tuple[Axis, ...]] = {}
        self.phases: tuple[Phase, ...] = ()
        self.comment = ""
        self.traits = device_traits()
        self._mask: Scalar | None = None

    def __enter__(self) -> GroupKernel:
        super().__enter__()
        self.exit_stack.enter_context(V.set_ops_handler(Handler(self, Overrides())))
        return self

    def should_use_persistent_reduction(self) -> bool:
        """Always: Inductor then closes no loops."""
        return True

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        """The name in the group IR."""
        return NAMES[dtype]

    # ---- the iteration space ---------------------------------------------------------------------------------------

    def finalize_indexing(self, indices: Sequence[sympy.Expr]) -> None:
        """Called when every node has said how it splits the flat iteration space: make axes of it."""
        for tree in self.range_trees:
            numel = host_index(tree.numel)
            hint = functools.partial(V.graph.sizevars.optimization_hint, fallback=8192)
            cuts = sorted({c for n in tree.nodes.values() for c in (n.divisor, n.divisor * n.length)}, key=hint)
            axes = digits(numel, map(host_index, cuts), "j" if tree.is_reduction else "i")
            self.axes[tree.prefix] = axes

    def _place(self, symbol: sympy.Symbol) -> Index:
        """What a loop variable of Inductor's is over the axes."""
        entry = self.range_tree_nodes[symbol]
        return part_of(self._flat(entry.prefix), host_index(entry.divisor), host_index(entry.length))

    def _flat(self, prefix: str) -> Index:
        return flat_position(self.axes[prefix])

    # ---- memory ----------------------------------------------------------------------------------------------------

    def _buffer(self, name: str, written: bool) -> int:
        (self.args.output if written else self.args.input)(name)  # Inductor asks there what the kernel touches
        real = V.graph.scheduler.mutation_real_name.get(name, name)
        buffer = ir.Buffer(real, NAMES[V.graph.get_dtype(name)], written)
        if buffer not in self.buffers:
            self.buffers.append(buffer)
        return self.buffers.index(buffer)

    def load(self, name: str, index: sympy.Expr) -> Value:
        """Element ``index`` of the buffer ``name``."""
        dtype = V.graph.get_dtype(name)
        mask = None if self._mask is None else self._mask.id
        place = self.reader.index(index)
        return Value(self.body.scalar(ir.Load(self._buffer(name, False), place, compute_name(dtype), mask)), dtype)

    def store(self, name: str, index: sympy.Expr, value: Value, mode: Any = None) -> None:
        """Write element ``index``; at places that depend on data, in order."""
        dtype = V.graph.get_dtype(name)
        scalar = (value.scalar if dtype.is_floating_point else value.exact()).to(compute_name(dtype))
        place, buffer = self.reader.index(index), self._buffer(name, True)
        if mode not in (None, "atomic_add"):
            raise ArtifactError(f"a store of mode {mode} was not declared to Inductor")
        if mode is None and not self.is_indirect_indexing(index):
            self.body.emit(ir.Store(buffer, place, scalar.id))
        else:
            self.body.emit(ir.Update(buffer, place, scalar.id, "add" if mode else "set"))

    store_reduction = store

    @contextlib.contextmanager
    def under(self, mask: Scalar) -> Iterator[None]:
        """Read and check only where ``mask`` holds, and all masks around it."""
        outer = self._mask
        self._mask = mask if outer is None else outer & mask
        try:
            yield
        finally:
            self._mask = outer

    # ---- data-dependent indexes ------------------------------------------------------------------------------------

    def loaded_index(self, var: Value, size: Any, check: bool) -> sympy.Symbol:
        """A symbol for the index ``var`` into a dimension of ``size``."""
        extent, scalar = self.reader.index(size), var.scalar.to("int64")
        inside = var.bounds.lower >= 0 and isinstance(size, (int, sympy.Number)) and var.bounds.upper < size
        if generate_assert(check) and not inside:
            place = self.checked(scalar, extent, SUBSCRIPT)
        else:
            place = atom(Loaded(scalar.id, extent))
        (loaded,) = place.atoms
        assert isinstance(loaded, Loaded)
        symbol = sympy.Symbol(f"tmp{loaded.value}", integer=True)
        self.reader.places[symbol] = place
        return symbol

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        """Report ``expr`` outside of ``size``; a data-dependent index has been checked where it was made."""
        if (lower or upper) and not (expr.is_Symbol and symbol_is_type(expr, SymT.TMP)):
            self.checked(coordinate(self.body, self.reader.index(expr)), self.reader.index(size), SUBSCRIPT)

    def checked(self, value: Scalar, size: Index, fault: Fault, dim: int = 0) -> Index:
        """``value`` as an index that is certain to lie in [0, size); else the host raises ``fault``. (Loops have lost
        which dimension of a tensor it is an index of.)"""
        mask = None if self._mask is None else self._mask.id
        return atom(Loaded(self.body.emit(ir.Check(value.id, size, FAULTS.index(fault), dim, mask)), size))

    def nonzero(self, divisor: Scalar) -> Scalar:
        """``divisor`` where it is not zero; the host raises where it is."""
        return nonzero(self, divisor)

    # ---- reductions ------------------------------------------------------------------------------------------------

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: Any, value: Any) -> Any:
        """``value`` combined over the reduced axes; the result is of ``dtype``."""
        if reduction_type == "welford_reduce":
            return self._welford(value)
        if reduction_type == "online_softmax_reduce":
            return self._softmax(value)
        if reduction_type in ("argmax", "argmin"):
            value, place = value if isinstance(value, tuple) else (value, None)
            position = place.scalar.to("int64") if place is not None else coordinate(self.body, self._flat("r0_"))
            reduce = ir.Reduce(reduction_type, value.exact().id, "int64", position.id)
            return Value(self.body.scalar(reduce), dtype)
        if reduction_type not in ("sum", "prod", "max", "min", "any"):
            raise ArtifactError(f"the reduction {reduction_type} was not declared to Inductor")
        wide = torch.bool if reduction_type == "any" else dtype
        scalar = (value.exact() if wide == torch.bool else value.scalar).to(compute_name(wide))
        return Value(self._reduced(reduction_type, scalar), dtype)

    def _reduced(self, fn: Any, scalar: Scalar) -> Scalar:
        return self.body.scalar(ir.Reduce(fn, scalar.id, scalar.dtype))

    def _welford(self, value: Value) -> tuple[Value, Value, Value]:
        """Mean, sum of squared deviations and count: in two passes, which are as exact as Welford's one."""
        x = value.scalar
        count = coordinate(self.body, host_index(self.features.reduction_numel)).to(x.dtype)
        mean = self._reduced("sum", x) / count
        distance = x - mean
        return Value(mean), Value(self._reduced("sum", distance * distance)), Value(count)

    def _softmax(self, value: Value) -> tuple[Value, Value]:
        """The maximum, and the sum of the exponentials of the distances to it."""
        high = self._reduced("max", value.scalar)
        return Value(high), Value(self._reduced("sum", self.body.call("exp", value.scalar - high)))

    def scan(self, dtypes: tuple[torch.dtype, ...], combine_fn: Any, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """``values`` combined along the reduced axis up to each position."""
        fn: Any = scan_function(combine_fn, dtypes)
        if fn is None:
            raise NotImplementedError("xpu_inductor scans with sums, products, logaddexp, maxima and minima only")
        scalar = values[0].scalar.to(compute_name(dtypes[0]))
        if not fn.startswith("arg"):
            return (Value(self.body.scalar(ir.Scan(fn, scalar.id, scalar.dtype)), dtypes[0]),)
        extreme = self.body.scalar(ir.Scan(fn[3:], scalar.id, scalar.dtype))
        place = self.body.scalar(ir.Scan(fn, scalar.id, "int64"))
        return Value(extreme, dtypes[0]), Value(place, dtypes[1])

    # ---- the kernels -----------------------------------------------------------------------------------------------

    def group(self) -> ir.GroupIR:
        """All that was collected, without stores that nothing reads."""
        removed = self.removed_buffers | V.graph.removed_buffers
        gone = {n for n, b in enumerate(self.buffers) if b.written and b.name in removed}
        body = list(self.body.statements)
        dead = [p for p, s in enumerate(body) if isinstance(s, (ir.Store, ir.Update)) and s.buffer in gone]
        for p in dead:  # in place, as values are numbered by position; nothing uses it
            body[p] = ir.Const(0, "int64")
        rows = tuple(a for prefix, axes in self.axes.items() if not prefix.startswith("r") for a in axes)
        cols = tuple(a for prefix, axes in self.axes.items() if prefix.startswith("r") for a in axes)
        found = ir.GroupIR(self._ops(), rows, cols, tuple(self.buffers), tuple(body))
        return prune(spread(found))

    def _ops(self) -> tuple[str, ...]:
        """The ATen ops behind the kernel, in the graph's order."""
        origins = [o for n in self.features.scheduler_nodes() for o in n.node.get_origins() if o.op == "call_function"]
        order = {n: i for i, n in enumerate(V.graph.graph.nodes)}
        return tuple(str(n.target) for n in sorted(dict.fromkeys(origins), key=lambda n: order.get(n, -1)))

    def codegen_kernel(self, name: str | None = None) -> str:
        """Schedule; a long reduction needs two kernels. Their text is the wrapper's, which joins launches."""
        parts = split_long(collapse(self.group()), self.traits) if self.body.statements else ()
        own = f"_{next(iter(self.features.scheduler_nodes())).get_name()}"
        self.phases = tuple(Phase(named_apart(g, own), choose(g, self.traits, chunk)) for g, chunk in parts)
        return "\n\n".join(map(str, self.phases))

    def call_kernel(self, name: str, node: Any = None, deallocate_ws: bool = True) -> None:
        """Write the launches."""
        V.graph.wrapper_code.generate_launches(self.phases, self.comment)


def named_apart(group: ir.GroupIR, suffix: str) -> ir.GroupIR:
    """``group`` with ``suffix`` behind the names of memory that its kernels share: named after a result, which may be
    an argument that other groups write to as well."""
    buffers = (b if b.scratch is None else dataclasses.replace(b, name=b.name + suffix) for b in group.buffers)
    return dataclasses.replace(group, buffers=tuple(buffers))
