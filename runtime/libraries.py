"""Finding and opening the oneAPI runtime, so that ``import dpctl`` works in a process started without help.

dpctl's own search paths do not reach ``<prefix>/lib``, where pip puts the libraries. A library that is already open is
never looked up again, so opening them by full path decides, whatever LD_LIBRARY_PATH says.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import logging
import os
import pathlib
from types import ModuleType

from runtime import oneapi
from runtime.errors import DeviceNotFoundError, ToolchainMissingError

logger = logging.getLogger(__name__)

# In the order of their dependencies. The SYCL runtime itself, whose name carries its version, comes last.
_LIBRARIES = (
    "libintlc.so.5",
    "libirng.so",
    "libimf.so",
    "libsvml.so",
    "libtbb.so.12",
    "libtbbmalloc.so.2",
    "libOpenCL.so.1",
    "libur_loader.so.0",
)
_INSTALL = "Install `dpctl` and `dpcpp-cpp-rt` into this environment, then run `xpu-aten doctor`."


def _configured_environment() -> pathlib.Path | None:
    """The folder of the SYCL runtime that an activated oneAPI installation (setvars.sh) puts on LD_LIBRARY_PATH."""
    roots = [os.environ[name] for name in ("ONEAPI_ROOT", "CMPLR_ROOT") if os.environ.get(name)]
    for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        folder = pathlib.Path(entry)
        if entry and any(folder.is_relative_to(root) for root in roots) and oneapi.sycl_version(folder):
            return folder
    return None


def _environment_suffices(ours: tuple[int, ...]) -> bool:
    folder = _configured_environment()
    if folder is None:
        return False
    theirs = oneapi.sycl_version(folder)
    # same ABI, and nothing missing that the version beside dpctl has
    return not ours or (theirs[0] == ours[0] and theirs >= ours)


def _open_all(folder: pathlib.Path) -> None:
    major = oneapi.sycl_version(folder)[0]
    for name in (*_LIBRARIES, f"libsycl.so.{major}"):
        path = folder / name
        if not path.exists():
            continue
        try:
            ctypes.CDLL(str(path))
        except OSError as error:
            raise ToolchainMissingError(
                f"the oneAPI library {path} cannot be opened: {error}. Reinstall `dpcpp-cpp-rt`."
            ) from error


def _set_opencl_driver(folder: pathlib.Path) -> None:
    """Tell the OpenCL loader about pip's CPU driver, unless the user names one that exists."""
    driver = folder / oneapi.OPENCL_DRIVER
    named = [name for name in os.environ.get("OCL_ICD_FILENAMES", "").split(os.pathsep) if name]
    if driver.exists() and not any(os.path.exists(name) for name in named):
        os.environ["OCL_ICD_FILENAMES"] = os.pathsep.join([*named, str(driver)])


@functools.cache
def load_sycl_runtime() -> pathlib.Path | None:
    """Make the oneAPI libraries loadable; return the folder they come from, None if the environment provides them."""
    folder = oneapi.library_dir()
    if _environment_suffices(oneapi.sycl_version(folder) if folder else ()):
        logger.debug("using the activated oneAPI environment in %s", _configured_environment())
        return None
    if folder is None:
        logger.debug("no oneAPI libraries beside this interpreter; leaving the search to the system")
        return None
    _open_all(folder)
    _set_opencl_driver(folder)
    logger.debug("opened the oneAPI libraries in %s", folder)
    return folder


@functools.cache
def import_dpctl() -> ModuleType:
    """``import dpctl`` and ``dpctl.program``, with the oneAPI runtime made loadable first."""
    folder = load_sycl_runtime()
    try:
        importlib.import_module("dpctl.program")
        dpctl = importlib.import_module("dpctl")
    except ModuleNotFoundError as error:
        raise ToolchainMissingError(f"{error}. {_INSTALL}") from error
    except ImportError as error:
        source = f"opened from {folder}" if folder else "none found beside this interpreter"
        raise ToolchainMissingError(f"dpctl does not load: {error} (oneAPI libraries: {source}). {_INSTALL}") from error
    if not dpctl.get_devices():
        raise DeviceNotFoundError(
            "dpctl loads but finds no SYCL device. For the CPU install `intel-opencl-rt`; for a GPU its driver. "
            f"OCL_ICD_FILENAMES={os.environ.get('OCL_ICD_FILENAMES', '')!r}, "
            f"ONEAPI_DEVICE_SELECTOR={os.environ.get('ONEAPI_DEVICE_SELECTOR', '')!r}."
        )
    return dpctl


@functools.cache
def syclinterface() -> ctypes.CDLL:
    """dpctl's C library with the functions that launches use declared."""
    folder = pathlib.Path(import_dpctl().__path__[0])
    found = sorted(folder.glob("libDPCTLSyclInterface.so*"))
    if not found:
        raise ToolchainMissingError(f"dpctl in {folder} has no libDPCTLSyclInterface. {_INSTALL}")
    library = ctypes.CDLL(str(found[0]))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.DPCTLQueue_SubmitRange.restype = pointer
    library.DPCTLQueue_SubmitRange.argtypes = [pointer, pointer, pointer, pointer, size, pointer, size, pointer, size]
    library.DPCTLQueue_SubmitNDRange.restype = pointer
    library.DPCTLQueue_SubmitNDRange.argtypes = [
        pointer, pointer, pointer, pointer, size, pointer, pointer, size, pointer, size,
    ]  # fmt: skip
    library.DPCTLEvent_Delete.restype = None
    library.DPCTLEvent_Delete.argtypes = [pointer]
    library.DPCTLKernelBundle_HasKernel.restype = ctypes.c_bool
    library.DPCTLKernelBundle_HasKernel.argtypes = [pointer, ctypes.c_char_p]
    library.DPCTLKernelBundle_GetKernel.restype = pointer
    library.DPCTLKernelBundle_GetKernel.argtypes = [pointer, ctypes.c_char_p]
    for moment in ("Submit", "Start", "End"):
        function = getattr(library, f"DPCTLEvent_GetProfilingInfo{moment}")
        function.restype, function.argtypes = size, [pointer]
    library.DPCTLQueue_Wait.restype = None
    library.DPCTLQueue_Wait.argtypes = [pointer]
    return library
