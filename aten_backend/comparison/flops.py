"""How much a workload computes, and how fast this machine computes and moves memory: the two sides of a roofline.

After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (2009), and the triad of
McCalpin's STREAM (1995).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry, sdpa_backward_flop_count, sdpa_flop_count

_MOVES = frozenset(
    ("clone", "copy", "copy_", "_to_copy", "cat", "index", "index_select", "gather", "embedding")
    + ("fill_", "zero_", "constant_pad_nd")
)
_TRIAD, _MATRIX, _TRIES = 2**24, 1024, 10


def _attention(query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **others: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **others: Any
) -> int:
    return int(sdpa_backward_flop_count(gradient, query, key, value))


_ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
"""Attention on CPUs, which torch's registry lacks. Called with shapes."""


def count(run: Callable[[], Any]) -> int:
    """Arithmetic operations of one run in eager.

    Of matrix products, convolutions and attention, what torch.utils.flop_counter says; of every other op one for each
    element that it makes, or reduces, whatever its formula. Views and what only moves elements count nothing.
    """
    large = FlopCounterMode(display=False, custom_mapping=_ATTENTION)
    with large, _Elements() as small:
        run()
    return int(large.get_total_flops()) + small.elements


class _Elements(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        counted = packet in flop_registry or packet in _ATTENTION
        if not counted and not func.is_view and packet.__name__ not in _MOVES:
            given = [leaf.numel() for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            made = sum(leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
            # One operand alone is reduced; of several, some may be tables of which little is read. None: a factory.
            self.elements += max(*given, made) if len(given) == 1 else made if given else 0
        return result


def peaks() -> dict[str, float]:
    """``bytes_per_second`` of a triad in float32 over memory that no cache holds, ``flops_per_second`` of a matrix
    product in float32: the best of several tries each, by ATen with its threads."""
    a, b, c = (torch.ones(_TRIAD) for _ in range(3))
    x, y, z = (torch.ones(_MATRIX, _MATRIX) for _ in range(3))
    return {
        "bytes_per_second": 3 * a.nbytes / _best(lambda: torch.add(a, b, alpha=3.0, out=c)),
        "flops_per_second": 2 * _MATRIX**3 / _best(lambda: torch.mm(x, y, out=z)),
    }


def _best(run: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(_TRIES):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
