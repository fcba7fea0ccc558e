"""xpu_aten: a compiler for PyTorch that joins at the ATen level. Importing this package loads nothing heavy."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aten_backend.comparison.entry import compare as compare
    from aten_backend.explanation import Explanation as Explanation
    from aten_backend.explanation import explain as explain
    from aten_backend.options import Options as Options
    from aten_backend.profiling import Profile as Profile
    from aten_backend.profiling import profile as profile

__all__ = ["Explanation", "Options", "Profile", "compare", "explain", "profile"]

_PUBLIC = {
    "compare": "aten_backend.comparison.entry",
    "explain": "aten_backend.explanation",
    "Explanation": "aten_backend.explanation",
    "Options": "aten_backend.options",
    "Profile": "aten_backend.profiling",
    "profile": "aten_backend.profiling",
}


def _check_neighbours() -> None:
    """``lowering`` and ``runtime`` are common words: make sure that ours are the ones Python finds."""
    here = pathlib.Path(__file__).resolve().parent.parent
    for name in ("lowering", "runtime"):
        spec = importlib.util.find_spec(name)
        found = pathlib.Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if found is None or found.parent.parent != here:
            raise ImportError(
                f"xpu_aten needs its own package `{name}` (in {here}), but Python finds {found or 'none'} first. "
                f"Rename that file, or move it off sys.path."
            )


_check_neighbours()


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)
