"""Tensors that kernels cannot address are left to ATen, each op with the reason."""

from __future__ import annotations

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from lowering.classify import classify


def test_tensors_of_another_device_are_refused():
    with FakeTensorMode():
        x = torch.empty(4, device="cuda")
        gm = make_fx(lambda t: torch.sin(t) + 1)(x)
    classes = classify(gm)
    assert not classes.fused
    assert all("cuda tensors" in reason for reason in classes.refused.values())
