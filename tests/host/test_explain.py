"""`explain` needs neither a device nor numba-dpex, and leaves nothing out."""

from __future__ import annotations

import json
import os

import torch

import aten_backend
from support import ROOT, python

WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"dpctl", "numba_dpex", "numba", "dpnp", "llvmlite"}:
            raise ImportError(f"{name} is not to be imported")

sys.meta_path.insert(0, Refuse())
import torch, aten_backend

def f(x, w):
    return torch.softmax(x @ w, -1) + x.view(torch.int32)

found = aten_backend.explain(f, torch.randn(4, 4), torch.randn(4, 4))
print(found.to_json())
"""


def test_needs_no_device_and_no_compiler():
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XPU_ATEN_COMPILER_PYTHON": os.path.join(os.sep, "nowhere")}
    done = python(WITHOUT, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {e["op"] for e in found["externs"]} == {"aten.mm.default", "aten.view.dtype"}
    assert found["graphs"] == 1
    (group,) = found["groups"]
    assert "aten.exp.default" in group["ops"]
    assert group["text"].startswith("def ")
    assert 0 < found["coverage"] < 1


def f(x, w):
    y = torch.relu(x * 2)
    return torch.softmax(y @ w, -1)


def test_what_it_tells():
    found = aten_backend.explain(f, torch.randn(4, 4), torch.randn(4, 4))
    assert [e.op for e in found.externs] == ["aten.mm.default"]
    assert found.externs[0].deliberate
    assert "y @ w" in found.externs[0].source
    assert len(found.groups) == 2
    assert any("torch.relu(x * 2)" in line for line in found.groups[0].sources)
    text = str(found)
    for part in ("1 graphs", "2 kernel", "aten.mm.default", "test_explain.py", "a tuned library call"):
        assert part in text
    json.loads(found.to_json())


def test_everything_fused_is_full_coverage():
    found = aten_backend.explain(lambda x: x.exp() + 1, torch.randn(4))
    assert found.coverage == 1
    assert found.externs == ()
    assert aten_backend.explain(lambda x: x.t(), torch.randn(4, 4)).coverage == 1


def test_forward_and_backward_are_two_graphs():
    w = torch.randn(4, 4, requires_grad=True)
    assert aten_backend.explain(lambda x: (x @ w).relu().sum(), torch.randn(4, 4)).graphs == 2


def test_options_count():
    found = aten_backend.explain(lambda x: x.exp() + 1, torch.randn(4), options={"disable_ops": ["aten.exp"]})
    assert [(e.op, e.reason) for e in found.externs] == [("aten.exp.default", "switched off by the option disable_ops")]
    prims = aten_backend.explain(lambda x: x.exp() + 1, torch.randn(4), options={"ir": "prims"})
    assert all(op.startswith("prims.") for g in prims.groups for op in g.ops)


def test_device_is_never_opened(monkeypatch):
    def refuse(*args):
        raise AssertionError("explain opened a device")

    monkeypatch.setattr("runtime.devices.resolve", refuse)
    aten_backend.explain(lambda x: x + 1, torch.randn(4))


def test_what_would_make_it_better():
    def model(x, w):
        y = (x * 2).exp().view(torch.int32)
        return y.sin().t().contiguous() @ w

    found = aten_backend.explain(model, torch.randn(32, 32), torch.randn(32, 32))
    split, copy = sorted(found.advice, key=lambda a: a.kind, reverse=True)
    assert (split.kind, copy.kind) == ("split", "copy")
    assert "aten.view.dtype keeps the kernels of exp and" in split.text
    assert "view" in split.source and "contiguous" in copy.source
    assert "aten.mm.default" in copy.text and copy.bytes == 2 * 32 * 32 * 4
    assert "what would make it better" in str(found)
    assert json.loads(found.to_json())["advice"][0]["kind"] in ("split", "copy")


def test_good_programs_get_no_advice():
    assert aten_backend.explain(f, torch.randn(4, 4), torch.randn(4, 4)).advice == ()


def test_graph_breaks_are_told():
    def model(x):
        y = x.sin()
        print("here")
        return y.cos()

    found = aten_backend.explain(model, torch.randn(4))
    assert found.graphs == 2
    assert any(a.kind == "graph break" and "print" in a.text for a in found.advice)
    assert aten_backend.explain(f, torch.randn(4, 4), torch.randn(4, 4)).advice == ()


def test_the_page_holds_everything_and_loads_nothing():
    page = aten_backend.explain(f, torch.randn(4, 4), torch.randn(4, 4)).to_html()
    for part in ("aten.mm.default", "a tuned library call", "test_explain.py", "def ", "coverage"):
        assert part in page
    assert "src=" not in page and "<link" not in page
