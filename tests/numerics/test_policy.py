"""The policy itself: what it lets pass and what it does not."""

from __future__ import annotations

import math

import torch

from aten_backend.numerics.policy import Work, compare, work_of

POINTWISE = Work(pointwise=True)


def _judge(ours, eager, reference=None, work=POINTWISE):
    return compare([ours], [eager], None if reference is None else [reference], work)


def test_integers_are_exact():
    assert _judge(torch.tensor([1, 2]), torch.tensor([1, 2])) is None
    assert "1 of 2 elements differ" in (_judge(torch.tensor([1, 3]), torch.tensor([1, 2])) or "")


def test_a_few_steps_are_allowed_and_no_more():
    exact = torch.tensor([1.0], dtype=torch.float64)
    eager = exact.float()
    assert _judge(eager + 4 * 2**-23, eager, exact) is None
    assert _judge(eager + 40 * 2**-23, eager, exact) is not None


def test_steps_of_a_complex_number_are_those_of_its_larger_part():
    exact = torch.tensor([1000 + 1j], dtype=torch.complex128)
    eager = exact.to(torch.complex64)
    assert _judge(eager + 1j * 2**-13, eager, exact) is None
    assert _judge(eager + 1j * 2**-9, eager, exact) is not None
    assert _judge(eager * 1j + 2**-9, eager * 1j, exact * 1j) is not None
    infinite = torch.tensor([complex(math.inf, 1)])
    assert _judge(infinite + 0.1j, infinite, infinite.to(torch.complex128)) is not None


def test_no_worse_than_eager():
    exact = torch.tensor([1.0], dtype=torch.float64)
    assert _judge(torch.tensor([1.0018]), torch.tensor([1.001]), exact) is None
    assert _judge(torch.tensor([1.003]), torch.tensor([1.001]), exact) is not None


def test_nan_and_infinity_stand_where_eagers_do():
    eager = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    assert _judge(eager.clone(), eager) is None
    for place, value in ((0, 1.0), (1, -math.inf), (2, 3e38), (3, math.nan), (3, math.inf)):
        ours = eager.clone()
        ours[place] = value
        assert _judge(ours, eager, eager.double()) is not None, (place, value)


def test_an_overflow_on_eagers_way_is_no_fault_of_ours():
    eager, exact = torch.tensor([math.inf], dtype=torch.float16), torch.tensor([3.0], dtype=torch.float64)
    assert _judge(exact.half(), eager, exact) is None
    assert _judge(torch.tensor([4.0]).half(), eager, exact) is not None


def test_layout_and_type_are_eagers():
    eager = torch.zeros(2, 3)
    assert "strides" in (_judge(torch.zeros(3, 2).t(), eager) or "")
    assert "dtype" in (_judge(eager.double(), eager) or "")
    assert "shape" in (_judge(torch.zeros(3, 2), eager) or "")
    assert (
        _judge(torch.zeros(1, 3).t(), torch.zeros(3, 1)) is None
    )  # a dimension of one element has no stride to speak of


def test_sums_are_judged_by_their_terms():
    terms = torch.randn(10_000)
    exact = terms.double().sum()
    work = work_of([terms], pointwise=False)
    assert _judge((exact + 1e-4).float(), exact.float(), exact, work) is None
    assert _judge((exact + 1.0).float(), exact.float(), exact, work) is not None
