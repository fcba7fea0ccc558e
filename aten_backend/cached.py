"""Compiled graphs as torch's AOTAutograd cache keeps them: a later process neither traces nor compiles.

What is kept is the launch plan's text, its constants, and the kernels' SPIR-V. The key is torch's own (graph, shapes,
guards, versions, settings) with a tag for everything of ours that changes the result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.aot_autograd_result import OutputCode  # type: ignore[attr-defined]
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch.autograd import profiler

from aten_backend.options import Options
from lowering.artifacts import KernelSource
from lowering.passes import onednn_linear
from runtime import devices
from runtime.compiler import CompiledKernel
from runtime.executor import CompiledGraph, Run, link_text
from runtime.launch_plan import Step
from runtime.profile import annotated

_PACKAGES = ("lowering", "runtime", "aten_backend")


@dataclasses.dataclass
class CachedGraph(OutputCode):
    """A compiled graph that can be written to disk. Called with its inputs as one list, which it empties.

    ``graph`` is absent in what comes from disk until ``post_compile`` links it again. ``counts`` is what the graph
    adds to torch's counters. ``complete`` is False where something was left to ATen that might compile next time.
    """

    text: str
    constants: dict[str, Any]
    kernels: tuple[tuple[KernelSource, CompiledKernel], ...]
    steps: tuple[Step, ...]
    device: str
    counts: dict[str, int]
    complete: bool
    graph: CompiledGraph | None = None
    annotated: Run | None = None
    """The same for torch.profiler, made when that is first on."""

    def __post_init__(self) -> None:
        self._boxed_call = True  # on the instance: torch's wrappers copy its attributes, not the class's

    def __call__(self, inputs: Sequence[Any]) -> Any:
        assert self.graph is not None
        if profiler._is_profiler_enabled:
            self.annotated = self.annotated or annotated(self.graph)
            return self.annotated(inputs)  # type: ignore[arg-type]
        return self.graph.run(inputs)  # type: ignore[arg-type]

    def prepare_for_serialization(self) -> None:
        """Leave out what belongs to this process; called on a copy. Raises to torch's cache what cannot be kept."""
        if not self.complete:
            raise BypassAOTAutogradCache("something was left to ATen because it did not compile")
        self.graph = self.annotated = None
        self.constants = {name: _encode(value) for name, value in self.constants.items()}

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:
        """Build the kernels of a graph that came from disk."""
        if self.graph is None:
            self.constants = {name: _decode(value) for name, value in self.constants.items()}
            device = devices.resolve(self.device) if self.kernels else None
            self.graph = link_text(self.text, self.constants, self.kernels, self.steps, device, "cached")
            counters["xpu_aten"].update(self.counts)  # adds: it is a Counter

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Part of torch's interface; there is no Triton here."""


@dataclasses.dataclass(frozen=True)
class _Op:
    """An operator by name: operators themselves cannot be pickled."""

    name: str


def _encode(value: Any) -> Any:
    if isinstance(value, torch._ops.OpOverload):
        return _Op(str(value))
    if isinstance(value, (torch.Tensor, torch.device, torch.dtype, complex, float, int, str)):
        return value
    raise BypassAOTAutogradCache(f"the plan holds a {type(value).__name__}, which is not kept on disk")


def _decode(value: Any) -> Any:
    return functools.reduce(getattr, value.name.split("."), torch.ops) if isinstance(value, _Op) else value


@functools.cache
def _fingerprint() -> str:
    """A hash of this project's own code."""
    root = pathlib.Path(__file__).parent.parent
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def tag(backend: str, options: Options) -> str:
    """Everything of ours that changes what ``backend`` makes of a graph, for keys of torch's caches."""
    device = devices.resolve(options.device)
    return repr(
        (
            backend,
            _fingerprint(),
            options.affects_code(),
            options.fallback,
            device.name,
            device.driver_version,
            device.traits,
            onednn_linear.is_usable(),
        )
    )


def cacheable(compiler: Callable[..., CachedGraph], options: Options) -> Callable[..., Any]:
    """``compiler`` marked as one whose results AOTAutograd's cache can keep, where the user asked for that: the mark
    alone makes torch compute a key."""
    return SerializableAOTDispatchCompiler(CachedGraph, compiler) if options.aot_cache else compiler


@contextlib.contextmanager
def enabled(options: Options, usable: Callable[[], bool]) -> Iterator[None]:
    """Let torch keep what is compiled meanwhile, where the user asked for it, does not watch, and a device is
    ``usable``.

    Backward graphs are compiled with their forward graph then: an entry has both.
    """
    if not options.aot_cache or options.dump_dir is not None or options.verify != "off" or not usable():
        yield
        return
    settings: Any = torch.compiler.config  # a config module, to which `patch` is added at run time
    ours = settings.patch(cache_key_tag=f"{settings.cache_key_tag}{tag('xpu_aten', options)}")
    with ours, functorch_config.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True):
        yield
