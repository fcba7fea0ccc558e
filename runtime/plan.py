"""Launch plans: a partition and its kernels as a straight line of Python.

The plan's text is what runs, so that reading it is reading what happens: allocate, launch, wait before ATen touches
memory, call ATen, forget. Nothing is forgotten while a kernel that uses it may still be running.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from lowering import graph
from lowering.assemble import Kernel
from lowering.classify import op_name
from lowering.dtypes import TORCH
from lowering.errors import user_line
from lowering.index import ONE, Axis, Index, Loaded, Quotient, Remainder, Symbol, product, render
from lowering.ir import Buffer, GroupIR, Load, Store
from lowering.partition import Extern, Group, Partition
from lowering.schedule import Mapping as LoopMapping
from lowering.symbols import to_index

from .launch_plan import LaunchPlan, Step
from .memory import POOLED

OUT_VARIANTS = {
    torch.ops.aten.mm.default: "torch.mm",
    torch.ops.aten.bmm.default: "torch.bmm",
    torch.ops.aten.addmm.default: "torch.addmm",
    torch.ops.aten.baddbmm.default: "torch.baddbmm",
}
"""Functions whose ``out=`` form writes straight into the buffer that it is given: a microsecond less each than the op's
overload takes."""

ALONE = 300_000
"""Additions up to which a kernel is not worth more than one thread: it costs microseconds to have others begin and to
wait for them."""

_RESERVED = re.compile(
    r"[suz]+\d+|k\d+|c\d+|(aten|prims)_\w+|torch|math|float|args|call|error|address|allocate|empty_strided|reinterpret|_conj|_neg_view|wait|no_error|check|scratch\d+_\w+"
)
"""Names that a plan uses for symbols, launches, constants and its own helpers: no node may take them."""


Layout = tuple[tuple[Index, ...], tuple[Index, ...], torch.dtype]
"""Shape, strides and type of something in memory."""


def _layout(node: Node) -> Layout:
    return tuple(graph.shape(node)), tuple(graph.strides(node)), graph.dtype(node)


def _is_last_at(store: Store, name: str, body: GroupIR) -> bool:
    """Whether all reads of the buffer ``name`` are of the place of ``store``, and come before it."""
    loads = [(p, s) for p, s in enumerate(body.body) if isinstance(s, Load) and body.buffers[s.buffer].name == name]
    end = body.body.index(store)
    return bool(loads) and all(p < end and s.index == store.index for p, s in loads)


def number(ix: Index) -> str:
    """An index over size symbols as Python text."""
    return render(ix, symbol)


def symbol(a: Axis | Symbol | Quotient | Remainder | Loaded) -> str:
    """One atom of such an index as Python text."""
    if isinstance(a, Quotient):
        return f"(({number(a.num)}) // ({number(a.den)}))"
    if isinstance(a, Remainder):
        return f"(({number(a.num)}) % ({number(a.den)}))"
    assert isinstance(a, Symbol), a
    return a.name if a.text is None else f"({a.text})"


def numbers(values: Sequence[Index]) -> str:
    """Indexes over size symbols as the text of a tuple."""
    return f"({', '.join(map(number, values))}{',' if len(values) == 1 else ''})"


def launch_call(name: str, arguments: Sequence[str], kernel: Kernel) -> str:
    """The text of a launch: a call of ``name`` (a launch.LaunchFunction)."""
    given = [f"({', '.join(arguments)}{',' if len(arguments) == 1 else ''})", numbers(kernel.global_size)]
    work = kernel.work.constant
    if work is None:
        given.append(f"alone={number(kernel.work)} <= {ALONE}")
    elif work <= ALONE:
        given.append("alone=True")
    return f"{name}({', '.join(given)})"


def variable(name: str) -> str:
    """The variable of the node ``name``."""
    name = re.sub(r"\W", "_", name)
    return f"{name}_" if keyword.iskeyword(name) or _RESERVED.fullmatch(name) else name


class Planner:
    """Writes one plan."""

    def __init__(self, partition: Partition, kernels: Mapping[Group, tuple[Kernel, ...]]) -> None:
        self.partition, self.kernels = partition, kernels
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.nodes = {n.name: n for n in partition.gm.graph.nodes}
        self.names: dict[Node, str] = {}
        self.views: dict[Node, str] = {}
        self.symbols: dict[str, str] = {}
        self.launches: list[Kernel] = []
        self.launched: set[int] = set()
        self.made: set[Node] = set()
        self.scratch: dict[str, str] = {}
        self.externs = 0
        self.pending = False
        self.checks: list[tuple[int, int, Index]] = []
        self.retiring = self._last_uses()
        self.dead: list[str] = []
        self.dying: list[Node] = []  # what nothing reads after the current step
        self.own: dict[str, Layout] = {}  # what the plan allocated itself, and so may use again

    def run(self) -> LaunchPlan:
        """The whole plan."""
        self._inputs()
        steps: list[Step] = []
        for position, step in enumerate(self.partition.steps):
            first, launched = len(self.lines), len(self.launches)
            self.dying = self.retiring.get(position, [])
            if isinstance(step, Extern):
                self._extern(step.node)
            else:
                self._group(step)
            steps.append(self._step(step, first + 2, len(self.launches) - launched))  # line 1 is the def
            self._retire()
        self._output()
        body = "\n".join(f"    {line}" for line in self.lines)
        text = f"def call(args):\n{body}\n"
        return LaunchPlan(text, self.constants, tuple(self.launches), self.externs, tuple(steps))

    def _step(self, step: Group | Extern, first: int, launches: int) -> Step:
        nodes = (step.node,) if isinstance(step, Extern) else step.nodes
        kernels = () if isinstance(step, Extern) else self.kernels[step]
        label = kernels[0].source.name if kernels else op_name(nodes[0])
        source = next((line for n in nodes if (line := user_line(n))), "")
        names = tuple(name for n in nodes for name in graph.covered(n))
        return Step(first, len(self.lines) + 1, label, names, source, launches, not isinstance(step, Extern))

    # ---- names -----------------------------------------------------------------------------------------------------

    def _name(self, node: Node) -> str:
        """A variable for ``node``, apart from those of symbols."""
        if node not in self.names:
            self.names[node] = variable(node.name)
        return self.names[node]

    def _constant(self, value: Any) -> str:
        for name, known in self.constants.items():
            if known is value:
                return name
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    # ---- inputs and symbols
    # ----------------------------------------------------------------------------------------------

    def _inputs(self) -> None:
        nodes = [n for n in self.partition.gm.graph.nodes if n.op == "placeholder"]
        if nodes:
            self.lines.append(f"{', '.join(map(self._name, nodes))}{',' if len(nodes) == 1 else ''} = args")
        self.lines.append("args.clear()")
        for node in nodes:
            self._bind(node, scalars_only=True)
        for node in nodes:
            self._bind(node)
        for node in self.partition.gm.graph.nodes:
            if node.op == "get_attr":
                value: Any = self.partition.gm
                for part in str(node.target).split("."):
                    value = getattr(value, part)
                self.names[node] = self._constant(value)

    def _bind(self, node: Node, scalars_only: bool = False) -> None:
        """Give names to the symbols that ``node``'s value or sizes reveal."""
        val = graph.value_of(node)
        if isinstance(val, torch.SymInt):
            self._bind_one(to_index(val), self._name(node))
        elif isinstance(val, torch.Tensor) and not scalars_only and val.layout is torch.strided:
            for d, size in enumerate(graph.shape(node)):
                self._bind_one(size, f"{self._name(node)}.shape[{d}]")
            for d, stride in enumerate(graph.strides(node)):
                self._bind_one(stride, f"{self._name(node)}.stride({d})")

    def _bind_one(self, ix: Index, text: str) -> None:
        if len(ix.terms) == 1:
            ((monomial, coefficient),) = ix.terms.items()
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol) and monomial[0].text is None:
                name = monomial[0].name
                if name not in self.symbols:
                    self.symbols[name] = text
                    self.lines.append(f"{name} = {text}")

    # ---- kernels
    # ---------------------------------------------------------------------------------------------------------

    def _group(self, group: Group) -> None:
        """Launch the kernels of ``group``, but for those that an earlier group shares and has launched."""
        for kernel in self.kernels[group]:
            if id(kernel) not in self.launched:
                self.launched.add(id(kernel))
                self._launch(kernel)
        self.dead += self.scratch.values()
        self.scratch = {}

    def _allocate(self, name: str, layout: Layout) -> None:
        """New memory, or that of something of the same layout which is dead, but may still be in use by kernels: they
        run one after the other."""
        dead = next((d for d in self.dead if self.own.get(d) == layout), None)
        if dead is None:
            self.lines.append(f"{name} = {self._empty(layout)}")
        else:
            self.lines += [f"{name} = {dead}", f"del {dead}"]
            self.dead.remove(dead)
            del self.own[dead]
        self.own[name] = layout

    def _empty(self, layout: Layout) -> str:
        """New memory as text: from the pool where it is large, or may be."""
        shape, strides, dtype = layout
        count = product(shape).constant
        function = "empty_strided" if count is not None and count * dtype.itemsize < POOLED else "allocate"
        return f"{function}({numbers(shape)}, {numbers(strides)}, {dtype})"

    def _in_place(self, node: Node, kernel: Kernel) -> str | None:
        """The variable of an argument of ``kernel`` whose memory the result ``node`` can take: it dies here, and the
        kernel reads each element of it in the work-item that then writes to the same place."""
        body, layout = kernel.group, _layout(node)
        if len(kernel.phases) > 1 or kernel.schedule.mapping is not LoopMapping.FLAT:
            return None
        store = next(s for s in body.body if isinstance(s, Store) and body.buffers[s.buffer].name == node.name)
        for dying in self.dying:
            name = self.names.get(dying)
            if name in self.own and self.own[name] == layout and _is_last_at(store, dying.name, body):
                return name
        return None

    def _buffer(self, buffer: Buffer, kernel: Kernel) -> str:
        """The variable of a kernel's buffer; memory is made when a kernel is first given it to write to."""
        if buffer.scratch is not None:
            if buffer.name not in self.scratch:
                self.scratch[buffer.name] = f"scratch{len(self.launches)}_{buffer.name}"
                self._allocate(self.scratch[buffer.name], ((buffer.scratch,), (ONE,), TORCH[buffer.dtype]))
            return self.scratch[buffer.name]
        node = self.nodes[buffer.name]
        if buffer.written and node not in self.made:
            self.made.add(node)
            self._make(node, kernel)
        return self._name(node)

    def _make(self, node: Node, kernel: Kernel) -> None:
        """Give ``node`` memory: what it writes to in place, what dies in this kernel, or new."""
        target = graph.destination(node)
        if target is not None:
            place = self._node(target)
            self.lines.append(f"{self._name(node)} = {place}")
            return
        reused = self._in_place(node, kernel)
        if reused is None:
            self._allocate(self._name(node), _layout(node))
        else:
            self.lines.append(f"{self._name(node)} = {reused}")
            self.own[self._name(node)] = self.own.pop(reused)

    def _launch(self, kernel: Kernel) -> None:
        arguments = [f"{self._buffer(b, kernel)}.data_ptr()" for b in kernel.buffers]
        arguments += [symbol(s) for s in kernel.symbols]
        arguments += [f"float({self._node(self.nodes[f])})" for f in kernel.floats]
        if kernel.checks:
            if not self.checks:
                self.lines.append("error = no_error()")
            arguments += ["error.data_ptr()", str(len(self.checks) + 1)]
            self.checks += kernel.checks
        call = launch_call(f"k{len(self.launches)}", arguments, kernel)
        self.lines.append(f"{call}  # {kernel.source.name}")
        self.launches.append(kernel)
        self.pending = True

    def _wait(self) -> None:
        if self.pending:
            self.lines.append("wait()")
            self.pending = False

    # ---- ATen ------------------------------------------------------------------------------------------------------

    def _extern(self, node: Node) -> None:
        self.externs += 1
        arguments = [self._argument(a) for a in node.args]
        arguments += [f"{k}={self._argument(v)}" for k, v in node.kwargs.items()]
        self._wait()
        out = OUT_VARIANTS.get(node.target)
        target = out or self._target(node.target)
        if out is not None:
            self.lines.append(
                f"{self._name(node)} = {target}({', '.join([*arguments, f'out={self._empty(_layout(node))}'])})"
            )
            self.own[self._name(node)] = _layout(node)
        else:
            self.lines.append(f"{self._name(node)} = {target}({', '.join(arguments)})")
        self._bind(node)
        self._unpack(node)
        for user in list(node.users):
            if user in self.partition.classes.host and not graph.is_getitem(user):
                self._bind_host(user)

    def _unpack(self, node: Node) -> None:
        """Name the results of an op that has several, nested ones too."""
        for user in node.users:
            if graph.is_getitem(user):
                self.lines.append(f"{self._name(user)} = {self._name(node)}[{user.args[1]}]")
                self._bind(user)
                self._unpack(user)

    def _bind_host(self, node: Node) -> None:
        """A size that is known only now."""
        val = graph.value_of(node)
        if isinstance(val, torch.SymInt) and node.target is torch.ops.aten.sym_size.int:
            self._bind_one(to_index(val), f"{self._argument(node.args[0])}.shape[{node.args[1]}]")

    def _target(self, target: Any) -> str:
        if isinstance(target, torch._ops.OpOverload):
            name = re.sub(r"\W", "_", str(target))
            self.constants[name] = target
            return name
        return self._constant(target)

    def _argument(self, value: Any) -> str:
        if isinstance(value, Node):
            return self._node(value)
        if isinstance(value, (list, tuple)):
            items = ", ".join(map(self._argument, value))
            return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{k!r}: {self._argument(v)}' for k, v in value.items())}}}"
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        if isinstance(value, float) and value == value and abs(value) != float("inf"):
            return repr(value)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        return self._constant(value)

    def _node(self, node: Node) -> str:
        """``node`` as an argument: a number, something in memory, or a view of it, made when first needed."""
        val = graph.value_of(node)
        if isinstance(val, (torch.SymInt, int)) and not isinstance(val, bool):
            return number(to_index(val))
        if isinstance(val, (torch.SymFloat, torch.SymBool)) and node in self.partition.classes.host:
            return self._host(node)
        base = graph.storage_base(node) if graph.is_tensor(node) else node
        if base is node:
            return self._name(node)
        if node not in self.views:
            place = graph.offset(node) - graph.offset(base)
            name = self.views[node] = self._name(node)
            layout = f"{numbers(graph.shape(node))}, {numbers(graph.strides(node))}, {number(place)}"
            text = f"reinterpret({self._name(base)}, {layout})"
            for flip, here, there in zip(("_conj", "_neg_view"), graph.bits(node), graph.bits(base), strict=True):
                text = text if here == there else f"{flip}({text})"
            self.lines.append(f"{name} = {text}")
        return self.views[node]

    def _host(self, node: Node) -> str:
        """Arithmetic on numbers that stays on the host."""
        if node not in self.views:
            arguments = ", ".join(map(self._argument, node.args))
            self.lines.append(f"{self._name(node)} = {self._target(node.target)}({arguments})")
            self.views[node] = self._name(node)
        return self.views[node]

    # ---- lifetimes and results
    # -------------------------------------------------------------------------------------------

    def _last_uses(self) -> dict[int, list[Node]]:
        """For each step, the nodes whose memory nothing reads after it."""
        last: dict[Node, int] = {}
        for position, step in enumerate(self.partition.steps):
            nodes = (step.node,) if isinstance(step, Extern) else step.nodes
            stack = [a for n in nodes for a in (n, *n.all_input_nodes)]
            seen: set[Node] = set()
            while stack:
                node = stack.pop()
                if node in seen:
                    continue
                seen.add(node)
                base, *behind = graph.holders(node) if graph.is_tensor(node) else (node,)
                last.update(dict.fromkeys((base, *behind, node), position))
                if base in self.partition.classes.inline:
                    stack += base.all_input_nodes
        for node in self.partition.gm.graph.output_node().all_input_nodes:
            for kept in (node, *(graph.holders(node) if graph.is_tensor(node) else ())):
                last.pop(kept, None)
        retiring: dict[int, list[Node]] = {}
        for node, position in last.items():
            retiring.setdefault(position, []).append(node)
        return retiring

    def _retire(self) -> None:
        """Forget what nothing reads any more, once no kernel can be using it."""
        for node in self.dying:
            if node in self.names and node.op != "get_attr" and graph.is_tensor(node):
                self.dead.append(self.names[node])
        if self.dead and not self.pending:
            self.lines.append(f"del {', '.join(dict.fromkeys(self.dead))}")
            self.dead = []

    def _output(self) -> None:
        results = [self._result(r) for r in self.partition.gm.graph.output_node().args[0]]
        self._wait()
        if self.checks:
            checks = ", ".join(f"({code}, {dim}, {number(size)})" for code, dim, size in self.checks)
            self.lines.append(f"check(error, ({checks},))")
        self.lines.append(f"return ({', '.join(results)}{',' if len(results) == 1 else ''})")

    def _result(self, value: Any) -> str:
        return self._node(value) if isinstance(value, Node) else self._argument(value)


class PlainPlanner(Planner):
    """The plan with the least to go wrong: each kernel is waited for, and nothing is forgotten before the end."""

    def _launch(self, kernel: Kernel) -> None:
        super()._launch(kernel)
        self._wait()

    def _allocate(self, name: str, layout: Layout) -> None:
        self.lines.append(f"{name} = {self._empty(layout)}")

    def _in_place(self, node: Node, kernel: Kernel) -> str | None:
        return None

    def _retire(self) -> None:
        pass


def make_plan(
    partition: Partition, kernels: Mapping[Group, tuple[Kernel, ...]], planner: type[Planner] = Planner
) -> LaunchPlan:
    """The plan of ``partition``, as ``planner`` writes it. ``kernels`` has what each group launches, in order."""
    return planner(partition, kernels).run()
