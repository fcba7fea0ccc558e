"""Running a launch plan: its kernels built and bound, its text executed."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowering.artifacts import KernelSource

from .compiler import CompiledKernel
from .devices import Device
from .launcher import build_kernel
from .plan import LaunchPlan, namespace
from .staging import Staging, staged_text


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledGraph:
    """A graph ready to run. ``run`` takes its inputs as one list, which it empties (the boxed convention of
    AOTAutograd)."""

    text: str
    device: Device | None
    run: Callable[[list[Any]], tuple[Any, ...]]

    def __str__(self) -> str:
        return f"linked for {self.device.name if self.device is not None else 'no device'}"


def link(plan: LaunchPlan, compiled: Sequence[CompiledKernel], device: Device | None, name: str) -> CompiledGraph:
    """Build each launch's kernel on ``device`` (None where there is nothing to launch) and make the plan callable."""
    kernels = [(kernel.source, binary) for kernel, binary in zip(plan.kernels, compiled, strict=True)]
    return link_text(plan.text, plan.constants, kernels, device, name)


def link_text(
    text: str,
    constants: Mapping[str, Any],
    kernels: Sequence[tuple[KernelSource, CompiledKernel]],
    device: Device | None,
    name: str,
) -> CompiledGraph:
    """The same from a plan's text; ``kernels`` has the source and the binary of each launch, in order."""
    launches = []
    for source, binary in kernels:
        assert device is not None
        launches.append(build_kernel(device, binary, source).bind().launch)
    scope = namespace(constants, launches, device.wait if device is not None else lambda: None)
    staging = None if device is None or device.traits.shared_system_usm else Staging(device)
    if staging is not None:
        text = staged_text(text)
        launches = [staging.launching(launch, source) for launch, (source, _) in zip(launches, kernels, strict=True)]
        scope = {**namespace(constants, launches, staging.wait), "address": staging.address}
    filename = f"<xpu_aten plan {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)  # for tracebacks
    exec(compile(text, filename, "exec"), scope)
    call: Any = scope["call"] if staging is None else staging.starting(scope["call"])
    call._boxed_call = True  # AOTAutograd's mark for this convention
    return CompiledGraph(text, device, call)
