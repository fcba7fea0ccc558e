"""The backends by name, and how each is made to start cold."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

from aten_backend.backend import xpu_aten
from aten_backend.options import Options
from aten_backend.pipeline import compiler_for
from runtime.cache import SpirvCache

EAGER, AGAIN, OURS, TWIN, INDUCTOR = "eager", "eager again", "xpu_aten", "xpu_inductor", "inductor"
DEFAULT = (EAGER, OURS, INDUCTOR)
IRS = ("aten", "prims")


class BackendError(Exception):
    """A name that is no backend."""


@dataclasses.dataclass(frozen=True)
class Backend:
    """What ``torch.compile`` is given, and the name in tables: ours may name its IR, as in ``xpu_aten:prims``."""

    name: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def is_eager(self) -> bool:
        return self.name in (EAGER, AGAIN)

    @property
    def is_ours(self) -> bool:
        return self.name.partition(":")[0] == OURS

    @property
    def is_everywhere(self) -> bool:
        """Whether another process knows the name too: what a script has registered, only that script knows."""
        if self.is_eager or self.is_ours or self.name == TWIN:
            return True
        installed = importlib.metadata.entry_points(group="torch_dynamo_backends")
        return self.name in installed.names or torch._dynamo.lookup_backend(self.name).__module__.startswith("torch.")

    def compile(self, fn: Callable[..., Any], dynamic: bool | None) -> Callable[..., Any]:
        """``fn`` through torch.compile; itself for eager."""
        if self.is_eager:
            return fn
        # The functions, not their names: ours need not be installed to be compared.
        backend: Any = xpu_aten if self.is_ours else _twin().xpu_inductor if self.name == TWIN else self.name
        return torch.compile(fn, backend=backend, dynamic=dynamic, options=self.options or None)


def parse(names: list[str] | tuple[str, ...], again: bool = True) -> list[Backend]:
    """Backends by their names. ``eager`` stands for two: eager against itself is the noise floor."""
    found: list[Backend] = []
    for name in dict.fromkeys(names):
        base, colon, ir = name.partition(":")
        if colon and (base != OURS or ir not in IRS):
            raise BackendError(f"{name!r} is no backend. Of ours there are {', '.join(f'{OURS}:{ir}' for ir in IRS)}.")
        if base not in (EAGER, OURS, TWIN) and base not in torch._dynamo.list_backends(exclude_tags=()):
            known = ", ".join((EAGER, OURS, TWIN, *torch._dynamo.list_backends()))
            raise BackendError(f"torch knows no backend {name!r}. Known: {known}.")
        found.append(Backend(name, {"ir": ir} if ir else {}))
        if base == EAGER and again:
            found.append(Backend(AGAIN))
    return found


@contextlib.contextmanager
def caches_in(folder: Path) -> Iterator[None]:
    """Every compiler's cache in ``folder``, and nothing remembered in memory: an empty folder makes compiles cold."""
    names = {"TORCHINDUCTOR_CACHE_DIR": "torch", "TRITON_CACHE_DIR": "triton"}
    old = {name: os.environ.get(name) for name in names}
    os.environ.update({name: str(folder / part) for name, part in names.items()})
    try:
        # not by XPU_ATEN_CACHE_DIR: compilers with another folder are other processes, which would have to start first
        compiler_for(Options.parse()).start_over(SpirvCache(folder / "xpu_aten"))
        if "torch._inductor" in sys.modules:
            inductor_code().clear_memory_caches()
        yield
    finally:
        for name, value in old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        options = Options.parse()
        compiler_for(options).start_over(SpirvCache(options.cache_dir) if options.cache else None)


@contextlib.contextmanager
def counted(backend: Backend) -> Iterator[dict[str, int]]:
    """Counts of what ``backend`` compiles meanwhile: filled at the end. Names are those of our counters."""
    counts: dict[str, int] = {}
    counters["xpu_aten"].clear()
    if backend.name in (INDUCTOR, TWIN):
        with inductor_code().captured_code() as code:
            yield counts
        found = inductor_code().count(code)
        counts.update(kernels=found.kernels, launches=found.calls, loops=found.loops, extern_calls=found.extern_calls)
        return
    yield counts
    mine = counters["xpu_aten"]
    if mine:
        counts.update(kernels=mine["sycl_kernels"], launches=mine["kernel_calls"], extern_calls=mine["extern_calls"],
                      fallback_nodes=mine["fallback_nodes"], second_stages=mine["second_stages"])  # fmt: skip


def _twin() -> Any:
    return importlib.import_module("aten_backend.loop_level.backend")


def inductor_code() -> Any:
    """The module that reads Inductor's code, by name: importing Inductor takes seconds, and most commands do
    without."""
    return importlib.import_module("aten_backend.loop_level.inductor_code")
