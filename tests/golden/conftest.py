"""The flag that accepts the kernels as they are now."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Works for `pytest tests/golden --accept`: the option exists when this folder is named on the command line."""
    parser.addoption("--accept", action="store_true", help="keep the kernels that are emitted now as the expected ones")
