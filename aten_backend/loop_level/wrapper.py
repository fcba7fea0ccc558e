"""The Python wrapper that Inductor generates around kernels, with this project's launches in it.

Launches return before their kernels have run. So whatever is no launch, allocation or view waits first, and memory is
given up after the next wait only. The queue keeps the order of kernels among themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch._inductor.codegen import wrapper as inductor
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen, WrapperLine
from torch._inductor.utils import IndentedBuffer, LineContext

from aten_backend.loop_level.switch import chosen_options
from lowering.assemble import Kernel
from lowering.dtypes import TORCH
from lowering.index import ONE
from runtime.plan import number, numbers, symbol

_HARMLESS = (
    inductor.AllocateLine,
    inductor.ReuseLine,
    inductor.NullLine,
    inductor.ReinterpretLine,
    inductor.CommentLine,
    inductor.KernelDefinitionLine,
    inductor.SymbolicCallArgLine,
    inductor.AssertSizeStrideLine,
    LineContext,
)
"""Lines that neither read nor write memory."""

_FREES = (inductor.FreeLine, inductor.FreeIfNotReusedLine)


@dataclasses.dataclass
class LaunchLine(WrapperLine):
    """One kernel's launch, or the allocation of memory that kernels share."""

    text: str

    def codegen(self, code: IndentedBuffer) -> None:
        """Write it."""
        code.writeline(self.text)


@dataclasses.dataclass
class WaitLine(WrapperLine):
    """Wait for every kernel launched so far, then forget ``dead``."""

    dead: Sequence[str]

    def codegen(self, code: IndentedBuffer) -> None:
        """Write it."""
        code.writeline("kernels.wait()")
        if self.dead:
            code.writeline(f"del {', '.join(self.dead)}")


class _Launches:
    """What the wrappers of graphs and of subgraphs have in common."""

    lines: list[Any]
    header: IndentedBuffer

    def define_group(self, kernel: Kernel, comment: str) -> None:
        """Put the source of ``kernel`` into the module, with where it comes from above it."""
        source = kernel.source
        params = ", ".join(repr((p.name, p.kind, p.dtype, p.extent)) for p in source.params)
        schedules = "\n".join(f"# {phase.schedule}" for phase in kernel.phases)
        self.header.splice(f"\n\n{comment}\n{schedules}")
        self.header.writeline(
            f"{source.name} = kernels.define({source.name!r}, [{params}], {source.ndim}, {source.local_size}, r'''"
        )
        for line in source.text.splitlines():
            self.header.writeline(line)
        self.header.writeline("''')")

    def generate_launches(self, kernels: Sequence[Kernel]) -> None:
        """Launch ``kernels`` in order; they may share memory of their own."""
        scratch: dict[str, str] = {}
        for kernel in kernels:
            pointers = [f"{self._buffer(b, scratch)}.data_ptr()" for b in kernel.buffers]
            floats = [f"float({f})" for f in kernel.floats]
            checks = "".join(f"({code}, {dim}, {number(size)}), " for code, dim, size in kernel.checks)
            error = [f"*kernels.noting(({checks}))"] if kernel.checks else []
            arguments = ", ".join([*pointers, *map(symbol, kernel.symbols), *floats, *error])
            self.lines.append(LaunchLine(f"{kernel.source.name}(({arguments},), {numbers(kernel.global_size)})"))
        self.lines += [_Dead(name) for name in scratch.values()]

    def _buffer(self, buffer: Any, scratch: dict[str, str]) -> str:
        if buffer.scratch is None:
            return str(buffer.name)
        if buffer.name not in scratch:
            name = scratch[buffer.name] = f"scratch_{len(self.lines)}_{buffer.name}"
            shape, strides = numbers((buffer.scratch,)), numbers((ONE,))
            text = f"{name} = empty_strided_cpu({shape}, {strides}, {TORCH[buffer.dtype]})"
            self.lines.append(LaunchLine(text))
        return scratch[buffer.name]

    def run_wrapper_ir_passes(self, is_inference: bool) -> None:
        """Inductor's memory planning, then the waits."""
        super().run_wrapper_ir_passes(is_inference)  # type: ignore[misc]
        self.lines[:] = with_waits(self.lines)

    def generate_end(self, result: IndentedBuffer) -> None:
        """Have every kernel of the module built when it is loaded."""
        result.writeline("kernels.ready(globals())")


@dataclasses.dataclass
class _Dead(WrapperLine):
    """Memory that kernels shared and nothing else names."""

    name: str


def with_waits(lines: Sequence[Any]) -> list[Any]:
    """``lines`` with a wait before every line that may touch memory that kernels use, and at the end."""
    found: list[Any] = []
    dead: list[str] = []
    pending = False
    for line in lines:
        if isinstance(line, LaunchLine):
            pending = True
        elif isinstance(line, _Dead):
            dead.append(line.name)
            continue
        elif isinstance(line, _FREES) and pending:
            if not getattr(line, "is_reused", False):
                dead.append(line.node.get_name())
            continue
        elif pending and not _is_harmless(line):
            found.append(WaitLine(tuple(dead)))
            pending, dead = False, []
        found.append(line)
    if pending:
        found.append(WaitLine(tuple(dead)))
    return found


def _is_harmless(line: Any) -> bool:
    if isinstance(line, str):
        return not line.strip() or line.lstrip().startswith("#")
    return isinstance(line, (*_HARMLESS, *_FREES))


class GraphWrapper(_Launches, PythonWrapperCodegen):
    """The wrapper of a graph."""

    @staticmethod
    def create(is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None) -> Any:
        """The wrapper of a graph or of a subgraph in it."""
        if is_subgraph:
            return SubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return GraphWrapper()

    def write_header(self) -> None:
        """Inductor's imports and ours."""
        super().write_header()
        device = chosen_options().device
        self.imports.splice(
            f"""
            from aten_backend.loop_level.linking import Kernels
            kernels = Kernels({device!r})
            """,
            strip=True,
        )


class SubgraphWrapper(_Launches, SubgraphPythonWrapperCodegen):
    """The wrapper of a subgraph, whose module has the graph's imports."""
