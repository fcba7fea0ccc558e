"""Partitions: what is fused with what, the order of steps, and the cost of finding out."""

from __future__ import annotations

import time

import pytest
import torch

from lowering.classify import classify
from lowering.partition import Extern, Group, partition
from lowering.passes import run_passes
from lowering.target import GENERIC
from support import graphs_of, kernel_count, lower_graph, lowered, traced

r = torch.randn


def steps(fn, *args, ir="aten"):
    """Each step as the set of its ops' short names; externs in brackets."""
    (one,) = lowered(fn, *args, ir=ir)
    found = []
    for step in one.partition.steps:
        nodes = (step.node,) if isinstance(step, Extern) else step.nodes
        names = {str(n.target).split(".")[1] for n in nodes if "getitem" not in str(n.target)}
        found.append(names if isinstance(step, Group) else [names.pop()])
    return found


def test_chain_is_one_kernel():
    def f(x):
        for _ in range(20):
            x = (x + 1).sin()
        return x

    assert kernel_count(f, r(8, 8)) == 1


def test_diamond_is_one_kernel():
    def f(x):
        a = x.exp()
        return (a + 1).sin() * (a - 1).cos()

    assert kernel_count(f, r(8, 8)) == 1


def test_diamond_around_an_extern_makes_no_cycle():
    """x.exp() feeds a matmul and what reads the matmul: the two cannot be one kernel."""

    def f(x, w):
        a = x.exp()
        return a @ w + a

    assert steps(f, r(8, 8), r(8, 8)) == [{"exp"}, ["mm"], {"add"}]


def test_long_way_round_makes_no_cycle():
    def f(x, w):
        a = x.exp()
        b = (a @ w).sin()
        c = (b @ w).cos()
        return a + c, a * b

    found = steps(f, r(8, 8), r(8, 8))
    assert [s for s in found if isinstance(s, list)] == [["mm"], ["mm"]]
    assert len(found) <= 6


@pytest.mark.parametrize("ir", ["aten", "prims"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.softmax(x * 2 + 1, -1),
        lambda x: torch.nn.functional.layer_norm(x.relu(), (32,)).tanh(),
        lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
        lambda x: torch.log_softmax(x, 0).neg(),
        lambda x: (x - x.mean()).square().sum(),
        lambda x: torch.nn.functional.gelu(x.t() + 1).reshape(-1),
    ],
    ids=["softmax", "layer_norm", "rms_norm", "log_softmax", "moments", "gelu"],
)
def test_one_kernel(fn, ir):
    assert kernel_count(fn, r(16, 32), ir=ir) == 1


def test_reductions_over_different_dimensions_are_apart():
    assert kernel_count(lambda x: (x.sum(0), x.sum(1)), r(1024, 1024)) == 2


def test_small_groups_share_a_launch():
    assert kernel_count(lambda x: (x.sum(0), x.sum(1)), r(16, 32)) == 1
    assert kernel_count(lambda x, y: x.softmax(1).sum(1).cumsum(0) + y.cumsum(0), r(512, 1024), r(512)) == 1
    assert kernel_count(lambda x: (x * x).sum(), r(1024, 1024)) == 1  # both stages


def test_readers_of_the_same_memory_join():
    assert kernel_count(lambda x: (x.sin(), x.cos(), x + 1), r(16, 32)) == 1
    assert kernel_count(lambda x: (x.sum(1), x.amax(1), x.exp()), r(16, 32)) == 1


def test_refused_ops_are_named_with_reason_and_line():
    (one,) = lowered(lambda x: x.view(torch.int32) + x @ x, r(8, 8))
    by_op = {refusal.op: refusal for refusal in one.partition.refusals}
    assert set(by_op) == {"aten.view.dtype", "aten.mm.default"}
    assert by_op["aten.mm.default"].deliberate
    assert not by_op["aten.view.dtype"].deliberate
    assert all("test_partition.py" in refusal.source for refusal in by_op.values())


def test_views_are_no_steps():
    assert steps(lambda x: x.t()[1:].reshape(-1, 4), r(8, 8)) in ([], [{"clone"}])


def test_writes_keep_their_order():
    """In-place writes as AOTAutograd leaves them nowhere, but custom ops do."""

    def f(x, y):
        a = x + 1
        x.mul_(y)
        b = x.sin()
        x.add_(1)
        return a, b, x * y

    one = lower_graph(traced(f, r(4), r(4)))  # the verifier checks the order
    externs = [str(s.node.target) for s in one.partition.steps if isinstance(s, Extern)]
    assert externs == ["aten.mul_.Tensor", "aten.add_.Tensor"]


def test_writes_through_views_keep_their_order():
    def f(x, y):
        a = x.double() * 2
        x[1:].copy_(y[1:])
        b = x.t() * 3
        x.t()[0].zero_()
        return a, b, x.sum()

    lower_graph(traced(f, r(4, 4), r(4, 4)))


def test_cast_before_a_write_is_not_recomputed_after_it():
    def f(x, y):
        wide = x.double()
        x.copy_(y)
        return wide + 1

    lower_graph(traced(f, r(4), r(4)))


def seconds(gm):
    best = float("inf")
    for _ in range(3):
        graph = run_passes(gm)
        classes = classify(graph)
        start = time.perf_counter()
        partition(graph, classes, GENERIC)
        best = min(best, time.perf_counter() - start)
    return best


def chain(length):
    """Pointwise ops with a matmul among every ten, so that there are many groups."""

    def f(x, w):
        early = x
        for n in range(length // 10):
            for _ in range(4):
                x = (x + 1).sin()
            x = (x @ w) + early
            early = x if n % 5 == 0 else early
        return x

    return graphs_of(f, r(4, 4), r(4, 4))[0]


def wide(length):
    """Many short branches from one tensor, summed up."""

    def f(x):
        return sum((x + n).exp() * 2 for n in range(length // 4))

    return graphs_of(f, r(4, 4))[0]


@pytest.mark.slow
@pytest.mark.parametrize("make", [chain, wide])
def test_time_grows_with_the_number_of_nodes(make):
    """Twice the nodes may take thrice the time, and some for the noise; a quadratic partition would take four times."""
    small, large = (seconds(make(size)) for size in (1000, 2000))
    assert large < 3.2 * small + 0.05, (small, large)
    assert large < 5
