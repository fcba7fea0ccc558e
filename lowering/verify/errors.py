"""How a broken rule is reported."""

from __future__ import annotations

from typing import NoReturn

from ..errors import ArtifactError


def broken(artefact: str, rule: str) -> NoReturn:
    """Raise the error for ``artefact``."""
    raise ArtifactError(f"{artefact}: {rule}. This is a bug of the compiler: report it, with TORCH_LOGS=+lowering.")
