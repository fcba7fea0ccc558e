"""Finding out what is wrong with an installation. Nothing here raises: every failure becomes a check with a remedy."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable

import torch

from lowering.artifacts import KernelSource, Param
from runtime import devices, libraries, oneapi
from runtime.compiler import CompiledKernel, KernelCompiler, toolchain_versions
from runtime.launcher import build_kernel

logger = logging.getLogger(__name__)

_NAME = "xpu_aten_doctor"
_KERNEL = KernelSource(
    name=_NAME,
    text=f"def {_NAME}(item, x, y):\n    i = item.get_id(0)\n    y[i] = x[i] * np.float32(2.0) + np.float32(1.0)\n",
    params=(Param("x", "pointer", "float32"), Param("y", "pointer", "float32")),
    ndim=1,
)
_INSTALL_RUNTIME = "pip install dpctl dpcpp-cpp-rt intel-opencl-rt"
_INSTALL_COMPILER = (
    "pip install numba-dpex in a Python 3.9 to 3.11 environment, and name its interpreter with the option "
    "`compiler_python` or XPU_ATEN_COMPILER_PYTHON"
)


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing looked at. ``remedy`` is empty if ``ok``."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


class _Failed(Exception):
    """A check that looked and was not content."""


def _check(name: str, remedy: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except Exception as error:  # whatever goes wrong is the finding
        logger.debug("check %s failed", name, exc_info=True)
        detail = str(error) if isinstance(error, _Failed) else f"{type(error).__name__}: {error}"
        return Check(name, False, detail, remedy)


def _python() -> str:
    return f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"


def _torch() -> str:
    if tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) < (2, 4):
        raise _Failed(torch.__version__)
    return torch.__version__


def _oneapi() -> str:
    folder = libraries.load_sycl_runtime()
    if folder is not None:
        return f"SYCL {'.'.join(map(str, oneapi.sycl_version(folder)))} in {folder}"
    return "provided by the environment"


def _dpctl() -> str:
    dpctl = libraries.import_dpctl()
    libraries.syclinterface()
    return f"{dpctl.__version__} in {dpctl.__path__[0]}"


def _devices() -> str:
    return ", ".join(f"{text} ({name.strip()})" for text, name in devices.available())


def _numba_dpex(python: str) -> str:
    versions = toolchain_versions(python)
    if "numba-dpex" not in versions:
        raise _Failed(f"not installed in {python}" if versions else f"{python} does not run")
    return f"{', '.join(f'{name} {version}' for name, version in versions.items())} ({python})"


def _run(compiled: CompiledKernel) -> str:
    device = devices.resolve()
    x = torch.arange(1000, dtype=torch.float32)
    y = torch.zeros_like(x)
    kernel = build_kernel(device, compiled, _KERNEL)
    kernel.bind().launch((x.data_ptr(), y.data_ptr()), (x.numel(),))
    device.wait()
    if not torch.equal(y, 2 * x + 1):
        raise _Failed(f"wrong numbers from {device.name}: {y[:4].tolist()} for {(2 * x + 1)[:4].tolist()}")
    threads = "by ATen's own threads" if kernel.team is not None else "through SYCL's queue"
    return f"right numbers from {device.name}, on torch's own memory, {threads}"


def diagnose(compiler_python: str | None = None) -> list[Check]:
    """Look at everything the backend needs, in the order in which it needs it. Never raises."""
    compiler = KernelCompiler(compiler_python, workers=1)
    compiled: list[CompiledKernel] = []

    def compile_kernel() -> str:
        compiled.append(compiler.submit(_KERNEL).result())
        return f"{len(compiled[0].spirv)} bytes of SPIR-V"

    def run_kernel() -> str:
        if not compiled:
            raise _Failed("not tried: there is no compiled kernel")
        return _run(compiled[0])

    try:
        return [
            _check("python", "use Python 3.10 or later", _python),
            _check("torch", "pip install --upgrade torch", _torch),
            _check("oneAPI libraries", _INSTALL_RUNTIME, _oneapi),
            _check("dpctl", _INSTALL_RUNTIME, _dpctl),
            _check("devices", "install intel-opencl-rt for the CPU, or the driver of your GPU", _devices),
            _check("numba-dpex", _INSTALL_COMPILER, lambda: _numba_dpex(compiler.python)),
            _check("compile a kernel", _INSTALL_COMPILER, compile_kernel),
            _check("run a kernel", "mend the checks above first; then report this with `xpu-aten doctor`", run_kernel),
        ]
    finally:
        compiler.shutdown()
