"""Warnings that come once."""

from __future__ import annotations

import warnings

_seen: set[str] = set()


def warn_once(message: str, cause: str | None = None, stacklevel: int = 2) -> None:
    """Warn, but only the first time in this process for the same ``cause`` (the message, where none is given).
    ``stacklevel`` counts from the caller, as in `warnings.warn`."""
    key = message if cause is None else cause
    if key not in _seen:
        _seen.add(key)
        warnings.warn(message, stacklevel=stacklevel + 1)
