"""The interpreter for kernels: what it computes, and what it finds that a run on a device would not show."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lowering import schedule
from lowering.alternatives import alternatives
from lowering.artifacts import KernelSource, Param
from lowering.interpret import (
    ArithmeticFault,
    DataRaceError,
    DivergentBarrierError,
    KernelTypeError,
    Memory,
    OutOfBoundsError,
    Pointer,
    UninitialisedReadError,
    machine,
    run_kernel,
)
from lowering.interpret import language as interpreted_language
from lowering.target import GENERIC
from lowering.verify import LANGUAGE, verify_launches
from runtime.interpreted import interpreted
from support import interpret, lowered

OUT = Param("out", "pointer", "float32")
IN = Param("x", "pointer", "float32")


def kernel(body: str, params=(IN, OUT), local_size=None, ndim=1) -> KernelSource:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    names = ", ".join(["item", *(p.name for p in params)])
    return KernelSource("made", f"def made({names}):\n{lines}\n", tuple(params), ndim, local_size)


def run(source: KernelSource, *arrays: np.ndarray, size=(8,)) -> None:
    run_kernel(source, [Pointer(Memory(a)) if isinstance(a, np.ndarray) else a for a in arrays], size)


def floats(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.float32)


def test_every_function_of_the_language_is_there():
    known = {
        *interpreted_language.FUNCTIONS,
        *interpreted_language.GROUP_FUNCTIONS,
        "barrier",
        "group_broadcast",
        "take_ticket",
        *(f"work_group_{d}" for d in range(3)),
    }
    assert known == LANGUAGE


def test_a_kernel_over_a_range_of_two_dimensions():
    out = np.zeros(6, np.float32)
    text = "i = np.int64(item.get_id(0))\nj = np.int64(item.get_id(1))\nout[i*3 + j] = x[j*2 + i]"
    run(kernel(text, ndim=2), floats(6), out, size=(2, 3))
    assert out.reshape(2, 3).tolist() == floats(6).reshape(3, 2).T.tolist()


def test_float32_stays_float32():
    out = np.zeros(1, np.float32)
    run(kernel("out[0] = (x[0] + np.float32(1.0)) - np.float32(1.0)"), np.array([1e-8], np.float32), out, size=(1,))
    assert out[0] == 0  # float64 would keep it


def test_loops_end_for_each_work_item_by_itself():
    out = np.zeros(8, np.float32)
    text = """
i = np.int64(item.get_id(0))
a = np.float32(0.0)
for j in range(np.int64(0), i, np.int64(2)):
    a = (a + x[j])
out[i] = a
"""
    run(kernel(text), floats(8), out)
    assert out.tolist() == [sum(range(0, i, 2)) for i in range(8)]


def test_a_branch_not_taken_reads_nothing():
    out = np.zeros(8, np.float32)
    run(kernel("i = np.int64(item.get_id(0))\nout[i] = x[i] if i < 3 else np.float32(-1.0)"), floats(3), out)
    assert out.tolist() == [0, 1, 2, -1, -1, -1, -1, -1]


GROUP = """
lane = np.int64(item.get_local_id(0))
i = work_group_0(np.int64(4))
l[lane] = x[i*4 + lane]
{barrier}
out[i*4 + lane] = l[np.int64(3) - lane]
"""
LOCAL = Param("l", "local", "float32", 4)


def exchange(barrier: str) -> KernelSource:
    return kernel(GROUP.format(barrier=barrier), (IN, OUT, LOCAL), (4,))


def test_local_memory_is_exchanged_over_a_barrier():
    out = np.zeros(8, np.float32)
    run(exchange("barrier()"), floats(8), out)
    assert out.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_a_missing_barrier_is_a_race():
    with pytest.raises(DataRaceError, match=r"kernel made, line 6 .*touch l\[") as caught:
        run(exchange("pass"), floats(8), np.zeros(8, np.float32))
    assert caught.value.line == 6


def test_a_barrier_in_a_branch_that_some_take():
    with pytest.raises(DivergentBarrierError, match="work-item 2 of work-group 0 does not reach barrier"):
        run(exchange("if lane < 2:\n        barrier()"), floats(8), np.zeros(8, np.float32))


def test_a_group_operation_in_a_loop_of_uneven_length():
    text = "lane = np.int64(item.get_local_id(0))\nfor j in range(lane):\n    v = group_add(x[j])"
    with pytest.raises(DivergentBarrierError, match="group_add"):
        run(kernel(text, local_size=(4,)), floats(8), np.zeros(8, np.float32))


def test_two_items_write_one_element():
    with pytest.raises(DataRaceError, match=r"out\[0\]"):
        run(kernel("i = np.int64(item.get_id(0))\nout[i // 2] = x[i]".replace("i // 2", "sdiv(i, np.int64(2))")),
            floats(8), np.zeros(8, np.float32))  # fmt: skip


def test_one_item_reads_what_another_writes():
    text = "i = np.int64(item.get_id(0))\nv = out[np.int64(7) - i]\nout[i] = v"
    with pytest.raises(DataRaceError):
        run(kernel(text), floats(8), np.zeros(8, np.float32))


def test_races_between_batches_are_found(monkeypatch):
    monkeypatch.setattr(machine, "BATCH", 2)
    with pytest.raises(DataRaceError, match="work-item 4 and another"):
        text = "i = np.int64(item.get_id(0))\nout[srem(i, np.int64(4))] = x[i]"
        run(kernel(text), floats(8), np.zeros(8, np.float32))


def test_a_barrier_does_not_order_work_groups():
    text = """
