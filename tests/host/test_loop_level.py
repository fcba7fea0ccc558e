"""Pieces of the loop level that need no device: axes from flat positions, waits in wrappers, scans, ordered updates."""

from __future__ import annotations

import types

import pytest
import torch
from torch._inductor import ir as inductor_ir
from torch._inductor.codegen import wrapper as inductor

from aten_backend.loop_level.combine import scan_function
from aten_backend.loop_level.indexing import digits, flat_position, part_of
from aten_backend.loop_level.overrides import Overrides, row_formula
from aten_backend.loop_level.updates import spread
from aten_backend.loop_level.values import Value, promoted
from aten_backend.loop_level.wrapper import LaunchLine, PhasesLine, ScratchLine, WaitLine, _Dead, joined, with_waits
from lowering import ir
from lowering.assemble import Phase
from lowering.index import Axis, Loaded, atom, index
from lowering.schedule import choose
from lowering.target import GENERIC
from lowering.values import Body


def free(name, **attributes):
    line = object.__new__(inductor.FreeIfNotReusedLine)
    line.node = types.SimpleNamespace(get_name=lambda: name)
    line.is_reused = attributes.get("is_reused", False)
    return line


def shown(lines):
    return [
        f"wait, del {', '.join(line.dead)}" if isinstance(line, WaitLine)
        else line.text if isinstance(line, LaunchLine)
        else line if isinstance(line, str) else type(line).__name__
        for line in lines
    ]  # fmt: skip


def test_a_wait_comes_before_what_is_no_launch():
    lines = [LaunchLine("k0()"), "# comment", "", LaunchLine("k1()"), "extern_kernels.mm(a, b, out=c)", "x = y.item()"]
    assert shown(with_waits(lines)) == [
        *("k0()", "# comment", "", "k1()", "wait, del ", "extern_kernels.mm(a, b, out=c)", "x = y.item()"),
    ]


def test_a_graph_ends_with_a_wait():
    assert shown(with_waits([LaunchLine("k0()")])) == ["k0()", "wait, del "]
    assert shown(with_waits(["aten.sort(x)"])) == ["aten.sort(x)"]


def test_memory_is_given_up_after_the_next_wait():
    lines = [LaunchLine("k0()"), free("a"), free("b", is_reused=True), LaunchLine("k1()"), "aten.sort(x)", free("c")]
    assert shown(with_waits(lines)) == [
        *("k0()", "k1()", "wait, del a", "aten.sort(x)", "FreeIfNotReusedLine"),
    ]


def reuse(old):
    line = object.__new__(inductor.ReuseLine)
    line.node = types.SimpleNamespace(get_name=lambda: old)
    return line


def launch(source, target, size=8):
    """target = -source"""
    i = Axis("i", index(size))
    buffers = (ir.Buffer(source, "float32", False), ir.Buffer(target, "float32", True))
    body = (ir.Load(0, atom(i), "float32"), ir.Call("neg", (0,), "float32"), ir.Store(1, atom(i), 1))
    group = ir.GroupIR(("aten.neg.default",), (i,), (), buffers, body)
    return PhasesLine((Phase(group, choose(group, GENERIC)),), f"# {target}")


def places(lines):
    return [
        f"{'+'.join(p.group.buffers[1].name for p in line.phases)}" if isinstance(line, PhasesLine)
        else f"free {line.node.get_name()}" if isinstance(line, inductor.FreeIfNotReusedLine)
        else line if isinstance(line, str) else type(line).__name__
        for line in lines
    ]  # fmt: skip


def test_small_kernels_share_a_launch_until_aten_is_called():
    lines = [
        launch("a", "b"),
        free("a"),
        "# comment",
        launch("b", "c"),
        launch("c", "d"),
        "aten.sort(d)",
        launch("d", "e"),
    ]
    assert places(joined(lines, GENERIC)) == ["# comment", "b+c+d", "free a", "aten.sort(d)", "e"]


