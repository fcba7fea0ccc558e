"""The specification refuses artefacts that are broken: each rule is broken once, on purpose."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from aten_backend.pipeline import Lowered
from lowering import ir, verify
from lowering.artifacts import KernelSource
from lowering.assemble import Kernel
from lowering.errors import ArtifactError
from lowering.index import ZERO, Atom, Axis, Index, atom, index, substitute
from lowering.partition import Group, Partition
from runtime.verify import verify_plan
from support import lower_graph, lowered, traced


@pytest.fixture(scope="module")
def whole() -> Lowered:
    """A matmul between two kernels, the second with a reduction and an in-place write after it."""

    def f(x, w, y):
        z = torch.softmax((x + 1) @ w, -1)
        y.copy_(z.sum(-1) + y)
        return z * 2

    return lowered(f, torch.randn(4, 8), torch.randn(8, 8), torch.randn(4))[0]


def refuses(text: str) -> Any:
    return pytest.raises(ArtifactError, match=text)


# ---- classes and partition


def test_call_without_a_class(whole):
    cut = whole.partition
    classes = dataclasses.replace(cut.classes, fused=frozenset(), inline=frozenset())
    with refuses("is in no class"):
        verify.verify_classes(cut.gm, classes)


def test_call_in_two_classes(whole):
    cut = whole.partition
    with refuses("is in fused and views"):
        verify.verify_classes(cut.gm, dataclasses.replace(cut.classes, views=cut.classes.fused))


def test_refusal_without_a_reason(whole):
    cut = whole.partition
    with refuses("without a reason"):
        verify.verify_classes(cut.gm, dataclasses.replace(cut.classes, refused=dict.fromkeys(cut.classes.refused, "")))


def with_steps(cut: Partition, *steps: Any) -> Partition:
    return dataclasses.replace(cut, steps=tuple(steps))


def test_steps_out_of_order(whole):
    cut = whole.partition
    with refuses("which it needs|changed places"):
        verify.verify_partition(with_steps(cut, *reversed(cut.steps)))


def test_missing_step(whole):
    cut = whole.partition
    with refuses("is in no step"):
        verify.verify_partition(with_steps(cut, *cut.steps[1:]))


def test_step_twice(whole):
    cut = whole.partition
    with refuses("is in steps 0 and 1"):
        verify.verify_partition(with_steps(cut, cut.steps[0], *cut.steps))


def test_nothing_stored(whole):
    cut = whole.partition
    steps = [dataclasses.replace(s, stored=()) if isinstance(s, Group) else s for s in cut.steps]
    with refuses("is not stored"):
        verify.verify_partition(with_steps(cut, *steps))


def test_write_before_a_read():
    """A kernel reads what a later step overwrites."""

    def f(x, y):
        before = x * y
        x.mul_(y)
        return before

    cut = lower_graph(traced(f, torch.randn(4), torch.randn(4))).partition
    assert len(cut.steps) == 2
    with refuses("changed places"):
        verify.verify_partition(with_steps(cut, *reversed(cut.steps)))


def test_dimension_of_the_wrong_size(whole):
    cut = whole.partition
    group = cut.groups[0]
    node = group.stored[0]
    wrong = dataclasses.replace(group, dims={**group.dims, node: group.dims[node][::-1]})
    with refuses("has size"):
        verify.verify_partition(with_steps(cut, *(wrong if s is group else s for s in cut.steps)))


# ---- group IR


def body_of(whole: Lowered, number: int = 0) -> tuple[Partition, Group, ir.GroupIR]:
    group = whole.partition.groups[number]
    return whole.partition, group, whole.kernels[group][0].group


def changed(body: ir.GroupIR, kind: type, **changes: Any) -> ir.GroupIR:
    """``body`` with its first statement of a kind changed."""
    statements = list(body.body)
    position = next(p for p, s in enumerate(statements) if isinstance(s, kind))
    statements[position] = dataclasses.replace(statements[position], **changes)
    return dataclasses.replace(body, body=tuple(statements))


def shifted(body: ir.GroupIR, kind: Any, by: int) -> ir.GroupIR:
    place = next(s.index for s in body.body if isinstance(s, kind))
    return changed(body, kind, index=place + by)


def first_buffer(body: ir.GroupIR, **changes: Any) -> ir.GroupIR:
    return dataclasses.replace(body, buffers=(dataclasses.replace(body.buffers[0], **changes), *body.buffers[1:]))


BROKEN_BODIES = [
    (lambda b: changed(b, ir.Call, fn="frobnicate"), "calls no scalar function"),
    (lambda b: changed(b, ir.Call, dtype="float64"), "gives float64"),
    (lambda b: changed(b, ir.Load, dtype="float64"), "moves float64"),
    (lambda b: changed(b, ir.Load, index=atom(Axis("k", index(3)))), "none of the group's axes"),
    (lambda b: shifted(b, ir.Load, 1), "leaves"),
    (lambda b: shifted(b, ir.Load, -1), "leaves"),
    (lambda b: shifted(b, ir.Store, 1), "does not cover|leaves"),
    (lambda b: changed(b, ir.Store, index=ZERO), "is stored at 1 points"),
    (lambda b: dataclasses.replace(b, body=b.body[:-1]), "it stores"),
    (lambda b: dataclasses.replace(b, body=(*b.body, b.body[-1])), "2 times"),
    (lambda b: first_buffer(b, written=True), "reads"),
    (lambda b: first_buffer(b, dtype="int64"), "no tensor|moves"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BROKEN_BODIES)
def test_broken_body(whole, change, message):
    cut, group, body = body_of(whole)
    verify.verify_group(cut, group, body)
    with refuses(message):
        verify.verify_group(cut, group, change(body))


def test_values_in_order(whole):
    _, _, body = body_of(whole)
    with refuses("before it is defined"):
        dataclasses.replace(body, body=body.body[::-1])


def test_masked_addresses_may_lie_outside():
    """Only what the mask lets through must stay inside."""
    one = lowered(lambda x, y: torch.cat([x, y], 1) + 1, torch.randn(3, 4), torch.randn(3, 5))[0]
    cut, group, body = body_of(one)
    assert any(isinstance(s, ir.Load) and s.mask is not None for s in body.body)
    bare = tuple(dataclasses.replace(s, mask=None) if isinstance(s, ir.Load) else s for s in body.body)
    with refuses("leaves"):
        verify.verify_group(cut, group, dataclasses.replace(body, body=bare))


def unplaced(body: ir.GroupIR) -> ir.GroupIR:
    """``body`` whose updates are in the first row, whatever the row."""
    update = next(s for s in body.body if isinstance(s, ir.Update))
    return changed(body, ir.Update, index=substitute(update.index, dict.fromkeys(body.rows, ZERO)))


BROKEN_UPDATES = [
    (lambda first, then: (then, first), "updated before it is stored"),
    (lambda first, then: (first, unplaced(then)), "two rows update one place"),
    (lambda first, then: (first, shifted(then, ir.Update, 1)), "leaves"),
    (lambda first, then: (first, changed(then, ir.Update, fn="frobnicate")), "no scalar function"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BROKEN_UPDATES)
def test_broken_updates(change, message):
    args = torch.randn(3, 4), torch.randint(0, 3, (2, 4)), torch.randn(2, 4)
    one = lowered(lambda x, i, s: x.scatter_add(0, i, s), *args)[0]
    (group,) = one.partition.groups
    first, then = (p.group for k in one.kernels[group] for p in k.phases)
    verify.verify_parts(one.partition, group, (first, then))
    with refuses(message):
        verify.verify_parts(one.partition, group, change(first, then))


def test_updates_are_made_in_order():
    args = torch.randn(3, 4), torch.randint(0, 3, (2, 4)), torch.randn(2, 4)
    one = lowered(lambda x, i, s: x.scatter_add(0, i, s), *args)[0]
    phase = one.plan.kernels[-1].phases[-1]
    with refuses("several lanes share a row"):
        verify.verify_schedule(phase.group, dataclasses.replace(phase.schedule, lanes=16))


def test_values_at_a_point():
    i, j = Axis("i", index(5)), Axis("j", index(7))
    place: Index = atom(i) * 7 + atom(j) - 2
    point: dict[Atom, int] = {i: 3, j: 4}
    assert verify.evaluate(place, point.__getitem__) == 23


# ---- schedule, text and plan


def reduction(whole: Lowered) -> Kernel:
    return next(k for k in whole.plan.kernels if k.group.cols)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"loops": ()}, "walks the cols"), ({"dims": ()}, "walks the rows"), ({"lanes": 0}, "work-groups of 0")],
)
def test_broken_schedule(whole, changes, message):
    kernel = reduction(whole)
    verify.verify_schedule(kernel.group, kernel.schedule)
    with refuses(message):
        verify.verify_schedule(kernel.group, dataclasses.replace(kernel.schedule, **changes))


def test_broken_launches(whole):
    phases = [phase for kernel in whole.plan.kernels for phase in kernel.phases]
    launches = [kernel.phases for kernel in whole.plan.kernels]
    verify.verify_launches(phases, launches)
    with refuses("in an order of their own"):
        verify.verify_launches(phases, launches[1:])
    several = [dataclasses.replace(p, schedule=dataclasses.replace(p.schedule, solo=0)) for p in phases]
    with refuses("several work-groups" if several[0].schedule.has_lanes else "no work-groups"):
        verify.verify_launches(phases, [tuple(several)])


def with_text(kernel: Kernel, old: str, new: str) -> Kernel:
    assert old in kernel.source.text
    source = dataclasses.replace(kernel.source, text=kernel.source.text.replace(old, new, 1))
    return dataclasses.replace(kernel, source=source)


BROKEN_TEXTS = [
    ("def ", "def x", "not one function of that name"),
    ("item, b0", "item, c0", "its parameters are not"),
    ("b0[", "undefined[", "reads undefined"),
    ("v", "import os\n    v", "uses Import"),
    ("np.int64(", "np.linspace(", "uses .linspace"),
    (":\n    lane", ":\n    barrier(\n    lane", "no Python"),
    ("item.get_local_id(0)", "item.__class__", "uses .__class__"),
    ("    v", "    if lane == 0:\n        barrier()\n    v", "in a branch"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN_TEXTS)
def test_broken_text(whole, old, new, message):
    kernel = reduction(whole)
    verify.verify_kernel(kernel)
    with refuses(message):
        verify.verify_kernel(with_text(kernel, old, new))


def test_work_group_operation_without_work_groups(whole):
    kernel = reduction(whole)
    source = dataclasses.replace(kernel.source, local_size=None)
    with refuses("launched without work-groups"):
        verify.verify_kernel(dataclasses.replace(kernel, source=source))


def test_value_of_a_loop_that_may_not_run(whole):
    kernel = reduction(whole)
    text = kernel.source.text.replace("\n    v", "\n    for t in range(lane):\n        q = t\n    z = q\n    v", 1)
    with refuses("reads q, which may not be assigned"):
        verify.verify_kernel(dataclasses.replace(kernel, source=dataclasses.replace(kernel.source, text=text)))


def test_one_name_for_two_kernels(whole):
    first = whole.plan.kernels[0]
    other: KernelSource = dataclasses.replace(first.source, text=first.source.text + "\n")
    with refuses("two different kernels"):
        verify.verify_names([first, dataclasses.replace(first, source=other)])


BROKEN_PLANS = [
    ("    wait()\n", "", "before the kernels that use it are waited for|may still run"),
    ("k0(", "k1(", "launch 1 comes where launch 0"),
    (".data_ptr(), ", ", ", "is a pointer|is not defined"),
    (".data_ptr(), ", ".data_ptr(), 1, ", "takes"),
    ("args.clear()", "args.clear()\n    del args", ""),
    ("    return (", "    return (nothing, ", "nothing is not defined"),
    ("    wait()\n", "    del arg0_1\n    wait()\n", "given back while a kernel may use it|is forgotten"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN_PLANS)
def test_broken_plan(whole, old, new, message):
    verify_plan(whole.plan)
    assert old in whole.plan.text
    plan = dataclasses.replace(whole.plan, text=whole.plan.text.replace(old, new, 1))
    if not message:
        verify_plan(plan)
        return
    with refuses(message):
        verify_plan(plan)


def test_every_wait_is_needed(whole):
    """Leaving out any one of the waits is noticed."""
    parts = whole.plan.text.split("    wait()\n")
    assert len(parts) > 2
    for left_out in range(1, len(parts)):
        joined = (
            "    wait()\n".join(parts[:left_out]) + "    wait()\n".join(["", *parts[left_out:]])[len("    wait()\n") :]
        )
        assert joined.count("wait()") == len(parts) - 2
        with refuses("waited for|may still run|given back"):
            verify_plan(dataclasses.replace(whole.plan, text=joined))
