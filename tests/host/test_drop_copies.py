"""Which copies are taken out, and that nobody can tell."""

from __future__ import annotations

import pytest
import torch

from lowering.passes import drop_copies
from support import interpret, traced


def r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def attended(x):
    return (x @ x).transpose(0, 1).clone(memory_format=torch.preserve_format)


def beside(view):
    """Both what is copied, or a view of it, and the copy."""

    def both(x):
        y = x.sin()
        return view(y), y.clone()

    return both


def written_to(x):
    y = x.sin()
    z = y.clone()
    y.add_(1)
    return z


def written_itself(x):
    y = x.sin()
    return y.clone().add_(1), y


DROPPED = {
    "of a result": lambda x: x.sin().clone(),
    "of a matmul's, transposed": attended,
    "twice": lambda x: x.sin().clone().clone(),
    "in the middle": lambda x: x.sin().clone() @ x,
    "of a view": lambda x: (x @ x).view(2, 2, 4).clone().view(-1),
}
KEPT = {
    "of an input as another type": lambda x: x.view(torch.int32).clone(),
    "beside a view of another type": beside(lambda y: y.view(torch.int32)),
    "of a view of another type": lambda x: (y := x.sin(), y.view(torch.int32).clone()),
    "of an input": lambda x: x.clone(),
    "of an input's view": lambda x: x.t().clone(memory_format=torch.preserve_format),
    "beside what it copies": beside(lambda y: y),
    "beside a view of it": beside(lambda y: y.view(2, 8)),
    "another layout": lambda x: (x @ x).t().clone(memory_format=torch.contiguous_format),
    "a part": lambda x: (x @ x)[:2].clone(),
    "a part behind": lambda x: (x @ x)[2:].clone(),
    "expanded": lambda x: (x @ x)[:1].expand(4, 4).clone(),
    "written to": written_to,
    "written to itself": written_itself,
}


@pytest.mark.parametrize("name", DROPPED)
def test_what_is_taken_out(name):
    gm = traced(DROPPED[name], r(4, 4))
    expected = gm(r(4, 4))
    copies = len(gm.graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default))
    assert drop_copies.run(gm) == copies > 0
    gm.recompile()
    torch.testing.assert_close(gm(r(4, 4)), expected)
    torch.testing.assert_close(interpret(DROPPED[name], r(4, 4)), DROPPED[name](r(4, 4)))


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name):
    assert drop_copies.run(traced(KEPT[name], r(4, 4))) == 0


@pytest.mark.parametrize("name", DROPPED | KEPT)
def test_results_share_no_memory(name):
    x = r(4, 4)
    fn = (DROPPED | KEPT)[name]
    results = interpret(fn, x)
    results = results if isinstance(results, tuple) else (results,)
    eager = fn(r(4, 4))
    eager = eager if isinstance(eager, tuple) else (eager,)
    starts = [t.untyped_storage().data_ptr() for t in (*results, x)]
    wanted = [t.untyped_storage().data_ptr() for t in eager]
    assert len(set(starts)) == len(set(wanted)) + 1
