"""The interpreter against the device, on every kernel that is kept as text."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

from aten_backend.backend import xpu_aten
from golden.cases import cases
from support import interpret

IRS = ("aten", "prims")
STEPS = 16
"""Steps of the type by which the device's mathematical functions and the order of its group sums may be off."""


@pytest.mark.device
@pytest.mark.parametrize("dynamic", (False, True), ids=("static", "dynamic"))
@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("name", cases())
def test_interpreter_agrees_with_the_device(name, ir, dynamic):
    function, args = cases()[name]
    interpreted = tree_leaves(interpret(function, *args, ir=ir, dynamic=dynamic))
    torch._dynamo.reset()
    ran = tree_leaves(torch.compile(function, backend=xpu_aten, options={"ir": ir}, dynamic=dynamic)(*args))
    assert len(interpreted) == len(ran)
    for ours, device in zip(interpreted, ran, strict=True):
        exact = not device.is_floating_point()
        eps = 0.0 if exact else STEPS * torch.finfo(device.dtype).eps
        scale = 0.0 if exact else float(device.abs().max())
        torch.testing.assert_close(ours, device, rtol=eps, atol=eps * scale)
