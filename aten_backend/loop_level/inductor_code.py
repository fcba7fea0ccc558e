"""What Inductor generates: its wrappers while they are made, and the kernels, loops and library calls in them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator
from unittest import mock

from torch._inductor import utils
from torch._inductor.graph import GraphLowering

_DEFINITION = re.compile(r"^(\w+) = (?:async_compile\.(?:cpp_pybinding|cpp|triton)|kernels\.define)\(", re.MULTILINE)
_EXTERN = re.compile(
    r"^ +(?:[\w, ]+ = )?(?:extern_kernels|torch\.ops|aten|inductor_ops|_quantized)\.[\w.]+\(", re.MULTILINE
)
_KERNEL_TEXT = re.compile(r"^(\w+) = async_compile\.cpp_pybinding\(.*?'''(.*?)'''", re.MULTILINE | re.DOTALL)
_OUR_TEXT = re.compile(r"^(\w+) = kernels\.define\(.*?'''\n(.*?)'''", re.MULTILINE | re.DOTALL)
_LOOP = re.compile(r"\s*for\s*\(int64_t x\d+=")
_WRAPPER_END = "def get_args("


@dataclasses.dataclass(frozen=True)
class InductorCounts:
    """What one run of the generated code consists of."""

    kernels: int
    """Distinct fused kernels."""
    calls: int
    """Calls of fused kernels in the wrappers."""
    loops: int
    """Loop nests that those calls run: a fused C++ kernel may have several, one after the other."""
    extern_calls: int
    """Calls of ATen and of libraries."""


@contextlib.contextmanager
def captured_code() -> Iterator[list[str]]:
    """The source of each wrapper that Inductor generates meanwhile, backward graphs included."""
    code: list[str] = []
    with mock.patch.object(GraphLowering, "save_output_code", code.append):
        yield code


def clear_memory_caches() -> None:
    """Forget in this process what Inductor compiled, so that the next compile starts from the cache folder."""
    utils.clear_caches()


def kernel_texts(code: Iterable[str]) -> list[str]:
    """The texts of this project's kernels in ``code``."""
    return [text for wrapper in dict.fromkeys(code) for text in our_kernels(wrapper).values()]


def our_kernels(text: str) -> dict[str, str]:
    """This project's kernels of a wrapper, by name."""
    return dict(_OUR_TEXT.findall(text))


def count(code: Iterable[str]) -> InductorCounts:
    """Count over wrappers. A wrapper that was captured twice (generated, then loaded) counts once."""
    each = [_count_one(text) for text in dict.fromkeys(code)]
    return InductorCounts(
        sum(one.kernels for one in each),
        sum(one.calls for one in each),
        sum(one.loops for one in each),
        sum(one.extern_calls for one in each),
    )


def cpp_kernels(text: str) -> dict[str, str]:
    """The C++ kernels of a wrapper, by name."""
    return dict(_KERNEL_TEXT.findall(text))


def _count_one(text: str) -> InductorCounts:
    names = _DEFINITION.findall(text)
    body = text[text.rfind("async_compile.wait(") :].partition(_WRAPPER_END)[0]
    # Triton kernels are called by their method `run`.
    calls = {name: len(re.findall(rf"^ +{name}(?:\.run)?\(", body, re.MULTILINE)) for name in names}
    loops = {name: _outer_loops(kernel) for name, kernel in _KERNEL_TEXT.findall(text)}
    nests = sum(count * loops.get(name, 1) for name, count in calls.items())
    return InductorCounts(len(names), sum(calls.values()), nests, len(_EXTERN.findall(body)))


def _outer_loops(kernel: str) -> int:
    """Loops over the iteration space that are inside no other such loop."""
    found = depth = 0
    outer: int | None = None
    for line in kernel.splitlines():
        if outer is None and _LOOP.match(line):
            found += 1
            outer = depth
        depth += line.count("{") - line.count("}")
        if outer is not None and depth <= outer and "}" in line:
            outer = None
    return found
