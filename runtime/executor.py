"""Running a launch plan: its kernels built and bound, its text executed."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowering.artifacts import KernelSource

from .compiler import CompiledKernel
from .devices import Device
from .launch_plan import LaunchPlan, Step, namespace
from .launcher import Kernel, bind_all, build_kernel, have_team
from .staging import Staging, staged_text

Run = Callable[[list[Any]], tuple[Any, ...]]


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledGraph:
    """A graph ready to run. ``run`` takes its inputs as one list, which it empties (the boxed convention of
    AOTAutograd). The rest is what it was made of: ``kernels`` has one entry a launch."""

    name: str
    text: str
    constants: Mapping[str, Any]
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    device: Device | None
    run: Run

    def __str__(self) -> str:
        return f"linked for {self.device.name if self.device is not None else 'no device'}"


def link(plan: LaunchPlan, compiled: Sequence[CompiledKernel], device: Device | None, name: str) -> CompiledGraph:
    """Build each launch's kernel on ``device`` (None where there is nothing to launch) and make the plan callable."""
    kernels = [(kernel.source, binary) for kernel, binary in zip(plan.kernels, compiled, strict=True)]
    return link_text(plan.text, plan.constants, kernels, plan.steps, device, name)


def link_text(
    text: str,
    constants: Mapping[str, Any],
    kernels: Sequence[tuple[KernelSource, CompiledKernel]],
    steps: tuple[Step, ...],
    device: Device | None,
    name: str,
) -> CompiledGraph:
    """The same from a plan's text; ``kernels`` has the source and the binary of each launch, in order."""
    built = []
    for source, binary in kernels:
        assert device is not None
        built.append(build_kernel(device, binary, source))
    run = executable(text, names(constants, built, device), built, device, name)
    return CompiledGraph(name, text, constants, tuple(built), steps, device, run)


def names(constants: Mapping[str, Any], kernels: Sequence[Kernel], device: Device | None) -> dict[str, Any]:
    """The globals of a plan's text that launches ``kernels`` on ``device``."""
    return namespace(constants, [launch.launch for launch in bind_all(kernels)], waiting(kernels, device))


def waiting(kernels: Sequence[Kernel], device: Device | None) -> Callable[[], None]:
    """What a plan does to wait for its kernels: nothing where a team runs them."""
    if device is None or have_team(kernels):
        return lambda: None
    return device.wait


def executable(text: str, scope: dict[str, Any], kernels: Sequence[Kernel], device: Device | None, name: str) -> Run:
    """The function ``call`` that the plan ``text`` defines, with ``scope`` as its globals. On a device with memory of
    its own it works on copies."""
    staging = None if device is None or device.traits.shared_system_usm else Staging(device)
    if staging is not None:
        text, scope = staged_text(text), staging.scope(scope, kernels)
    filename = f"<xpu_aten plan {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)  # for tracebacks
    exec(compile(text, filename, "exec"), scope)
    call: Run = scope["call"] if staging is None else staging.starting(scope["call"])
    if device is not None and kernels and not have_team(kernels):
        call = _settling(call, device.wait)
    call._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd's mark for this convention
    return call


def _settling(call: Run, wait: Callable[[], None]) -> Run:
    """``call``, which leaves no kernel running when it ends in an error: an interrupt may come between a launch and the
    wait for it, and the memory that the kernel uses goes with the frame of ``call``."""

    def run(arguments: list[Any]) -> Any:
        try:
            return call(arguments)
        except BaseException:
            wait()
            raise

    return run
