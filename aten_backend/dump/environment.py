"""What a compile ran in, as text."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys

from aten_backend.installed import versions
from aten_backend.options import Options
from runtime.devices import Device

PACKAGES = (
    *("torch", "xpu_aten", "dpctl", "numba-dpex", "numba", "llvmlite", "numpy", "dpnp", "dpcpp-llvm-spirv"),
    *("intel-opencl-rt", "intel-sycl-rt", "transformers"),
)
PREFIXES = ("XPU_ATEN_", "TORCH", "PYTORCH_", "OMP_", "MKL_", "KMP_", "SYCL_", "ONEAPI_", "OCL_", "UR_", "PI_")
"""Of environment variables, those that change what happens; the rest is nobody's business."""


def device_text(device: Device | None) -> str:
    """The device and what schedules need to know of it."""
    if device is None:
        return ""
    lines = [f"{'device':24} {device.filter}: {device.name} (driver {device.driver_version})"]
    lines += [f"{name:24} {value}" for name, value in dataclasses.asdict(device.traits).items()]
    return "\n".join(lines) + "\n"


def environment() -> str:
    """Versions, machine and environment variables."""
    lines = [f"{name:24} {version or 'not installed'}" for name, version in versions(PACKAGES).items()]
    lines += ["", f"{'platform':24} {platform.platform()}", f"{'processors':24} {os.cpu_count()}"]
    lines += [f"{'command':24} {' '.join(sys.argv)}", ""]
    lines += [*(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(PREFIXES))]
    return "\n".join(lines) + "\n"


def options_text(options: Options) -> str:
    """All options, those that were changed marked."""
    default = Options()
    lines = []
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        mark = "" if value == getattr(default, field.name) else f"  # default: {getattr(default, field.name)!r}"
        lines.append(f"{json.dumps(field.name):20}: {value!r},{mark}")
    return "options = {\n" + "\n".join(f"    {line}" for line in lines) + "\n}\n"
