"""Devices with memory of their own: kernels get copies of the host's tensors.

A plan's text is the same for every device. Here each address in it becomes that of a copy on the device, made when a
kernel first needs it; what kernels wrote is copied back when the plan waits for them, which it does before anything on
the host reads or writes that memory. So the copies live from the first launch to the next wait.
"""

from __future__ import annotations

import ast
import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from lowering.artifacts import KernelSource

from .devices import Device
from .launcher import Kernel
from .libraries import import_dpctl

_ADDRESS = re.compile(r"(\w+)\.data_ptr\(\)")


def staged_text(text: str) -> str:
    """A plan's text with the addresses of copies."""
    return _ADDRESS.sub(r"address(\1)", text)


def written(source: KernelSource) -> tuple[int, ...]:
    """Which of the arguments that a launch is given the kernel writes to."""
    stores = {
        n.value.id
        for n in ast.walk(ast.parse(source.text))
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)
    }
    given = [p.name for p in source.params if p.kind not in ("local", "counter")]
    return tuple(i for i, name in enumerate(given) if name in stores)


class _Copy:
    """A storage's copy in the device's memory."""

    def __init__(self, host: int, size: int, device: Device) -> None:
        self.host = (ctypes.c_char * size).from_address(host)
        self.memory = import_dpctl().memory.MemoryUSMDevice(max(size, 1), queue=device.queue)
        if size:
            self.memory.copy_from_host(self.host)
        self.start: int = self.memory._pointer

    def holds(self, address: int) -> bool:
        """Whether ``address`` lies in the copy."""
        return self.start <= address < self.start + max(len(self.host), 1)

    def give_back(self) -> None:
        """Bring the host up to date."""
        if len(self.host):
            self.memory.copy_to_host(self.host)


class Staging(threading.local):
    """The copies of one plan, apart for each thread that runs it."""

    def __init__(self, device: Device) -> None:  # called in each thread, with the same argument
        self.device = device
        self.copies: dict[int, _Copy] = {}
        self.changed: set[int] = set()

    def forget(self) -> None:
        """Drop every copy, as before a run: the last one may have ended in an error."""
        self.copies.clear()
        self.changed.clear()

    def address(self, tensor: Tensor) -> int:
        """Where the copy of ``tensor`` starts on the device."""
        storage = tensor.untyped_storage()
        host = storage.data_ptr()
        if host not in self.copies:
            self.copies[host] = _Copy(host, storage.nbytes(), self.device)
        return self.copies[host].start + int(tensor.storage_offset()) * tensor.element_size()

    def launching(self, launch: Callable[..., None], source: KernelSource) -> Callable[..., None]:
        """``launch``, and a note of what it changes."""
        places = written(source)

        def run(arguments: Sequence[Any], size: tuple[int, ...], alone: bool = False) -> None:
            launch(arguments, size, alone)
            addresses = [arguments[i] for i in places]
            self.changed |= {h for h, copy in self.copies.items() if any(map(copy.holds, addresses))}

        return run

    def waiting(self, wait: Callable[[], None]) -> Callable[[], None]:
        """``wait``, and bringing back what kernels have written."""

        def run() -> None:
            wait()
            for host in self.changed:
                self.copies[host].give_back()
            self.forget()

        return run

    def scope(self, scope: dict[str, Any], kernels: Sequence[Kernel]) -> dict[str, Any]:
        """The globals of a plan's text that launches ``kernels``, for copies."""
        launches = {f"k{i}": self.launching(scope[f"k{i}"], kernel.source) for i, kernel in enumerate(kernels)}
        return {**scope, **launches, "wait": self.waiting(scope["wait"]), "address": self.address}

    def starting(self, call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        """``call`` with no copies left over from a run before."""

        def run(arguments: list[Any]) -> Any:
            self.forget()
            return call(arguments)

        return run
