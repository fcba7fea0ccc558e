"""When the compiler contradicts itself, the user still gets eager's numbers, and is told."""

from __future__ import annotations

import pytest
import torch

from aten_backend import once, pipeline
from lowering.errors import ArtifactError


def program(x):
    return torch.softmax(x * 2, -1) @ x.t()


@pytest.fixture
def broken_build(monkeypatch):
    """Every group fails to build."""
    monkeypatch.setenv("XPU_ATEN_VERIFY", "off")

    def fail(cut, group):
        raise ArtifactError("made up for this test")

    monkeypatch.setattr(pipeline, "build", fail)
    monkeypatch.setattr(once, "_seen", set())


def test_the_group_is_left_to_eager_with_a_warning(broken_build):
    x = torch.randn(5, 7)
    with pytest.warns(UserWarning, match="a bug of its own.*made up for this test"):
        got = torch.compile(program, backend="xpu_aten")(x)
    torch.testing.assert_close(got, program(x))


def test_who_asks_for_errors_gets_the_error(broken_build):
    with pytest.raises(Exception, match="made up for this test"):
        torch.compile(program, backend="xpu_aten", options={"fallback": "error"})(torch.randn(5, 7))
