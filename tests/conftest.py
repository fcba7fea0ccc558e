"""Set-up every test gets: own caches, a fixed seed, and no compiled code left over from the test before."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _session_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Caches start empty, so that a result never rests on what an earlier version compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XPU_ATEN_CACHE_DIR", str(tmp_path_factory.mktemp("xpu_aten_cache")))
        # torch keeps what AOTAutograd made there, for every backend.
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("torch_cache")))
        # Every compile of every test is held against the specification of its artefacts, in child processes too.
        patch.setenv("XPU_ATEN_VERIFY", "artifacts")
        yield


@pytest.fixture(autouse=True)
def _fresh_state() -> None:
    torch.manual_seed(0)
    # Tests that never compile should not pay for importing Dynamo.
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
