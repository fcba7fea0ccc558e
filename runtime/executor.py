"""Running a launch plan: its kernels built and bound, its text executed."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Callable, Sequence
from typing import Any

from .compiler import CompiledKernel
from .devices import Device
from .launcher import build_kernel
from .plan import LaunchPlan, namespace


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledGraph:
    """A graph ready to run. ``run`` takes its inputs as one list, which it empties (the boxed convention of AOTAutograd)."""

    plan: LaunchPlan
    device: Device | None
    run: Callable[[list[Any]], tuple[Any, ...]]


def link(plan: LaunchPlan, compiled: Sequence[CompiledKernel], device: Device | None, name: str) -> CompiledGraph:
    """Build each launch's kernel on ``device`` (None where there is nothing to launch) and make the plan callable."""
    launches = []
    for kernel, binary in zip(plan.kernels, compiled, strict=True):
        assert device is not None
        launches.append(build_kernel(device, binary, kernel.source).bind().launch)
    scope = namespace(plan, launches, device.wait if device is not None else lambda: None)
    filename = f"<xpu_aten plan {name}>"
    linecache.cache[filename] = (len(plan.text), None, plan.text.splitlines(keepends=True), filename)  # for tracebacks
    exec(compile(plan.text, filename, "exec"), scope)  # noqa: S102
    call = scope["call"]
    call._boxed_call = True  # AOTAutograd's mark for this convention
    return CompiledGraph(plan, device, call)
