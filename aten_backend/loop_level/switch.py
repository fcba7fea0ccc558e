"""Which of Inductor's code generators a compile uses: stock Inductor's, or this project's where it was asked for.

Inductor keeps one code generator a device. Here the entry of the tensors' device answers by the context that asks, so
that compiles of both kinds may run side by side in one process.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from torch._inductor.codegen import common
from torch._inductor.codegen.common import DeviceCodegen

from aten_backend.options import Options
from aten_backend.pipeline import traits_of
from lowering.target import Traits
from runtime import devices

DEVICE = "cpu"
"""The type of the tensors that kernels address."""

NAME = "xpu_inductor"

_active: ContextVar[Options | None] = ContextVar(NAME, default=None)


def chosen_options() -> Options:
    """The options of the compile under way in this context; those of the environment outside of one."""
    return _active.get() or Options.parse()


def device_traits() -> Traits:
    """What schedules need to know of the device that this context compiles for."""
    return traits_of(devices.resolve(chosen_options().device))


class ByContext(DeviceCodegen):
    """The entry of a device: ``ours`` while this context compiles for this project, else ``stock``, the very object."""

    def __init__(self, stock: DeviceCodegen, ours: DeviceCodegen) -> None:
        self.stock, self.ours = stock, ours

    def _current(self) -> DeviceCodegen:
        return self.stock if _active.get() is None else self.ours

    scheduling = property(lambda self: self._current().scheduling)
    wrapper_codegen = property(lambda self: self._current().wrapper_codegen)
    cpp_wrapper_codegen = property(lambda self: self._current().cpp_wrapper_codegen)
    fx_wrapper_codegen = property(lambda self: self._current().fx_wrapper_codegen)


_lock = threading.Lock()


def register(scheduling: Callable[..., Any], wrapper: Any) -> None:
    """Make the device's entry answer by context. The first call counts."""
    with _lock:
        common.init_backend_registration()
        stock = common.device_codegens[DEVICE]
        if not isinstance(stock, ByContext):
            common.register_backend_for_device(NAME, scheduling, wrapper)
            common.device_codegens[DEVICE] = ByContext(stock, common.device_codegens[NAME])


@contextlib.contextmanager
def compiling(options: Options) -> Iterator[None]:
    """This context compiles for this project."""
    token = _active.set(options)
    try:
        yield
    finally:
        _active.reset(token)
