"""The functions by which a kernel is launched on a team's threads, as machine code.

A thread that is not Python's cannot run Python, so what ATen's threads run to launch a kernel (see ``team``) has to be
machine code: ``share_out``. And a launch is so short that what Python itself does for it would be most of it: so what a
plan calls is machine code too (``launch``), with Python behind it for all that is not usual. Both are made by the LLVM
that numba brings, and travel with the kernels. All that they know of the process they run in is in the words that they
are given (``share_layout``).

Loaded by file path inside the compiler processes only.
"""

from __future__ import annotations

import functools
import pathlib
import runpy
import struct
import types
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils

I32, WORD, DOUBLE, VOID = ir.IntType(32), ir.IntType(64), ir.DoubleType(), ir.VoidType()
POINTER = WORD.as_pointer()
MINUS_ONE = int.from_bytes(struct.pack("<d", -1.0), "little")


at: Any = types.SimpleNamespace(**runpy.run_path(str(pathlib.Path(__file__).with_name("share_layout.py"))))


class _Writer:
    """Writes a function over an array of words."""

    def __init__(self, name: str, result: Any, arguments: list[Any]) -> None:
        self.module = ir.Module(name)
        self.module.triple = llvm.get_process_triple()
        self.function = ir.Function(self.module, ir.FunctionType(result, arguments), name)
        self.builder = ir.IRBuilder(self.function.append_basic_block())
        self.words: Any = None

    def place(self, number: Any, base: Any = None) -> Any:
        """The address of a word, from the start or from ``base`` on."""
        index = WORD(number) if isinstance(number, int) else number
        return self.builder.gep(self.words if base is None else base, [index])

    def word(self, number: Any, base: Any = None) -> Any:
        """A word's value."""
        return self.builder.load(self.place(number, base))

    def set(self, number: Any, value: Any, base: Any = None) -> None:
        """Change a word."""
        self.builder.store(WORD(value) if isinstance(value, int) else value, self.place(number, base))

    def call(self, function: int, result: Any, *arguments: Any) -> Any:
        """Call the function whose address is in a word."""
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.builder.call(self.builder.inttoptr(self.word(function), kind.as_pointer()), arguments)

    def equal(self, a: Any, b: Any) -> Any:
        """Whether two integers are the same."""
        return self.builder.icmp_unsigned("==", a, a.type(b) if isinstance(b, int) else b)

    def times(self, count: Any, size: int) -> Any:
        """``count`` times a constant."""
        return self.builder.mul(count, WORD(size))

    def machine_code(self) -> bytes:
        """The function, which refers to nothing outside itself and can stand at any address."""
        target = llvm.Target.from_triple(self.module.triple)
        target = target.create_target_machine(opt=2, reloc="pic", codemodel="small")
        parsed = llvm.parse_assembly(str(self.module))
        parsed.verify()
        sections = {s.name(): s.data() for s in llvm.ObjectFileRef.from_data(target.emit_object(parsed)).sections()}
        if any(name.startswith((b".rela.text", b".rodata")) for name in sections if name):
            raise AssertionError(f"{self.module.name} refers to what is outside it")
        return bytes(sections[b".text"])


