"""Devices with memory of their own: the CPU device poses as one."""

from __future__ import annotations

import dataclasses
import threading

import pytest
import torch
import torch.nn.functional as F

from golden.cases import cases
from runtime import devices
from runtime.staging import Staging, staged_text, written
from support import backend, check, lowered

pytestmark = pytest.mark.device

r = torch.randn


@pytest.fixture(autouse=True)
def discrete(monkeypatch):
    """The CPU device, said to see nothing of the host's memory; returns the copies that are made."""
    found = devices.resolve("cpu")
    posing = dataclasses.replace(found, traits=dataclasses.replace(found.traits, shared_system_usm=False))
    monkeypatch.setattr(devices, "resolve", lambda *filters: posing)
    copied: list[int] = []
    address = Staging.address

    def note(self, tensor):
        copied.append(tensor.untyped_storage().nbytes())
        return address(self, tensor)

    monkeypatch.setattr(Staging, "address", note)
    yield copied
    torch._dynamo.reset()  # what was compiled for the posing device


@pytest.mark.parametrize("name", cases())
def test_golden_functions(name, discrete):
    function, args = cases()[name]
    check(function, *args, dynamic=False, fused=False)
    assert discrete


def test_kernels_only_see_copies(discrete):
    seen = []
    x, y = r(40, 30), r(30)

    class Watched(Staging):
        def launching(self, launch, source):
            def run(arguments, size, alone=False):
                seen.extend(arguments)
                launch(arguments, size, alone)

            return super().launching(run, source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runtime.executor.Staging", Watched)
        torch.compile(lambda x, y: (x * y).softmax(1), backend=backend())(x, y)
    assert seen and not {x.data_ptr(), y.data_ptr()} & set(seen)


def test_views_with_offsets_and_holes():
    base = r(50, 60)
    check(lambda x: (x + 1).sum(1), base[3:20, 5:40:3], dynamic=False)
    check(lambda x, y: x * y, base[:, 7], base.t()[2].expand(50, 50)[0], dynamic=False)
    check(lambda x: x * 2, base[:0], dynamic=False)


def test_between_kernels_and_aten():
    check(lambda x, w: F.gelu(x @ w).softmax(1) @ w.t() + 1, r(20, 30), r(30, 40), dynamic=False, rtol=1e-4, atol=1e-4)


def test_training():
    def loss(x, w):
        return F.layer_norm(torch.tanh(x @ w), (16,)).pow(2).mean()

    w = r(8, 16, requires_grad=True)
    x = r(4, 8)
    (wanted,) = torch.autograd.grad(loss(x, w), w)
    (found,) = torch.autograd.grad(torch.compile(loss, backend=backend())(x, w), w)
    torch.testing.assert_close(found, wanted)


def test_mutated_inputs_and_scatters():
    def step(x, i, y):
        x.add_(1)
        return x.index_add(0, i, y)

    x, i, y = r(10, 3), torch.tensor([1, 1, 9]), r(3, 3)
    mine = x.clone()
    found = torch.compile(step, backend=backend())(mine, i, y)
    torch.testing.assert_close(found, step(x, i, y))
    torch.testing.assert_close(mine, x)


def test_errors_leave_nothing_behind():
    function = torch.compile(lambda x, i: x[i] * 2, backend=backend())
    x = r(10)
    with pytest.raises(IndexError):
        function(x, torch.tensor([3, 10]))
    torch.testing.assert_close(function(x, torch.tensor([3, 9])), x[[3, 9]] * 2)


def test_threads_have_copies_of_their_own():
    function = torch.compile(lambda x: (x.softmax(1) * 3).sum(0), backend=backend())
    inputs = [r(60, 70) for _ in range(4)]
    function(inputs[0])
    wrong = []

    def work(x):
        for _ in range(20):
            if not torch.allclose(function(x), (x.softmax(1) * 3).sum(0), atol=1e-5):
                wrong.append(1)

    threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_text_and_what_is_written():
    (one,) = lowered(lambda x, y: torch.softmax(x + y, 1), r(8, 9), r(8, 9))
    assert "data_ptr" not in staged_text(one.plan.text)
    assert written(one.plan.kernels[0].source) == (2,)
