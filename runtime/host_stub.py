"""The function that a team's threads run to launch a kernel, as machine code.

A thread that is not Python's cannot run Python, so a launch on ATen's threads (see ``team``) needs a function of
machine code. It is made by the LLVM that numba brings, and travels with the kernels. All that it knows of the process
it runs in, the OpenCL functions too, is in the words that it is given (``share_layout``).

Loaded by file path inside the compiler processes only.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import types
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils

I32, WORD = ir.IntType(32), ir.IntType(64)
POINTER = WORD.as_pointer()


def _layout() -> types.ModuleType:
    path = pathlib.Path(__file__).with_name("share_layout.py")
    spec = importlib.util.spec_from_file_location("_xpu_aten_share_layout", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


at = _layout()


class _ShareOut:
    """Writes ``void share_out(uint64_t *words)``."""

    def __init__(self, module: ir.Module) -> None:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER]), "share_out")
        self.words = function.args[0]
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.status = cgutils.alloca_once_value(self.builder, I32(0))

    def place(self, number: Any, base: Any = None) -> Any:
        """The address of a word, from the start or from ``base`` on."""
        index = WORD(number) if isinstance(number, int) else number
        return self.builder.gep(self.words if base is None else base, [index])

    def word(self, number: Any, base: Any = None) -> Any:
        """A word's value."""
        return self.builder.load(self.place(number, base))

    def call(self, function: int, *arguments: Any) -> Any:
        """Call the function whose address is in a word; it returns an int."""
        kind = ir.FunctionType(I32, [argument.type for argument in arguments])
        return self.builder.call(self.builder.inttoptr(self.word(function), kind.as_pointer()), arguments)

    def note(self, status: Any) -> None:
        """Keep the first error code."""
        known = self.builder.load(self.status)
        found = self.builder.icmp_unsigned("!=", known, I32(0))
        self.builder.store(self.builder.select(found, known, status), self.status)

    def run(self) -> None:
        """The whole function: the share of the thread that runs it, if it has one."""
        builder = self.builder
        thread, threads = (builder.zext(self.call(function), WORD) for function in (at.THREAD, at.THREADS))
        shares = self.word(at.SHARES)
        shares = builder.select(builder.icmp_unsigned("<", threads, shares), threads, shares)
        pieces = self.word(at.PIECES)
        first, last = (
            builder.udiv(builder.mul(pieces, number), shares) for number in (thread, builder.add(thread, WORD(1)))
        )
        mine = builder.and_(builder.icmp_unsigned("<", thread, shares), builder.icmp_unsigned("<", first, last))
        with builder.if_then(mine):
            self._share(thread, first, builder.sub(last, first))
            status = builder.load(self.status)
            with builder.if_then(builder.icmp_unsigned("!=", status, I32(0)), likely=False):
                builder.store(builder.zext(status, WORD), self.place(at.STATUS))
        builder.ret_void()

    def _share(self, thread: Any, first: Any, pieces: Any) -> None:
        """Launch the kernel over ``pieces`` of the range from the ``first`` on."""
        builder = self.builder
        count = self.word(at.COUNT)
        behind = builder.add(WORD(at.ARGUMENTS), builder.mul(count, WORD(at.ARGUMENT)))
        share = self.place(builder.add(behind, builder.mul(thread, WORD(at.SHARE))))
        kernel = self.word(at.KERNEL, share)
        with cgutils.for_range(builder, count) as loop:
            argument = self.place(builder.add(WORD(at.ARGUMENTS), builder.mul(loop.index, WORD(at.ARGUMENT))))
            self._set(kernel, argument)
        cut, piece = self.word(at.CUT), self.word(at.PIECE)
        for dimension in range(3):
            builder.store(WORD(0), self.place(at.START + dimension, share))
            builder.store(self.word(at.RANGE + dimension), self.place(at.SIZE + dimension, share))
        builder.store(builder.mul(first, piece), self.place(cut, self.place(at.START, share)))
        builder.store(builder.mul(pieces, piece), self.place(cut, self.place(at.SIZE, share)))
        start, size = self.place(at.START, share), self.place(at.SIZE, share)
        dimensions = builder.trunc(self.word(at.DIMENSIONS), I32)
        where = (self.word(at.QUEUE, share), kernel, dimensions, start, size, self.word(at.LOCAL))
        self.note(self.call(at.ENQUEUE, *where, I32(0), WORD(0), WORD(0)))  # after no event, and no event is wanted

    def _set(self, kernel: Any, argument: Any) -> None:
        builder = self.builder
        place, size = builder.trunc(self.word(0, argument), I32), self.word(1, argument)
        with builder.if_else(builder.icmp_unsigned("==", size, WORD(0))) as (pointer, value):
            with pointer:
                self.note(self.call(at.SET_POINTER, kernel, place, self.word(2, argument)))
            with value:
                self.note(self.call(at.SET_VALUE, kernel, place, size, self.place(2, argument)))


@functools.cache
def share_out() -> bytes:
    """The machine code, which refers to nothing outside itself and can stand at any address."""
    module = ir.Module("share_out")
    module.triple = llvm.get_process_triple()
    _ShareOut(module).run()
    target = llvm.Target.from_triple(module.triple).create_target_machine(opt=2, reloc="pic", codemodel="small")
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    sections = {s.name(): s.data() for s in llvm.ObjectFileRef.from_data(target.emit_object(parsed)).sections()}
    if b".rela.text" in sections:
        raise AssertionError("share_out refers to what is outside it")
    return bytes(sections[b".text"])
