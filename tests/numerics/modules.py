"""Samples of PyTorch's database of modules, forward and backward."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch.testing._internal.common_modules import ModuleInfo, module_db

from numerics.opinfo import Sample, seed_all

MODULES: dict[str, tuple[ModuleInfo, bool]] = {
    f"{info.name}.{mode}": (info, mode == "train") for info in module_db for mode in ("train", "eval")
}
"""Every module of the database, in train and in eval mode: what it is, and whether it trains."""


def samples(name: str, dtype: torch.dtype, count: int) -> Iterator[Sample]:
    """The first ``count`` samples of a module: its results, its gradients and its buffers are judged."""
    info, training = MODULES[name]
    seed_all(f"{name} {dtype}")
    made = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    usable = (s for s in made if s.forward_input is not None)
    for position, s in enumerate(itertools.islice(usable, count)):
        seed_all(f"{name} {position}")
        module = info.module_cls(*s.constructor_input.args, **s.constructor_input.kwargs).to(dtype).train(training)
        yield Sample(str(position), module, tuple(s.forward_input.args), dict(s.forward_input.kwargs), backward=True)