def test_a_launch_does_not_move_behind_the_end_of_a_name():
    lines = [launch("a", "b"), reuse("a"), launch("b", "c"), reuse("x"), launch("c", "d")]
    assert places(joined(lines, GENERIC)) == ["b", "ReuseLine", "ReuseLine", "c+d"]


def test_large_kernels_have_a_launch_each():
    lines = [launch("a", "b", 2**20), launch("b", "c"), launch("c", "d")]
    assert places(joined(lines, GENERIC)) == ["b", "c+d"]


def test_memory_that_kernels_share_lasts_until_the_wait():
    lines = [ScratchLine("s = empty()"), LaunchLine("k0()"), _Dead("s"), "aten.sort(x)"]
    assert [type(line).__name__ for line in with_waits(lines)] == ["ScratchLine", "LaunchLine", "WaitLine", "str"]
    assert shown(with_waits(lines))[2] == "wait, del s"


@pytest.mark.parametrize(
    ("numel", "cuts", "sizes"),
    [
        (24, [], [24]),
        (24, [6], [4, 6]),
        (24, [2, 6], [4, 3, 2]),
        (24, [1, 24], [24]),
        (24, [4, 6], [6, 4]),
        (1, [], []),
    ],
)
def test_digits(numel, cuts, sizes):
    axes = digits(index(numel), map(index, cuts), "i")
    assert [a.size.constant for a in axes] == sizes


def test_loop_variables_are_digits_where_they_fit():
    axes = digits(index(24), [index(6)], "i")
    slow, fast = axes
    flat = flat_position(axes)
    assert part_of(flat, index(1), index(6)) == atom(fast)
    assert part_of(flat, index(6), index(4)) == atom(slow)
    assert str(part_of(flat, index(4), index(6))) != str(atom(slow))  # a division that stays


def scatter(place, rows):
    body = (ir.Load(0, atom(rows[0]), "int64"), ir.Const(1.0, "float32"), ir.Update(1, place, 1, "add"))
    buffers = (ir.Buffer("i", "int64", False), ir.Buffer("out", "float32", True))
    return ir.GroupIR(("scatter",), rows, (), buffers, body)


def test_only_axes_that_never_meet_run_side_by_side():
    i, j = Axis("i", index(8)), Axis("j", index(4))
    chosen = atom(Loaded(0, index(5)))
    apart = spread(scatter(chosen * 4 + atom(j), (i, j)))
    assert (apart.rows, apart.cols) == ((j,), (i,))
    mixed = spread(scatter(chosen * 2 + atom(j), (i, j)))  # places 2 apart, four of them: they meet
    assert (mixed.rows, mixed.cols) == ((), (i, j))


def test_scans_are_told_by_what_they_do():
    def add(a, b):
        return (a[0] + b[0],)

    def other(a, b):
        return (a[0] - b[0],)

    high = inductor_ir.get_reduction_combine_fn("argmax", dtype=torch.float32, arg_break_ties_left=False)
    first = inductor_ir.get_reduction_combine_fn("argmax", dtype=torch.float32)
    assert scan_function(add, (torch.float32,)) == "sum"
    assert scan_function(other, (torch.float32,)) is None
    assert scan_function(high, (torch.float32, torch.int64)) == "argmax"
    assert scan_function(first, (torch.float32, torch.int64)) is None


def test_literals_follow_the_type_of_the_others():
    body = Body()
    x = Value(body.scalar(ir.HostFloat("x")).to("float32"), torch.bfloat16)
    n = Value(body.scalar(ir.Coord(atom(Axis("i", index(3))))))
    one, half = Value(body.const(1, "int32")), Value(body.const(0.5, "float32"))
    assert promoted([x, one]) == torch.bfloat16
    assert promoted([n, one]) == torch.int64
    assert promoted([n, half]) == torch.float32
    assert promoted([one, 2]) == torch.int32


def test_every_row_that_is_used_takes_promoted_operands_only():
    assert row_formula("polygamma") is None  # its order keeps its own type
    assert row_formula("erf") is not None
    assert callable(Overrides.add) and callable(Overrides.bitwise_xor)
