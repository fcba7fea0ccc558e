"""What a plan is once it is written, and the names that its text uses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._C._dynamo import guards as native

from lowering.assemble import Kernel
from lowering.faults import FAULTS, SITE_BITS

from .memory import allocate


@dataclasses.dataclass(frozen=True)
class Step:
    """What the lines ``first`` to ``last`` of a plan's text run (the first line is 1): kernels, or one call of ATen.

    ``label`` is the first kernel's name or the op's, ``nodes`` the names of the nodes behind it, ``source`` the user's
    line of the first that has one. ``launches`` counts kernels: 0 for ATen, and for a group that a kernel computes
    which an earlier step has launched; ``kernel`` tells these apart.
    """

    first: int
    last: int
    label: str
    nodes: tuple[str, ...]
    source: str
    launches: int
    kernel: bool


@dataclasses.dataclass(frozen=True)
class LaunchPlan:
    """``text`` defines ``call(args)``; ``constants`` are the names that it uses besides torch's; ``kernels`` are
    launched as k0, k1, ... in the order of their first use, one entry a launch. ``steps`` are those of the partition,
    in order, each with its lines of the text."""

    text: str
    constants: Mapping[str, Any]
    kernels: tuple[Kernel, ...]
    extern_calls: int
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return self.text


_no_errors: list[torch.Tensor] = []


def no_error() -> torch.Tensor:
    """An int64 that is zero, for kernels to note what fails. From those that were checked: making one takes longer than
    many kernels do."""
    try:
        return _no_errors.pop()
    except IndexError:
        return torch.zeros((), dtype=torch.int64)


def check_error(error: torch.Tensor, checks: Sequence[tuple[int, int, int]]) -> None:
    """Raise what a kernel has noted: which of ``checks`` (code, dimension, size of each) failed, and at which index.
    ``error`` is not the caller's any more."""
    if word := int(error):
        code, dim, size = checks[(word & ((1 << SITE_BITS) - 1)) - 1]
        raise FAULTS[code].error(word >> SITE_BITS, dim, size)
    _no_errors.append(error)


def namespace(
    constants: Mapping[str, Any], launches: Sequence[Callable[..., None]], wait: Callable[[], None]
) -> dict[str, Any]:
    """The globals of a plan's text."""
    names = {
        "torch": torch,
        "math": math,
        # half the time of torch.empty_strided and as_strided; views know nothing of autograd, which is not on here
        "empty_strided": native._empty_strided_cpu,  # type: ignore[attr-defined]
        "allocate": allocate,
        "reinterpret": native._reinterpret_tensor,  # type: ignore[attr-defined]
        "_conj": torch._conj,
        "_neg_view": torch._neg_view,
        "wait": wait,
        "no_error": no_error,
        "check": check_error,
    }
    return {**names, **constants, **{f"k{i}": launch for i, launch in enumerate(launches)}}
