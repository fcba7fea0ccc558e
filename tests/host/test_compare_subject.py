"""What a backend gives is held against float64, whatever the ways in which compiled programs may differ."""

from __future__ import annotations

import torch
from torch import nn

from aten_backend.comparison.backends import Backend
from aten_backend.comparison.distance import in_float64
from aten_backend.comparison.subject import Subject, exact_results
from aten_backend.comparison.workloads import Case, Workload


class TwoHeads(nn.Module):
    """The loss takes the first head: of the second's weights, a compiled graph gives zeros as gradients, eager none."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(3, 5)

    def forward(self, x):
        return self.first(x), self.second(x)


def test_parameters_that_the_loss_does_not_depend_on():
    torch.manual_seed(0)
    case = Case(TwoHeads(), ((torch.randn(2, 3),),), train=True)
    workload = Workload("own", "heads", lambda: case)
    subject = Subject(workload, case, Backend("aot_eager"))
    subject.compile_cold(exact_results(workload, in_float64(case)))
    assert subject.row.note == "" and (subject.row.distance or 1) < 1e-5
