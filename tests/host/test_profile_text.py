"""The marked plan: the same lines, each step's inside its mark."""

from __future__ import annotations

import contextlib
import dataclasses

import torch

from lowering.emit import emit
from lowering.errors import user_line
from lowering.target import GENERIC
from runtime.launch_plan import Step, namespace
from runtime.profile import WAIT, marked, title
from support import lowered


def f(x, w):
    y = torch.relu(x * 2)
    return torch.softmax(y @ w, -1)


def test_steps_have_their_lines():
    (one,) = lowered(f, torch.randn(4, 4), torch.randn(4, 4))
    lines = one.plan.text.splitlines()
    assert [bool(s.launches) for s in one.plan.steps] == [True, False, True]
    for number, step in enumerate(one.plan.steps):
        own = "\n".join(lines[step.first - 1 : step.last])
        assert ("torch.mm(" if number == 1 else "k0((" if number == 0 else "k1((") in own
    assert "relu" in one.plan.steps[0].source and "y @ w" in one.plan.steps[1].source


def test_marks_change_no_line():
    (one,) = lowered(f, torch.randn(4, 4), torch.randn(4, 4))
    text = marked(one.plan.text, one.plan.steps)
    without = [line for line in text.splitlines() if "with around(" not in line]
    assert [line.strip() for line in without] == [line.strip() for line in one.plan.text.splitlines()]
    entered = []

    def around(step):
        entered.append(step)
        return contextlib.nullcontext()

    scope = {**namespace(one.plan.constants, [lambda args, size, alone: None] * 2, lambda: None), "around": around}
    exec(text, scope)
    scope["call"]([torch.randn(4, 4), torch.randn(4, 4)])
    assert entered == [0, WAIT, 1, 2, WAIT]


def test_titles():
    kernel = Step(1, 2, "add_mul_0123456789ab", ("add",), "a/b.py:7: x + y", 1, True)
    assert title(kernel) == "xpu_aten add_mul (a/b.py:7)"
    assert title(Step(1, 2, "aten.mm.default", ("mm",), "", 0, False)) == "xpu_aten aten.mm.default"


def test_every_line_of_a_kernel_that_computes_knows_its_nodes():
    def model(x, w):
        y = torch.nn.functional.layer_norm(x, (64,))
        return torch.softmax(y * w, -1), y.argmax(-1), y.cumsum(-1), y.prod(-1)

    found = lowered(model, torch.randn(8, 64), torch.randn(64)) + lowered(lambda x: x.sum(), torch.randn(2**17))
    found += lowered(lambda x: x.sin() + 1, torch.randn(0, 3))
    for one in found:
        nodes = {n.name: n for n in one.partition.gm.graph.nodes}
        for kernel in one.plan.kernels:
            text = kernel.source.text.splitlines()
            assert len(text) == len(kernel.origins)
            for line, origin in zip(text, kernel.origins, strict=True):
                assert all(user_line(nodes[name]) for name in origin)
                computes = line.strip().startswith(("v", "a", "b")) and " = " in line
                assert bool(origin) or not computes, line


def test_origins_change_neither_name_nor_text():
    (one,) = lowered(lambda x: ((x + 1) * 2).relu(), torch.randn(8))
    (kernel,) = one.plan.kernels
    assert any(s.origin for s in kernel.group.body)
    nameless = tuple(dataclasses.replace(s, origin=()) for s in kernel.group.body)
    phase = dataclasses.replace(kernel.phases[0], group=dataclasses.replace(kernel.group, body=nameless))
    again = emit((phase,), GENERIC.local_memory)
    assert again.source == kernel.source and again == kernel
    assert not any(again.origins)
