"""Foreach ops, which optimizers use, taken apart into one op a tensor: fusion then makes few kernels of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_PREFIX = "_foreach_"
_SINGLE: dict[str, Callable[..., Tensor]] = {
    "addcdiv": lambda x, a, b, value=1: torch.addcdiv(x, a, b, value=value),
    "addcmul": lambda x, a, b, value=1: torch.addcmul(x, a, b, value=value),
    "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
    "copy": lambda x, source, non_blocking=False: source.to(x.dtype).expand_as(x).clone(),
    "zero": torch.zeros_like,
    "max": torch.amax,
}
"""Where the op on one tensor is called differently; all others are torch functions of the same name."""


def _taken_apart(name: str) -> Callable[..., list[Tensor]]:
    single = _SINGLE.get(name) or getattr(torch, name)

    def foreach(*args: Any, **kwargs: Any) -> list[Tensor]:
        args = tuple(
            list(a.unbind()) if name.startswith("addc") and n == 3 and isinstance(a, Tensor) else a
            for n, a in enumerate(args)
        )
        count = next(len(a) for a in args if isinstance(a, (list, tuple)))
        return [single(*(a[i] if isinstance(a, (list, tuple)) else a for a in args), **kwargs) for i in range(count)]

    return foreach


def foreach_decompositions() -> dict[torch._ops.OperatorBase, Callable[..., Any]]:
    """A decomposition for every functional foreach op."""
    table: dict[torch._ops.OperatorBase, Callable[..., Any]] = {}
    for qualified in torch._C._dispatch_get_all_op_names():
        name = qualified.partition("::")[2].partition(".")[0]
        single = name.removeprefix(_PREFIX)
        if not qualified.startswith(f"aten::{_PREFIX}") or not (single in _SINGLE or hasattr(torch, single)):
            continue
        packet = getattr(aten, name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if not op._schema.is_mutable:
                table[op] = _taken_apart(single)
    return table
