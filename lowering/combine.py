"""What combining values is, as kernel text: identities, which value wins, and by which function."""

from __future__ import annotations

from .dtypes import is_float, is_unsigned
from .scalars import call_text, constant_text

COMBINE = {
    "logaddexp": "logaddexp",
    "sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and",
}  # fmt: skip


def group_type(dtype: str) -> str:
    """The type in which values of ``dtype`` go through a group instruction: small integers as 32 bits."""
    if is_float(dtype) or dtype.endswith(("32", "64")):
        return dtype
    return "uint32" if is_unsigned(dtype) else "int32"


def identity_text(fn: str, dtype: str) -> str:
    """The value that leaves a combination unchanged."""
    if fn in ("max", "min"):
        if dtype == "bool":
            return str(fn == "min")
        if is_float(dtype):
            return constant_text(float("-inf") if fn == "max" else float("inf"), dtype)
        bits = int(dtype.lstrip("uint"))
        low, high = (0, 2**bits - 1) if is_unsigned(dtype) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return constant_text(low if fn == "max" else high, dtype)
    if fn == "logaddexp":
        return constant_text(float("-inf"), dtype)
    return constant_text({"sum": 0, "prod": 1, "any": False, "all": True}[fn], dtype)


def wins(fn: str, value: str, best: str, dtype: str) -> str:
    """Whether ``value`` replaces ``best``: strictly better, or the first NaN."""
    better = call_text("gt" if fn == "argmax" else "lt", dtype, [value, best])
    return (
        f"({better} and ({best} == {best})) or (({value} != {value}) and ({best} == {best}))"
        if is_float(dtype)
        else better
    )


def ties(value: str, best: str, dtype: str) -> str:
    """Whether both are the extreme so far, so that the earlier position counts, in whatever order the loops run."""
    same = call_text("eq", dtype, [value, best])
    return f"{same} or (({value} != {value}) and ({best} != {best}))" if is_float(dtype) else same


def wins_last(fn: str, value: str, best: str, dtype: str) -> str:
    """The same where the last of equals counts, as in ATen's cummax and cummin."""
    better = call_text("ge" if fn == "argmax" else "le", dtype, [value, best])
    return f"{better} or ({value} != {value})" if is_float(dtype) else better
