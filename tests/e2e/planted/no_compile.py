"""A fault that no kernel compiler takes: erf has a name that the kernel language does not have."""

from __future__ import annotations

from lowering.scalars import FUNCTIONS, Function

FUNCTIONS["erf"] = Function("error_function({0})", cost=24)
