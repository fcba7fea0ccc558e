"""Where a comparison was made: the machine, the versions and the thread counts."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch

from aten_backend import installed

_PACKAGES = ("xpu_aten", "torch", "dpctl", "numba-dpex", "numba", "numpy", "transformers", "intel-opencl-rt")


def machine() -> dict[str, Any]:
    """The processor and the memory."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
    }


def versions() -> dict[str, str]:
    """Of Python, of the packages that matter, and of the C++ compiler that Inductor calls."""
    found = {name: version for name, version in installed.versions(_PACKAGES).items() if version is not None}
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is not None:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
        found["c++"] = done.stdout.partition("\n")[0]
    return found


def threads() -> dict[str, int]:
    """How many threads torch uses, within an operator and between operators."""
    return {"intra_op": torch.get_num_threads(), "inter_op": torch.get_num_interop_threads()}


def busy() -> float:
    """How many other processes want a core, in the last minute: timings are noisy when it is not near zero."""
    return os.getloadavg()[0]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
