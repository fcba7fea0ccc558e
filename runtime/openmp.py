"""Sharing the cores of a CPU device with OpenMP, whose threads ATen and its libraries use.

Kernels on such a device run on TBB's threads. When ATen has finished an op, libgomp's threads spin for some
milliseconds, waiting for the next, and the kernel that follows finds its cores taken. libgomp leaves that off (it spins
100 turns instead of 300 000, ``gomp_throttled_spin_count_var`` in its ``env.c``) while it has more threads than there
are cores. With TBB's there are, but it does not know of these. So it is shown a second team, which never runs again.
"""

from __future__ import annotations

import os
import threading

import torch

_ELEMENTS = 2**17  # ATen takes several threads from 2**15 on
_CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


class _State:
    """The team that this process has parked, if it has."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.parked: threading.Thread | None = None

    def after_fork(self) -> None:
        """The team stays with the parent, and another thread may have held the lock."""
        self.lock, self.parked = threading.Lock(), None


_state = _State()
os.register_at_fork(after_in_child=_state.after_fork)


def stop_spinning() -> None:
    """Once a process: park a team of OpenMP threads. Does nothing where the environment says how threads wait."""
    with _state.lock:
        if (
            _state.parked is not None
            or torch.get_num_threads() == 1
            or any(choice in os.environ for choice in _CHOICES)
        ):
            return
        started = threading.Event()
        _state.parked = threading.Thread(target=_park, args=(started,), name="xpu_aten parked OpenMP team", daemon=True)
        _state.parked.start()
        started.wait()


def _park(started: threading.Event) -> None:
    try:
        torch.zeros(_ELEMENTS).add_(1)  # a parallel region: its team lives as long as this thread does
    finally:
        started.set()
    threading.Event().wait()
