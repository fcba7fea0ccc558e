"""A launch plan run without a device: its text as it is, its kernels by the interpreter.

Where a device is given addresses, the interpreter is given tensors, so that it knows where each memory ends. Memory
that the plan allocates starts as not written, and what a plan hands to ATen or returns must be written as a whole.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from lowering.artifacts import KernelSource
from lowering.interpret import Memory, Pointer, UninitialisedReadError, host_values, run_kernel

from .launch_plan import LaunchPlan, namespace


class _Memories:
    """The memory behind each tensor that kernels were given, by storage and element type."""

    def __init__(self) -> None:
        self._fresh: dict[int, Any] = {}
        self._known: dict[tuple[int, torch.dtype], tuple[Any, Memory]] = {}
        self._written: list[tuple[str, torch.Tensor, Memory]] = []

    def empty_strided(self, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """torch's, noting that nothing is written there yet."""
        tensor = torch.empty_strided(shape, strides, dtype=dtype)
        self._fresh[tensor.untyped_storage()._cdata] = weakref.ref(tensor)
        return tensor

    def pointer(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Pointer]:
        """``tensor`` and where its first element is."""
        storage = tensor.untyped_storage()
        key = (storage._cdata, tensor.dtype)
        alive, memory = self._known.get(key, (lambda: None, None))
        if memory is None or alive() is None:
            fresh = self._fresh.pop(storage._cdata, lambda: None)()
            memory = Memory(host_values(tensor), initialised=fresh is None)
            self._known[key] = (weakref.ref(tensor if fresh is None else fresh), memory)
        return tensor, Pointer(memory, int(tensor.storage_offset()))

    def launcher(self, source: KernelSource) -> Callable[..., None]:
        """What a plan calls to launch the kernel."""

        def launch(args: Sequence[Any], size: Sequence[int], alone: bool = False) -> None:
            run_kernel(source, [a[1] if isinstance(a, tuple) else a for a in args], size)
            for tensor, pointer in (a for a in args if isinstance(a, tuple)):
                if pointer.memory.initialised is not None:
                    self._written.append((source.name, tensor, pointer.memory))

        return launch

    def wait(self) -> None:
        """Refuse results of which an element was not written."""
        for kernel, tensor, memory in self._written:
            assert memory.initialised is not None
            flags = torch.from_numpy(memory.initialised)
            seen = flags.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            if not bool(seen.all()):
                place = tuple(int(p) for p in np.argwhere(~seen.numpy())[0])
                rule = f"element {place} of a result of shape {tuple(tensor.shape)} is never written"
                raise UninitialisedReadError(kernel, 1, "the whole kernel", rule)
        self._written.clear()


_ADDRESS = re.compile(r"\b(\w+)\.data_ptr\(\)")
_INLINE = re.compile(r"\bout=(?:empty_strided|allocate)\(")


def interpreted(plan: LaunchPlan) -> Callable[[list[Any]], tuple[Any, ...]]:
    """``plan`` as a function of its inputs as one list, which it empties. Raises lowering.interpret's KernelFault."""
    memories = _Memories()
    scope = namespace(plan.constants, [memories.launcher(k.source) for k in plan.kernels], memories.wait)
    scope |= {"pointer": memories.pointer, "plain": scope["empty_strided"]}
    scope |= dict.fromkeys(("empty_strided", "allocate"), memories.empty_strided)
    text = _INLINE.sub("out=plain(", _ADDRESS.sub(r"pointer(\1)", plan.text))  # ATen writes those itself
    exec(compile(text, "<xpu_aten plan, interpreted>", "exec"), scope)
    call: Callable[[list[Any]], tuple[Any, ...]] = scope["call"]
    return call