lane = np.int64(item.get_local_id(0))
i = work_group_0(np.int64(4))
if i == 0:
    out[lane] = x[lane]
barrier()
v = out[lane]
"""
    with pytest.raises(DataRaceError, match="work-group 1"):
        run(kernel(text, local_size=(4,)), floats(8), np.zeros(8, np.float32))


@pytest.mark.parametrize("place", ("i + np.int64(1)", "i - np.int64(1)"))
def test_an_access_out_of_bounds(place):
    with pytest.raises(OutOfBoundsError, match=r"touches x\[(8|-1)\], outside its 8 elements"):
        run(kernel(f"i = np.int64(item.get_id(0))\nout[i] = x[{place}]"), floats(8), np.zeros(8, np.float32))


def test_local_memory_starts_without_a_value():
    with pytest.raises(UninitialisedReadError, match="l is read where nothing was written"):
        text = "lane = np.int64(item.get_local_id(0))\nout[lane] = l[lane]"
        run(kernel(text, (IN, OUT, LOCAL), (4,)), floats(8), np.zeros(8, np.float32), size=(4,))


def test_an_integer_division_by_zero():
    text = "i = np.int64(item.get_id(0))\nk = sdiv(np.int64(8), i)\nout[i] = x[i]"
    with pytest.raises(ArithmeticFault, match="sdiv by zero"):
        run(kernel(text), floats(8), np.zeros(8, np.float32))


def test_mixed_types_are_refused():
    with pytest.raises(KernelTypeError, match=r"fmod\(float32, float64\)"):
        run(kernel("out[0] = fmod(x[0], np.float64(1.0))"), floats(1), np.zeros(1, np.float32), size=(1,))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sdiv(np.int32(-7), np.int32(2))", -3),
        ("srem(np.int32(-7), np.int32(2))", -1),
        ("shr(np.int8(-8), np.int8(1))", -4),
        ("imul(np.int32(65536), np.int32(65536))", 0),
        ("cast_int32(np.float32(3e9))", -(2**31)),
        ("cast_uint8(np.float32(-1.0))", 255),
        ("cast_int64(np.float64(np.nan))", -(2**63)),
        ("bf16_to_f32(f32_to_bf16(np.float32(1.00390625)))", 1.0),
        ("f16_to_f32(f32_to_f16(np.float32(1e6)))", math.inf),
        ("select(True, np.int32(2), np.int32(3))", 2),
        ("rint(np.float32(2.5))", 2.0),
    ],
)
def test_functions(text, wanted):
    out = np.zeros(1, np.float64)
    run(kernel(f"out[0] = cast_float64({text})", (Param("out", "pointer", "float64"),)), out, size=(1,))
    assert out[0] == wanted


# ---- whole plans -----------------------------------------------------------------------------------------------------


def test_a_plan_with_calls_of_aten():
    x = torch.randn(6, 10)
    got = interpret(lambda x: torch.softmax(x @ x.t(), -1) + x.sum(), x)
    torch.testing.assert_close(got, torch.softmax(x @ x.t(), -1) + x.sum())


def test_a_long_reduction_in_two_kernels():
    x = torch.randn(3, 70000)
    torch.testing.assert_close(interpret(lambda x: x.sum(-1) * 2, x), x.sum(-1) * 2)


def test_a_result_that_is_not_written_as_a_whole():
    (one,) = lowered(lambda x: x + 1, torch.randn(128))
    plan = one.plan
    text = plan.text.replace("(128,), alone", "(64,), alone")
    cut = type(plan)(text, plan.constants, plan.kernels, plan.extern_calls)
    assert cut.text != plan.text
    with pytest.raises(UninitialisedReadError, match=r"element \(64,\) of a result of shape \(128,\) is never written"):
        interpreted(cut)([torch.randn(128)])


@pytest.mark.parametrize("fn", ("sum", "prod", "amax", "argmax"))
def test_rows_taken_in_turn_do_not_race(monkeypatch, fn):
    """Where the range is too large for the device, each work-group runs over several rows."""
    monkeypatch.setattr(schedule, "RANGE_LIMIT", 2**7)
    x = torch.rand(8, 3, 64).transpose(0, 1)
    reduce = getattr(torch, fn)
    (kernel,) = lowered(lambda t: reduce(t, 2), x)[0].plan.kernels
    assert kernel.schedule.outer and kernel.schedule.lanes > 1
    torch.testing.assert_close(interpret(lambda t: reduce(t, 2), x), reduce(x, 2))


def test_ranges_too_large_in_every_schedule(monkeypatch):
    """A group that loops over some of its rows is not run by one work-group behind another, and so it is in every
    schedule that autotuning tries."""
    monkeypatch.setattr(schedule, "RANGE_LIMIT", 2**7)

    def fn(x):
        total = x.sum(2)
        return total, (x + total.mean(1, keepdim=True)[:, :, None]).sum(0)

    x = torch.rand(3, 8, 64)
    torch.testing.assert_close(interpret(fn, x), fn(x))
    found = [kernel for one in lowered(fn, x) for kernel in one.plan.kernels]
    assert any(phase.schedule.outer for kernel in found for phase in kernel.phases)
    for kernel in found:
        for launches in alternatives(kernel.phases, GENERIC).values():
            verify_launches(kernel.phases, launches)
