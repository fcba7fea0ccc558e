"""Machine code for a SYCL device: a program loaded through OpenCL, which can be handed to SYCL.

dpctl makes programs from SPIR-V only. SYCL itself takes any OpenCL program (``sycl::make_kernel_bundle``), a function
of its binary interface that is called here by its mangled name, with the types it has in SYCL 7 (oneAPI 2024.2). Where
a library has no such function, or the device is no OpenCL device, kernels are built from SPIR-V.
"""

from __future__ import annotations

import ctypes
import functools
import logging

from runtime import opencl
from runtime.compiler import CompiledKernel
from runtime.devices import Device
from runtime.libraries import syclinterface

logger = logging.getLogger(__name__)

SYCL = "libsycl.so.7"
_CONTEXT = "_ZNK4sycl3_V17context9getNativeEv"
_DEVICE = "_ZNK4sycl3_V16device9getNativeEv"
# shared_ptr<kernel_bundle_impl> make_kernel_bundle(pi_native_handle, const context &, bundle_state, backend)
_BUNDLE = "_ZN4sycl3_V16detail18make_kernel_bundleEmRKNS0_7contextENS0_12bundle_stateENS0_7backendE"
_EXECUTABLE, _OPENCL = 2, 1  # sycl::bundle_state, sycl::backend


@functools.cache
def _sycl() -> ctypes.CDLL | None:
    """SYCL's library if it has the functions used here."""
    try:
        library = ctypes.CDLL(SYCL)
        for name in (_CONTEXT, _DEVICE):
            function = getattr(library, name)
            function.restype, function.argtypes = ctypes.c_uint64, [ctypes.c_void_p]
        bundle = getattr(library, _BUNDLE)
    except (OSError, AttributeError) as error:
        logger.debug("kernels are built from SPIR-V: %s", error)
        return None
    bundle.restype = None
    # a shared_ptr is returned in memory that the caller names first
    bundle.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    return library


@functools.cache
def opencl_target(device: Device) -> opencl.Target | None:
    """``device`` and its queue's context as OpenCL knows them; None if it does not."""
    library = _sycl()
    if library is None or device.backend != "opencl":
        return None
    context = getattr(library, _CONTEXT)(device.queue.sycl_context.addressof_ref())
    return opencl.target(context, getattr(library, _DEVICE)(device.queue.sycl_device.addressof_ref()))


def load_program(device: Device, compiled: CompiledKernel) -> int | None:
    """The handle of an OpenCL program of ``compiled``'s machine code, which lives as long as this process; None if it
    has none for ``device``."""
    if not compiled.native:
        return None
    target = opencl_target(device)
    if target is None or target.identity != compiled.fits:
        logger.debug("%s: no machine code for %s", compiled.name, target)
        return None
    try:
        program = opencl.load_binary(target, compiled.native)
        opencl.release_kernel(opencl.create_kernel(program, compiled.entry))
    except opencl.OpenCLError as error:
        logger.warning("the machine code of kernel %s is refused (%s); building it from SPIR-V", compiled.name, error)
        return None
    return program


def sycl_kernel(device: Device, program: int, entry: str) -> int:
    """The address of a SYCL kernel of an OpenCL program, which lives as long as this process."""
    library = _sycl()
    assert library is not None  # there would be no program
    bundle = (ctypes.c_void_p * 2)()  # a sycl::kernel_bundle is one shared_ptr
    address = ctypes.addressof(bundle)
    context = device.queue.sycl_context.addressof_ref()
    getattr(library, _BUNDLE)(address, program, context, _EXECUTABLE, _OPENCL)
    kernel: int = syclinterface().DPCTLKernelBundle_GetKernel(address, entry.encode())
    return kernel
