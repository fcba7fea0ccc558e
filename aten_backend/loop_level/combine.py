"""Which scan a combining function of Inductor's is: told by what it does with two symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.ops_handler import MockHandler
from torch._inductor.virtualized import V, ops

Combine = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]


def scan_function(combine: Combine, dtypes: tuple[torch.dtype, ...]) -> str | None:
    """The function of ``lowering.ir.Scan`` that combines as ``combine`` does, or None."""
    known: dict[str, Combine] = (
        {"sum": _sum, "prod": _product, "logaddexp": _log_add_exp}
        if len(dtypes) == 1
        else {
            fn: ir.get_reduction_combine_fn(fn, dtype=dtypes[0], arg_break_ties_left=False)
            for fn in ("argmax", "argmin")
        }
    )
    wanted = _trace(combine, len(dtypes))
    return next((fn for fn, other in known.items() if _trace(other, len(dtypes)) == wanted), None)


def _trace(combine: Combine, arity: int) -> list[str]:
    with V.set_ops_handler(MockHandler()):
        a, b = (tuple(_symbol(f"{side}{n}") for n in range(arity)) for side in "ab")
        return [str(result) for result in combine(a, b)]


def _symbol(name: str) -> Any:
    return ops.identity(name)


def _sum(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return (ops.add(a[0], b[0]),)


def _product(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return (ops.mul(a[0], b[0]),)


def _log_add_exp(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    low, high = ops.minimum(a[0], b[0]), ops.maximum(a[0], b[0])
    differ = (low != high) | (~ops.isinf(low))
    return (ops.where(differ, ops.log1p(ops.exp(low - high)) + high, a[0]),)
