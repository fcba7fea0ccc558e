"""The executable specification of what the stages hand to each other.

Each function raises ArtifactError, naming the artefact and the rule that it breaks. The rules are stated anew, from the
meaning of the artefact, and never by calling the stage that made it.
"""

from __future__ import annotations

from .group import evaluate, verify_group, verify_launches, verify_parts, verify_schedule
from .partition import verify_classes, verify_partition
from .text import LANGUAGE, verify_kernel, verify_names

__all__ = [
    "LANGUAGE",
    "evaluate",
    "verify_classes",
    "verify_group",
    "verify_kernel",
    "verify_launches",
    "verify_names",
    "verify_partition",
    "verify_parts",
    "verify_schedule",
]
