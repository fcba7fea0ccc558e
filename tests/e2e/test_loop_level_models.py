"""Models and training steps through xpu_inductor: as near to float64 as stock Inductor, in no more launches than it has
loops."""

from __future__ import annotations

import pytest
import torch

from aten_backend.comparison import suites
from aten_backend.comparison.backends import Backend, inductor_code
from aten_backend.comparison.distance import distance, in_float64
from aten_backend.comparison.subject import Subject

pytestmark = [pytest.mark.device, pytest.mark.models, pytest.mark.slow]

LABELS = ("models/BERT", "models/ConvNeXt", "training/GPT-2 step", "training/ResNet-18 step")


def made(workload):
    torch.manual_seed(0)
    return workload.make()


def first_run(workload, case, name):
    torch._dynamo.reset()
    with inductor_code().captured_code() as code:
        _, results = Subject(workload, case, Backend(name))._first_call()
    return [r.detach().clone() for r in results], inductor_code().count(code)


@pytest.mark.parametrize("label", LABELS)
def test_as_stock_inductor(label):
    suite, _, name = label.partition("/")
    workload = next(w for w in suites.select([suite], "") if w.name.startswith(name))
    exact, _ = first_run(workload, in_float64(made(workload)), "eager")
    mine, ours = first_run(workload, made(workload), "xpu_inductor")
    theirs, stock = first_run(workload, made(workload), "inductor")
    # gradients through batch statistics of four images amplify every rounding, everybody's
    assert distance(mine, exact) < max(1e-4, 2 * distance(theirs, exact))
    assert 0 < ours.calls <= stock.loops
