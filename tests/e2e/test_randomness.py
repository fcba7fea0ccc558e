"""Random ops keep eager's stream whatever order the rest of the graph runs in."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def test_random_ops_run_in_the_programs_order():
    def run(x):
        late = F.dropout(torch.softmax(x @ x.t(), -1).cumsum(0) @ x, 0.5)  # its argument takes a while
        early = torch.rand_like(x)  # could run at once
        return late, early, torch.randn(3)

    x = torch.randn(8, 8)
    torch.manual_seed(1)
    expected = run(x)
    torch.manual_seed(1)
    got = torch.compile(run, backend="xpu_aten")(x)
    torch.testing.assert_close(got, expected)
    assert torch.equal(got[1], expected[1]) and torch.equal(got[2], expected[2])
