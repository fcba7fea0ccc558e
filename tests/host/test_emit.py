"""Kernel text: names, hashes, and what each part of the group IR turns into."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest
import torch

from lowering import ir
from lowering.assemble import Phase
from lowering.combine import identity_text
from lowering.emit import emit
from lowering.index import ZERO, Axis, Symbol, atom, index
from lowering.schedule import Mapping, choose
from lowering.target import GENERIC
from lowering.verify import LANGUAGE, verify_kernel
from support import ROOT, lowered

N, LONG = index(64), index(4096)


def group(size=N, dtype="float32", fn="neg") -> ir.GroupIR:
    """out = fn(in), in one loop."""
    i = Axis("i0", size)
    buffers = (ir.Buffer("x", dtype, False), ir.Buffer("y", dtype, True))
    body = (ir.Load(0, atom(i), dtype), ir.Call(fn, (0,), dtype), ir.Store(1, atom(i), 1))
    return ir.GroupIR((f"aten.{fn}.default",), (i,), (), buffers, body)


def total(fn="sum", dtype="float32", cols=LONG) -> ir.GroupIR:
    """Rows of a matrix combined."""
    i, j = Axis("i0", index(8)), Axis("j1", cols)
    buffers = (ir.Buffer("x", dtype, False), ir.Buffer("y", "int64" if fn.startswith("arg") else dtype, True))
    kind = "int64" if fn.startswith("arg") else dtype
    load = ir.Load(0, atom(i) * cols + atom(j), dtype)
    body: tuple[ir.Statement, ...]
    if fn.startswith("arg"):
        body = (load, ir.Coord(atom(j)), ir.Reduce(fn, 0, kind, position=1), ir.Store(1, atom(i), 2))
    else:
        body = (load, ir.Reduce(fn, 0, kind), ir.Store(1, atom(i), 1))
    return ir.GroupIR((f"aten.{fn}.default",), (i,), (j,), buffers, body)


def kernel(body):
    found = emit([Phase(body, choose(body, GENERIC))])
    verify_kernel(found)
    return found


def test_names_are_made_of_what_changes_the_binary():
    assert kernel(group()).source == kernel(group()).source
    names = {
        kernel(body).source.name for body in (group(), group(dtype="float64"), group(fn="abs"), total(), total("max"))
    }
    assert len(names) == 5
    assert all(name.isidentifier() for name in names)
    assert kernel(group()).source.name.startswith("neg_")


def test_tensor_names_do_not_matter():
    body = group()
    other = tuple(ir.Buffer(f"other_{b.name}", b.dtype, b.written) for b in body.buffers)
    renamed = ir.GroupIR(body.ops, body.rows, body.cols, other, body.body)
    assert kernel(renamed).source == kernel(body).source


def test_sizes_that_fill_work_groups_are_no_part_of_the_text():
    """The launch gives the range: one binary for many lengths."""
    assert kernel(group(index(2**16))).source == kernel(group(index(2**16 + 2**14))).source


def test_work_items_beyond_the_extent_do_nothing():
    found = kernel(group(index(100_003)))
    assert found.source.local_size == (1024,)
    assert found.global_size == (index(98 * 1024),)
    assert "if i0 < np.int64(100003):" in found.source.text


def test_symbols_are_parameters():
    n = Symbol("s0", 2)
    found = kernel(total(cols=atom(n)))
    assert found.symbols == (n,)
    assert [p.name for p in found.source.params if p.kind == "scalar"] == ["n0"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fn", ["sum", "prod", "max", "min", "argmax", "argmin"])
def test_reductions(fn, dtype):
    found = kernel(total(fn, dtype))
    assert found.schedule.mapping is Mapping.ROWS
    assert found.source.local_size == (GENERIC.lanes,)
    stores = [line for line in found.source.text.splitlines() if line.lstrip().startswith("b1[")]
    assert len(stores) == 1


def test_long_sums_are_blocked():
    """Rounding errors of a plain running sum grow with its length: partial sums are set aside."""
    assert "s1 = " in kernel(total(cols=index(1 << 20))).source.text
    assert "s1 = " not in kernel(total(cols=index(256))).source.text


def test_half_types_travel_as_bits():
    (one,) = lowered(lambda x: x * 2, torch.randn(8).bfloat16())
    (found,) = one.plan.kernels
    assert [p.dtype for p in found.source.params] == ["uint16", "uint16"]
    assert "bf16_to_f32(b0" in found.source.text
    assert "f32_to_bf16(" in found.source.text


def test_no_elements_no_work():
    text = kernel(group(ZERO)).source.text
    assert "pass" in text


@pytest.mark.parametrize(
    ("fn", "dtype", "value"),
    [
        ("sum", "float32", "np.float32(0.0)"),
        ("max", "float64", "np.float64(-np.inf)"),
        ("min", "int8", "np.int8(127)"),
        ("max", "uint8", "np.uint8(0)"),
        ("any", "bool", "False"),
        ("prod", "int64", "np.int64(1)"),
    ],
)
def test_identities(fn, dtype, value):
    assert identity_text(fn, dtype) == value


def test_texts_are_python():
    for body in (group(), total(), total("argmax")):
        ast.parse(kernel(body).source.text)


def test_the_kernel_language_is_the_one_implemented():
    """The names that texts may use, and those that the compiler process knows, in its own interpreter."""
    code = "import importlib.util as u, sys; s = u.spec_from_file_location('k', sys.argv[1]); m = u.module_from_spec(s)"
    code += "; s.loader.exec_module(m); print(*m.LANGUAGE)"
    file = ROOT / "runtime" / "kernel_language.py"
    python = os.environ.get("XPU_ATEN_COMPILER_PYTHON") or sys.executable
    done = subprocess.run([python, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == set(LANGUAGE)
