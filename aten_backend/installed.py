"""What is installed."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """The versions of Python and of ``packages``; None of those that are not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in packages}}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
