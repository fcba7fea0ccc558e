"""SYCL devices: finding one by its dpctl filter string, its traits, and its in-order queue."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from typing import Any

from runtime.errors import DeviceNotFoundError, LaunchError
from runtime.libraries import import_dpctl, syclinterface

logger = logging.getLogger(__name__)

AUTO = "auto"
CPU_FILTER = "cpu"
# dpctl does not report CL_DEVICE_MAX_PARAMETER_SIZE. 1024 bytes is the least OpenCL and Level Zero allow; Intel's CPU
# driver accepts more.
MAX_PARAMETER_SIZE, MAX_PARAMETER_SIZE_CPU = 1024, 3840


@dataclasses.dataclass(frozen=True)
class Traits:
    """What the lowering wants to know of a device."""

    max_work_group_size: int
    sub_group_sizes: tuple[int, ...]
    compute_units: int
    local_memory_size: int
    has_fp64: bool
    shared_system_usm: bool
    is_cpu: bool
    max_parameter_size: int


@dataclasses.dataclass(frozen=True, eq=False)
class Device:
    """A SYCL device with the in-order queue that all kernels of this process use on it."""

    filter: str
    name: str
    backend: str
    driver_version: str
    queue: Any
    queue_address: int
    pid: int
    traits: Traits

    def wait(self) -> None:
        """Block, without holding the GIL, until everything submitted has finished."""
        self.check_process()
        syclinterface().DPCTLQueue_Wait(self.queue_address)

    def check_process(self) -> None:
        """Raise if this is a forked child of the process the queue belongs to: its threads do not exist here."""
        if os.getpid() != self.pid:
            raise LaunchError(_FORKED)


_FORKED = (
    "kernels cannot run in a process that was forked after its parent had built kernels: the driver's threads exist in "
    "the parent only, and waiting for them would never end. Use the `spawn` or `forkserver` start method of "
    "multiprocessing."
)


class _State:
    """The devices this process has opened."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.devices: dict[str, Device] = {}
        self.used = False
        self.inherited: list[Device] = []

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        if self.used:
            return
        # A device that was only looked at can be opened again. The parent's queue is kept from being released here:
        # that would talk to the driver from a process it does not know.
        self.inherited.extend(self.devices.values())
        self.devices.clear()


_state = _State()
os.register_at_fork(after_in_child=_state.after_fork)


def mark_used() -> None:
    """Note that the driver has threads from now on, so that forked children of this process cannot use it."""
    _state.used = True


def available() -> list[tuple[str, str]]:
    """(filter string, name) of every device that dpctl sees."""
    return [(device.filter_string, device.name) for device in import_dpctl().get_devices()]


def resolve(filter: str = AUTO) -> Device:
    """The device named by a dpctl filter string such as "cpu" or "level_zero:gpu:0"; "auto" is the CPU device."""
    wanted = CPU_FILTER if filter == AUTO else filter
    device = _state.devices.get(wanted)
    if device is not None:
        device.check_process()
        return device
    with _state.lock:
        if wanted not in _state.devices:
            _state.devices[wanted] = _open(wanted)
        return _state.devices[wanted]


def timed(device: Device) -> Device:
    """``device`` with a queue of its own whose events tell when kernels started and ended. The context is shared, so
    kernels built for one run on the other. Nothing orders the two queues: wait for one before using the other."""
    key = f"{device.filter} timed"
    with _state.lock:
        if key not in _state.devices:
            queue = import_dpctl().SyclQueue(
                device.queue.sycl_context, device.queue.sycl_device, property=["in_order", "enable_profiling"]
            )
            _state.devices[key] = dataclasses.replace(
                device, filter=key, queue=queue, queue_address=queue.addressof_ref()
            )
        return _state.devices[key]


def _open(wanted: str) -> Device:
    dpctl = import_dpctl()
    try:
        sycl_device = dpctl.SyclDevice(wanted)
    except (ValueError, dpctl.SyclDeviceCreationError) as error:
        raise DeviceNotFoundError(_not_found(wanted)) from error
    for device in _state.devices.values():  # another spelling of a device that is open: one queue keeps the order
        if device.filter == sycl_device.filter_string:
            return device
    try:
        queue = dpctl.SyclQueue(sycl_device, property="in_order")
    except dpctl.SyclQueueCreationError as error:
        raise DeviceNotFoundError(f"{_not_found(wanted)} It exists, but no queue can be made: {error}") from error
    logger.debug("opened %s (%s)", sycl_device.filter_string, sycl_device.name)
    return Device(
        filter=sycl_device.filter_string,
        name=sycl_device.name.strip(),
        backend=sycl_device.backend.name,
        driver_version=sycl_device.driver_version,
        queue=queue,
        queue_address=queue.addressof_ref(),
        pid=os.getpid(),
        traits=_traits(sycl_device),
    )


def _traits(sycl_device: Any) -> Traits:
    return Traits(
        max_work_group_size=sycl_device.max_work_group_size,
        sub_group_sizes=tuple(sycl_device.sub_group_sizes),
        compute_units=sycl_device.max_compute_units,
        local_memory_size=sycl_device.local_mem_size,
        has_fp64=sycl_device.has_aspect_fp64,
        shared_system_usm=sycl_device.has_aspect_usm_system_allocations,
        is_cpu=sycl_device.is_cpu,
        max_parameter_size=MAX_PARAMETER_SIZE_CPU if sycl_device.is_cpu else MAX_PARAMETER_SIZE,
    )


def _not_found(wanted: str) -> str:
    present = ", ".join(f"{text} ({name.strip()})" for text, name in available()) or "none"
    return (
        f"no SYCL device fits {wanted!r}. Present: {present}. Pass one of these as the option `device` "
        "(or XPU_ATEN_DEVICE), or `auto`; a missing GPU needs its driver, a missing CPU `intel-opencl-rt`."
    )
