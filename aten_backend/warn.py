"""Warnings that are given once."""

from __future__ import annotations

import warnings

_given: set[str] = set()


def warn_once(message: str) -> None:
    """Warn with ``message``, once a process whatever the warning filters say, at the line of the caller's caller."""
    if message not in _given:
        _given.add(message)
        warnings.warn(message, stacklevel=3)
