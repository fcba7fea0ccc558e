"""Writes to inputs: where the result of a group goes, and how much memory a plan asks for."""

from __future__ import annotations

import math
import re

import torch

from lowering.partition import Extern
from support import interpret, lower_graph, lowered, traced

r = torch.randn


def plan_of(fn, *args):
    (one,) = lowered(fn, *args)
    return one


def allocated(one):
    """Elements that the plan allocates for results (scratch memory and error codes left out)."""
    shapes = re.findall(r"empty_strided\(\(([\d, ]*)\)", one.plan.text)
    return sum(math.prod(int(n) for n in shape.split(",") if n.strip()) for shape in shapes)


def copies(one):
    """Copies that are left to ATen."""
    return [s for s in one.partition.steps if isinstance(s, Extern) and "copy_" in str(s.node.target)]


def test_result_goes_straight_into_the_input():
    def f(x, y):
        x.add_(y).mul_(2)

    one = plan_of(f, r(64, 64), r(64, 64))
    assert allocated(one) == 0 and len(one.plan.kernels) == 1 and not copies(one)


def test_result_that_is_returned_too_is_stored_twice_by_one_kernel():
    def f(x, y):
        z = x + y
        x.copy_(z)
        return z

    one = plan_of(f, r(64, 64), r(64, 64))
    assert allocated(one) == 64 * 64 and len(one.plan.kernels) == 1 and not copies(one)


def test_decode_step_costs_what_it_changes():
    """Two caches of 32k elements: only the attention's scores and its result are allocated."""

    def f(keys, values, at, key, value, query):
        keys.index_copy_(2, at, key)
        values.index_copy_(2, at, value)
        return torch.softmax(query @ keys.transpose(-1, -2), -1) @ values

    caches, step = [r(1, 4, 256, 32) for _ in range(2)], [r(1, 4, 1, 32) for _ in range(3)]
    one = plan_of(f, *caches, torch.tensor([7]), *step)
    assert allocated(one) == 4 * 256 + 4 * 256 + 4 * 32 and not copies(one)
    assert all(b.name != "arg0_1" for k in one.plan.kernels for b in k.buffers)


def test_part_of_a_cache_is_written_through_a_view():
    def f(cache, new, at):
        cache[:, 3:5] = new
        cache[1].index_copy_(0, at, new[1])
        cache[0, 7].mul_(2)
        return cache.sum()

    one = plan_of(f, r(4, 128, 8), r(4, 2, 8), torch.tensor([9, 11]))
    assert allocated(one) <= 4 * 2 * 8 + 1 and not copies(one)


def test_optimizer_step_allocates_nothing():
    def f(p, g, m, v):
        m.lerp_(g, 0.1)
        v.mul_(0.99).addcmul_(g, g, value=0.01)
        p.addcdiv_(m, v.sqrt() + 1e-8, value=-1e-3)

    one = plan_of(f, *(r(32, 32) for _ in range(4)))
    assert allocated(one) == 0 and len(one.plan.kernels) == 1 and not copies(one)


def test_batch_norm_statistics_are_written_by_the_kernel_that_normalises():
    norm = torch.nn.BatchNorm2d(8)
    forward = lowered(norm, r(4, 8, 6, 6))[0]
    (writer,) = [k for k in forward.plan.kernels if any(p.group.cols for p in k.phases)]
    assert sum(b.written and b.name.startswith("copy_") for b in writer.buffers) == 3  # with the number of batches
    assert not copies(forward)


# ---- where the old contents are still needed


def test_old_contents_read_elsewhere_keep_the_copy():
    """Each element is needed by another one's work-item."""

    def f(x):
        x.copy_(x.flip(0) + 1)

    one = plan_of(f, r(16))
    assert allocated(one) == 16 and len(copies(one)) == 1


def test_row_that_is_read_again_after_a_reduction_keeps_the_copy():
    def f(x, y):
        x.add_(y)
        return torch.softmax(x, -1)

    assert len(copies(plan_of(f, r(8, 64), r(8, 64)))) == 1


def test_cache_whose_new_contents_are_returned_is_copied():
    def f(cache, at, new):
        fresh = cache.index_copy(0, at, new)
        cache.copy_(fresh)
        return fresh

    assert allocated(plan_of(f, r(64, 4), torch.tensor([1]), r(1, 4))) == 64 * 4


def test_old_contents_read_after_the_update_are_copied():
    def f(cache, at, new):
        fresh = cache.index_copy(0, at, new)
        difference = (fresh - cache).sum()
        cache.copy_(fresh)
        return difference

    assert allocated(plan_of(f, r(64, 4), torch.tensor([1]), r(1, 4))) >= 64 * 4


def test_update_from_the_cache_itself_is_copied():
    def f(cache, at):
        cache.index_copy_(0, at, cache[2:4])

    assert allocated(plan_of(f, r(64, 4), torch.tensor([1, 2]))) >= 64 * 4


def test_expanded_memory_is_left_to_aten():
    def f(x, y):
        x.copy_(y)

    one = lower_graph(traced(f, r(4, 1).expand(4, 3), r(4, 3)))
    assert len(copies(one)) == 1


def test_writes_in_graphs_that_are_not_functional():
    """Writer and later reader of one input are never one kernel (the specification checks the order)."""

    def f(x, y):
        a = x * y
        x.copy_(y)
        b = x + 1
        x.copy_(b)
        return a, b, x.sum()

    one = lower_graph(traced(f, r(8), r(8)))
    assert not copies(one)


def test_old_contents_read_as_another_type_are_copied():
    def f(x, at, value):
        old = x.view(torch.int32) + 1
        x.index_copy_(0, at, value)
        return old + x

    given = r(8, 8), torch.tensor([3, 4]), r(2, 8)
    expected = f(given[0].clone(), *given[1:])
    torch.testing.assert_close(interpret(f, *given), expected)