class _ShareOut(_Writer):
    """``void share_out(uint64_t *words)``: the share of the thread that runs it, if it has one."""

    def __init__(self) -> None:
        super().__init__("share_out", VOID, [POINTER])
        self.words = self.function.args[0]
        self.status = cgutils.alloca_once_value(self.builder, I32(0))

    def note(self, status: Any) -> None:
        """Keep the first error code."""
        known = self.builder.load(self.status)
        self.builder.store(self.builder.select(self.equal(known, 0), status, known), self.status)

    def write(self) -> None:
        """The whole function."""
        builder = self.builder
        thread, threads = (cgutils.alloca_once_value(builder, WORD(number)) for number in (0, 1))
        with builder.if_then(self.equal(self.word(at.ALONE), 0)):
            for function, number in ((at.THREAD, thread), (at.THREADS, threads)):
                builder.store(builder.zext(self.call(function, I32), WORD), number)
        me, all_of_us, shares = builder.load(thread), builder.load(threads), self.word(at.SHARES)
        shares = builder.select(builder.icmp_unsigned("<", all_of_us, shares), all_of_us, shares)
        pieces = self.word(at.PIECES)
        first, last = (builder.udiv(builder.mul(pieces, n), shares) for n in (me, builder.add(me, WORD(1))))
        mine = builder.and_(builder.icmp_unsigned("<", me, shares), builder.icmp_unsigned("<", first, last))
        with builder.if_then(mine):
            self._share(me, first, builder.sub(last, first))
            status = builder.load(self.status)
            with builder.if_then(self.equal(status, 0)):
                builder.ret_void()
            self.set(at.STATUS, builder.zext(status, WORD))
        builder.ret_void()

    def _share(self, thread: Any, first: Any, pieces: Any) -> None:
        """Launch the kernel over ``pieces`` of the range from the ``first`` on."""
        builder = self.builder
        count = self.word(at.COUNT)
        shares = builder.add(WORD(at.ARGUMENTS), self.times(count, at.ARGUMENT))
        share = self.place(builder.add(shares, builder.mul(thread, builder.add(count, WORD(at.SHARE)))))
        kernel, known = self.word(at.KERNEL, share), self.equal(self.word(at.KNOWN, share), 1)
        with cgutils.for_range(builder, count) as loop:
            argument = self.place(builder.add(WORD(at.ARGUMENTS), self.times(loop.index, at.ARGUMENT)))
            last = builder.add(loop.index, WORD(at.SHARE))
            same = builder.and_(known, self.equal(self.word(last, share), self.word(2, argument)))
            with builder.if_then(builder.not_(same)):
                self._set(kernel, argument)
                self.set(last, self.word(2, argument), share)
        self.set(at.KNOWN, builder.zext(self.equal(builder.load(self.status), 0), WORD), share)
        cut, piece = self.word(at.CUT), self.word(at.PIECE)
        for dimension in range(3):
            self.set(at.START + dimension, 0, share)
            self.set(at.SIZE + dimension, self.word(at.RANGE + dimension), share)
        start, size = self.place(at.START, share), self.place(at.SIZE, share)
        self.set(cut, builder.mul(first, piece), start)
        self.set(cut, builder.mul(pieces, piece), size)
        where = (self.word(at.QUEUE, share), kernel, builder.trunc(self.word(at.DIMENSIONS), I32), start, size)
        nothing = (I32(0), WORD(0), WORD(0))  # after no event, and no event is wanted
        self.note(self.call(at.ENQUEUE, I32, *where, self.word(at.LOCAL), *nothing))

    def _set(self, kernel: Any, argument: Any) -> None:
        """Give a kernel an argument."""
        builder = self.builder
        place, kind = builder.trunc(self.word(0, argument), I32), self.word(1, argument)
        is_value = builder.or_(self.equal(kind, at.INTEGER), self.equal(kind, at.FLOAT))
        with builder.if_else(is_value) as (value, pointer):
            with value:
                self.note(self.call(at.SET_VALUE, I32, kernel, place, WORD(8), self.place(2, argument)))
            with pointer:
                self.note(self.call(at.SET_POINTER, I32, kernel, place, self.word(2, argument)))


