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

from aten_backend.loop_level.switch import chosen_options, device_traits
from lowering import verify
from lowering.assemble import Kernel, Phase
from lowering.chain import chain
from lowering.dtypes import TORCH
from lowering.emit import emit
from lowering.index import ONE
from lowering.target import Traits
from runtime.plan import launch_call, number, numbers, symbol

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
class PhasesLine(WrapperLine):
    """What will be the launch of ``phases``, with the ``comment`` that says where they come from."""

    phases: tuple[Phase, ...]
    comment: str

    def buffers(self) -> set[str]:
        """What the phases touch, by name."""
        return {buffer.name for phase in self.phases for buffer in phase.group.buffers}


@dataclasses.dataclass
class LaunchLine(WrapperLine):
    """One kernel's launch."""

    text: str

    def codegen(self, code: IndentedBuffer) -> None:
        """Write it."""
        code.writeline(self.text)


@dataclasses.dataclass
class ScratchLine(WrapperLine):
    """The allocation of memory that kernels share."""

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
    src_to_kernel: dict[str, str]

    def generate_launches(self, phases: Sequence[Phase], comment: str) -> None:
        """Launch ``phases`` in order; they may share memory of their own."""
        buffers = [buffer for phase in phases for buffer in phase.group.buffers]
        shared = {b.name: (b.scratch, TORCH[b.dtype]) for b in buffers if b.scratch is not None}
        for name, (size, dtype) in shared.items():
            shape, strides = numbers((size,)), numbers((ONE,))
            self.lines.append(ScratchLine(f"{name} = empty_strided_cpu({shape}, {strides}, {dtype})"))
        self.lines += [PhasesLine((phase,), comment) for phase in phases]
        self.lines += [_Dead(name) for name in shared]

    def run_wrapper_ir_passes(self, is_inference: bool) -> None:
        """Inductor's memory planning, then the launches and the waits."""
        super().run_wrapper_ir_passes(is_inference)  # type: ignore[misc]
        traits = device_traits()
        lines = joined(self.lines, traits)
        launched = [self._launched(line, traits) if isinstance(line, PhasesLine) else line for line in lines]
        self.lines[:] = with_waits(launched)

    def generate_end(self, result: IndentedBuffer) -> None:
        """Have every kernel of the module built when it is loaded."""
        result.writeline("kernels.ready(globals())")

    def _launched(self, line: PhasesLine, traits: Traits) -> LaunchLine:
        """The launch of the line's kernel, whose source goes into the module, once for equal ones."""
        kernel = emit(line.phases, traits.local_memory)
        if chosen_options().verify != "off":
            verify.verify_kernel(kernel)
            verify.verify_launches(line.phases, (line.phases,))
        name = kernel.source.name
        if name not in self.src_to_kernel:
            self.src_to_kernel[name] = name
            self._define(kernel, line.comment)
        floats = [f"float({f})" for f in kernel.floats]
        checks = "".join(f"({code}, {dim}, {number(size)}), " for code, dim, size in kernel.checks)
        error = [f"*kernels.noting(({checks}))"] if kernel.checks else []
        pointers = [f"{b.name}.data_ptr()" for b in kernel.buffers]
        return LaunchLine(launch_call(name, [*pointers, *map(symbol, kernel.symbols), *floats, *error], kernel))

    def _define(self, kernel: Kernel, comment: str) -> None:
        """Put the source of ``kernel`` into the module, with where it comes from above it."""
        source = kernel.source
        params = ", ".join(repr((p.name, p.kind, p.dtype, p.extent)) for p in source.params)
        schedules = "\n".join(f"# {phase.schedule}" for phase in kernel.phases)
        self.header.splice(f"\n\n{comment}\n{schedules}")
        self.header.writeline(
            f"{source.name} = kernels.define({source.name!r}, [{params}], {source.ndim}, {source.local_size}, r'''"
        )
        for text in source.text.splitlines():
            self.header.writeline(text)
        self.header.writeline("''')")


@dataclasses.dataclass
class _Dead(WrapperLine):
    """Memory that kernels shared and nothing else names."""

    name: str


def joined(lines: Sequence[Any], traits: Traits) -> list[Any]:
    """``lines`` with one launch for several where only what touches no memory stands between, and ``chain`` takes the
    later ones as phases of the first. What is given up in between is given up behind it."""
    found: list[Any] = []
    last: int | None = None
    for line in lines:
        if isinstance(line, PhasesLine):
            between = found if last is None else found[last + 1 :]
            longer = None if last is None else _longer(found[last], between, line, traits)
            if longer is not None:
                given_up = [one for one in between if isinstance(one, (*_FREES, _Dead))]
                found[last:] = [one for one in between if not isinstance(one, (*_FREES, _Dead))]
                last = len(found)
                found += [longer, *given_up]
                continue
            last = len(found)
        elif not _is_harmless(line):
            last = None
        found.append(line)
    return found


def _longer(first: PhasesLine, between: Sequence[Any], second: PhasesLine, traits: Traits) -> PhasesLine | None:
    """Both launches in one, in the place of the second; None where the names of the first do not last until there, or
    it does not pay."""
    reused = {line.node.get_name() for line in between if isinstance(line, inductor.ReuseLine)}
    if reused & first.buffers():
        return None
    launches = chain((*first.phases, *second.phases), traits)
    comments = dict.fromkeys((first.comment, second.comment))
    return PhasesLine(launches[0], "\n".join(comments)) if len(launches) == 1 else None


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
    return isinstance(line, (*_HARMLESS, *_FREES, ScratchLine, _Dead))


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
