"""What a plan that ends in an error leaves behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runtime.executor import executable


def test_an_interrupt_leaves_no_kernel_running():
    waits: list[str] = []
    device: Any = SimpleNamespace(traits=SimpleNamespace(shared_system_usm=True), wait=lambda: waits.append("wait"))

    def interrupted() -> None:
        raise KeyboardInterrupt

    kernels: list[Any] = [SimpleNamespace(team=None)]
    run = executable("def call(args):\n    k0()\n    return ()\n", {"k0": interrupted}, kernels, device, "interrupted")
    with pytest.raises(KeyboardInterrupt):
        run([])
    assert waits == ["wait"]
