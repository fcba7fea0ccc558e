"""Measuring which schedule is best, once for each kernel, its sizes and the device; the choice is kept on disk."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from lowering import graph
from lowering.alternatives import alternatives
from lowering.assemble import Kernel, Phase
from lowering.dtypes import TORCH
from lowering.emit import emit
from lowering.ir import Buffer
from lowering.partition import Group, Partition
from lowering.target import Traits
from runtime.cache import write_whole
from runtime.compiler import KernelCompiler
from runtime.devices import Device
from runtime.errors import KernelCompileError, LaunchError
from runtime.launcher import build_kernel

logger = logging.getLogger(__name__)

Launch = tuple[tuple[Phase, ...], tuple[Group, ...]]
"""Phases that run one after the other in one kernel, and the group of each."""

SLICE = 2e-3
"""Seconds that one measurement lasts, at least one run."""

ROUNDS = 5
"""Measurements of each alternative, taken in turn; the least counts."""

GAIN = 0.95
"""An alternative is taken where it needs at most so much of the planned time: less is noise."""

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Tuner:
    """Chooses among the alternatives of each launch by measuring them on ``device`` with made-up inputs. Choices are
    kept in ``folder``, or nowhere where that is None."""

    device: Device
    traits: Traits
    workers: KernelCompiler
    folder: pathlib.Path | None

    def __call__(self, launches: Sequence[Launch], cut: Partition) -> list[Launch]:
        """The fastest way found for each of ``launches``; those whose sizes are not known stay as they are."""
        tuned: list[Launch] = []
        for phases, owners in launches:
            rest = iter(owners)
            for part in self._best(phases, cut):
                tuned.append((part, tuple(next(rest) for _ in part)))
        return tuned

    def _best(self, launch: tuple[Phase, ...], cut: Partition) -> tuple[tuple[Phase, ...], ...]:
        choices = alternatives(launch, self.traits)
        kernels = {name: [emit(p, self.traits.local_memory) for p in parts] for name, parts in choices.items()}
        if len(choices) == 1 or not all(map(_has_known_sizes, kernels["planned"])):
            return choices["planned"]
        path = self._path(kernels)
        name = self._kept(path, choices)
        if name is None:
            with unset_fake_temporarily():  # torch.compile traces meanwhile, and these tensors are real
                times = self._measure(kernels, cut)
            name = min(times, key=lambda n: times[n] * (1 if n == "planned" else 1 / GAIN))
            report = ", ".join(f"{n} {seconds * 1e6:.1f} us" for n, seconds in times.items())
            logger.info("%s: %s; kept: %s", kernels["planned"][0].source.name, report, name)
            self._keep(path, {"choice": name, "seconds": times})
        return choices[name]

    @staticmethod
    def _keep(path: pathlib.Path | None, record: Mapping[str, object]) -> None:
        try:
            if path is not None:
                write_whole(path, json.dumps(record).encode())
        except OSError as error:
            logger.warning("choices cannot be kept in %s: %s. They are measured anew in each process.", path, error)

    def _path(self, kernels: Mapping[str, Sequence[Kernel]]) -> pathlib.Path | None:
        if self.folder is None:
            return None
        texts = {n: [(k.source.name, [str(s) for s in k.global_size]) for k in found] for n, found in kernels.items()}
        parts = (FORMAT, self.device.name, self.device.driver_version, self.traits.compute_units, texts)
        return self.folder / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}.json"

    @staticmethod
    def _kept(path: pathlib.Path | None, choices: Mapping[str, object]) -> str | None:
        """The choice made earlier; None where there is none, or its file is damaged."""
        try:
            found = json.loads(path.read_bytes())["choice"] if path is not None else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("the kept choice %s is damaged (%s); measuring again", path, error)
            return None
        return found if found in choices else None

    # ---- measuring

    def _measure(self, kernels: Mapping[str, Sequence[Kernel]], cut: Partition) -> dict[str, float]:
        """Seconds for one run of each alternative."""
        futures = {k.source.name: self.workers.submit(k.source) for found in kernels.values() for k in found}
        memory: dict[str, Tensor] = {}
        runs: dict[str, Callable[[], None]] = {}
        for name, found in kernels.items():
            try:
                bound = [build_kernel(self.device, futures[k.source.name].result(), k.source).bind() for k in found]
            except (KernelCompileError, LaunchError) as error:
                if name == "planned":
                    raise
                logger.info("%s, %s: not tried: %s", kernels["planned"][0].source.name, name, error)
                continue
            given = [(_arguments(k, memory, cut), _size(k)) for k in found]
            runs[name] = _runner(list(zip((b.launch for b in bound), given, strict=True)))
        best = {name: self._time(run) for name, run in runs.items()}
        for _ in range(ROUNDS - 1):
            for name, run in runs.items():
                best[name] = min(best[name], self._time(run))
        return best

    def _time(self, run: Callable[[], None]) -> float:
        """Seconds of one run among as many as fill the slice, the wait at the end shared."""
        run()
        self.device.wait()
        count, start = 0, time.perf_counter()
        while count == 0 or time.perf_counter() - start < SLICE:
            run()
            count += 1
            if count % 16 == 0:
                self.device.wait()  # submitting runs ahead of the device
        self.device.wait()
        return (time.perf_counter() - start) / count


def _runner(
    launches: Sequence[tuple[Callable[..., None], tuple[tuple[float, ...], tuple[int, ...]]]],
) -> Callable[[], None]:
    def run() -> None:
        for launch, (arguments, size) in launches:
            launch(arguments, size)

    return run


def _has_known_sizes(kernel: Kernel) -> bool:
    return not kernel.symbols and all(s.constant is not None for s in kernel.global_size)


def _size(kernel: Kernel) -> tuple[int, ...]:
    return tuple(s.constant or 0 for s in kernel.global_size)


def _arguments(kernel: Kernel, memory: dict[str, Tensor], cut: Partition) -> tuple[float, ...]:
    """Arguments as a plan would pass them: memory by buffer, the same for all alternatives."""
    nodes = {n.name: n for n in cut.gm.graph.nodes}
    for buffer in kernel.buffers:
        if buffer.name not in memory:
            memory[buffer.name] = _made_up(buffer, nodes)
    addresses: list[float] = [memory[b.name].data_ptr() for b in kernel.buffers]
    if kernel.checks:
        error = memory.setdefault("the error cell", torch.zeros((), dtype=torch.int64))
        return (*addresses, *[1.0] * len(kernel.floats), error.data_ptr(), 1)
    return (*addresses, *[1.0] * len(kernel.floats))


def _made_up(buffer: Buffer, nodes: Mapping[str, torch.fx.Node]) -> Tensor:
    """Memory for ``buffer``: random floats, not from the generator of the user's; zeros for integers, which may be
    indexes."""
    if buffer.scratch is not None:
        return torch.zeros(buffer.scratch.constant or 0, dtype=TORCH[buffer.dtype])
    node = nodes[buffer.name]
    dtype = graph.dtype(node)
    shape, strides = ([s.constant or 0 for s in part] for part in (graph.shape(node), graph.strides(node)))
    made = torch.empty_strided(shape, strides, dtype=dtype)
    return made.uniform_(generator=torch.Generator().manual_seed(0)) if dtype.is_floating_point else made.zero_()