class _Launch(_Writer):
    """``PyObject *launch(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)``, a function of
    Python's: a ``launch.LaunchFunction`` for one size. ``self`` is a bytearray, its content the words."""

    def __init__(self) -> None:
        super().__init__("launch", WORD, [POINTER, POINTER, WORD, WORD])
        self.own, self.args, self.positional, self.names = self.function.args
        self.words = self.builder.inttoptr(self.word(at.CONTENT, self.own), POINTER)
        self.otherwise = self.function.append_basic_block("otherwise")

    def only_if(self, condition: Any) -> None:
        """Go on if ``condition`` holds; else let Python do it."""
        after = self.function.append_basic_block()
        self.builder.cbranch(condition, after, self.otherwise)
        self.builder.position_at_end(after)

    def object(self, number: Any, base: Any) -> Any:
        """A word that is the address of an object."""
        return self.builder.inttoptr(self.word(number, base), POINTER)

    def write(self) -> None:
        """The whole function."""
        builder = self.builder
        self.only_if(self.equal(self.word(0, self.object(at.FORKED, self.words)), 0))
        self.only_if(self.equal(self.word(at.BUSY), 0))
        self._refuse_other_signatures()
        self.only_if(self.equal(self.word(1, self.args), self.word(at.SIZE_OBJECT)))
        given = self.object(0, self.args)
        self.only_if(self.equal(self.word(at.TYPE, given), self.word(at.TUPLE)))
        self.only_if(self.equal(self.word(at.LENGTH, given), self.word(at.GIVEN)))
        self.set(at.BUSY, 1)  # from here on, as a conversion may run Python
        self._take(self.place(at.ITEMS, given))
        self._run(self._is_alone())
        self.set(at.BUSY, 0)
        with builder.if_then(builder.not_(self.equal(self.word(at.STATUS), 0))):
            self._leave_to(at.FAILED)
        nothing = self.object(at.NONE, self.words)
        self.set(0, builder.add(self.word(0, nothing), WORD(1)), nothing)  # one more reference to None
        builder.ret(self.word(at.NONE))
        builder.position_at_end(self.otherwise)
        self._leave_to(at.OTHERWISE)

    def _leave_to(self, function: int) -> None:
        """Return what a function of Python's does, given the same."""
        rest = (self.args, self.positional, self.names)
        self.builder.ret(self.call(at.CALL, WORD, self.word(function), *rest))

    def _refuse_other_signatures(self) -> None:
        """Two arguments, and perhaps ``alone``."""
        builder = self.builder
        two, named = self.equal(self.positional, 2), builder.icmp_unsigned("!=", self.names, WORD(0))
        self.only_if(builder.or_(two, builder.and_(self.equal(self.positional, 3), builder.not_(named))))
        with builder.if_then(named):
            names = builder.inttoptr(self.names, POINTER)
            self.only_if(self.equal(self.word(at.LENGTH, names), 1))
            self.only_if(self.equal(self.word(at.ITEMS, names), self.word(at.NAME)))

    def _take(self, items: Any) -> None:
        """Put what is given into the arguments."""
        builder = self.builder
        taken = cgutils.alloca_once_value(builder, WORD(0))
        with cgutils.for_range(builder, self.word(at.COUNT)) as loop:
            argument = self.place(builder.add(WORD(at.ARGUMENTS), self.times(loop.index, at.ARGUMENT)))
            kind = self.word(1, argument)
            with builder.if_then(builder.icmp_unsigned("!=", kind, WORD(at.OWN))):
                number = builder.load(taken)
                builder.store(builder.add(number, WORD(1)), taken)
                item = self.word(number, items)
                with builder.if_else(self.equal(kind, at.FLOAT)) as (a_float, an_integer):
                    with a_float:
                        bits = builder.bitcast(self.call(at.AS_FLOAT, DOUBLE, item), WORD)
                        minus_one = self.equal(bits, MINUS_ONE)  # as bits: a constant would be outside the code
                        self._checked(minus_one, ir.Constant(ir.IntType(1), 0))
                        self.set(2, bits, argument)
                    with an_integer:
                        value = self.call(at.AS_INTEGER, WORD, item)
                        self._checked(builder.icmp_signed("<", value, WORD(0)), self.equal(kind, at.POINTER))
                        self.set(2, value, argument)

    def _checked(self, suspicious: Any, wrong: Any) -> None:
        """Let Python do it if a conversion has failed, as one may have whose result is ``suspicious``, or if such a
        result is ``wrong``."""
        builder = self.builder
        with builder.if_then(suspicious):
            failed, after = (self.function.append_basic_block() for _ in range(2))
            fine = self.equal(self.call(at.OCCURRED, WORD), 0)
            builder.cbranch(builder.and_(fine, builder.not_(wrong)), after, failed)
            builder.position_at_end(failed)
            self.call(at.CLEAR, VOID)
            self.set(at.BUSY, 0)
            builder.branch(self.otherwise)
            builder.position_at_end(after)

    def _is_alone(self) -> Any:
        """Whether the third argument is True."""
        builder = self.builder
        found = cgutils.alloca_once_value(builder, WORD(0))
        named = builder.icmp_unsigned("!=", self.names, WORD(0))
        more = builder.or_(named, builder.icmp_unsigned(">", self.positional, WORD(2)))
        with builder.if_then(more):
            builder.store(builder.zext(self.equal(self.word(2, self.args), self.word(at.TRUE)), WORD), found)
        return builder.load(found)

    def _run(self, alone: Any) -> None:
        """Run the kernel; other threads of Python's may go on meanwhile, if it is large."""
        builder = self.builder
        self.set(at.ALONE, alone)
        with builder.if_else(self.equal(alone, 1)) as (here, by_all):
            with here:
                self.call(at.SHARE_OUT, VOID, self.words)
            with by_all:
                state = self.call(at.SAVE, WORD)
                self.call(at.PARALLEL, VOID, self.word(at.SHARE_OUT), self.words, I32(0), I32(0))
                self.call(at.RESTORE, VOID, state)


def _machine_code(kind: Callable[[], Any]) -> bytes:
    writer = kind()
    writer.write()
    code: bytes = writer.machine_code()
    return code


@functools.cache
def share_out() -> bytes:
    """What each thread of a team runs."""
    return _machine_code(_ShareOut)


@functools.cache
def launch() -> bytes:
    """What Python calls."""
    return _machine_code(_Launch)
