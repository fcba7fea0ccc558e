"""What the lowering needs to know of a device, as data."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Traits:
    """Properties of a device that schedules depend on.

    ``lanes`` is the work-group size that reduces one row best, ``max_work_group_size`` the most that the device takes,
    ``compute_units`` the number of work-groups that run at once, ``max_kernel_arguments`` a bound on the buffers of a
    kernel, ``max_group_nodes`` one on the ops in it (compilers slow down on long kernels), ``local_memory`` the bytes
    of work-group memory, ``solo_work`` the additions that one work-group makes in the time of a launch.
    """

    lanes: int = 16
    max_work_group_size: int = 4096
    compute_units: int = 2
    max_kernel_arguments: int = 96
    max_group_nodes: int = 256
    local_memory: int = 65536
    solo_work: int = 2**20


GENERIC = Traits()
"""A device to plan for when there is none, as `explain` does."""
