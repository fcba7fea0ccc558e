"""Emitted kernels against the texts kept in `kernels/`, and each run against eager.

After a change that is meant to alter kernels, look at the difference that the failing test shows, then keep the new texts:
`pytest tests/golden --accept`.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from golden.cases import cases
from support import check, lowered

KERNELS = Path(__file__).with_name("kernels")
IRS = ("aten", "prims")


def emitted(name: str, ir: str) -> str:
    """All kernels of a case with the launches of its plan, without the hashes, which change with every character."""
    function, args = cases()[name]
    (one,) = lowered(function, *args, ir=ir)
    texts = [f"# {k.schedule.mapping.value}\n{k.source.text}" for k in one.distinct.values()]
    whole = "\n\n".join([*texts, one.plan.text])
    return re.sub(r"_[0-9a-f]{12}\b", "", whole).rstrip() + "\n"


@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("name", cases())
def test_kernel_is_the_one_kept(name, ir, request):
    path = KERNELS / f"{name}.{ir}.txt"
    text = emitted(name, ir)
    if request.config.getoption("--accept", default=False):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    changes = difflib.unified_diff(kept.splitlines(), text.splitlines(), "kept", "emitted", lineterm="")
    assert text == kept, "accept with `pytest tests/golden --accept`:\n" + "\n".join(changes)


@pytest.mark.device
@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("name", cases())
def test_kernel_computes_what_eager_does(name, ir):
    function, args = cases()[name]
    check(function, *args, ir=ir, dynamic=False, fused=False)  # what is left to ATen, the kept plan shows


def test_nothing_is_kept_for_nothing():
    expected = {f"{name}.{ir}.txt" for name in cases() for ir in IRS}
    assert {path.name for path in KERNELS.glob("*")} == expected
