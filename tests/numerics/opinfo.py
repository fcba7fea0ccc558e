"""One sample of one op of PyTorch's OpInfo database, compiled and judged."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import itertools
import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._dynamo
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, OpInfo, UnaryUfuncInfo
from torch.utils._pytree import tree_flatten, tree_map

import aten_backend.backend as backend_module
from aten_backend.numerics.policy import Work, compare, work_of
from aten_backend.observe import StageRunner
from lowering.partition import Partition

OPS: dict[str, OpInfo] = {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}
"""Every op of the database by its name and variant."""

WIDER = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex32: torch.complex128, torch.complex64: torch.complex128,
}  # fmt: skip
UNINITIALISED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
"""Ops whose results hold anything: only their shape, type and strides are judged."""


KNOWN: dict[tuple[str, torch.dtype], str] = {
    (
        "special.ndtr",
        torch.float64,
    ): "adds one to erf: in float64 nothing wider tells which of two erfs, a step apart, is nearer",
    (
        "float_power",
        torch.complex64,
    ): "exp(y log x) in complex128 is off by as many steps as y log x is large, eager's too, and nothing wider tells",
}
"""Differences from eager that are no fault, each with its reason. They must keep differing, or leave this list."""


class Verdict(enum.Enum):
    """What became of a sample."""

    OK = "ok"
    WRONG = "wrong"  # a result that breaks the policy
    ERROR = "error"  # an error that eager does not raise
    KNOWN = "known"  # differs, and is listed in KNOWN
    SKIPPED = "skipped"  # eager or plain tracing (backend="aot_eager") raises or differs as well


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One sample. ``externs`` are the ops left to ATen, each with its reason; ``fallbacks`` those not on purpose."""

    op: str
    sample: str
    verdict: Verdict
    detail: str = ""
    graphs: int = 0
    kernels: int = 0
    externs: tuple[tuple[str, str], ...] = ()
    fallbacks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Sample:
    """A call of an op or a module: ``fn(*args, **kwargs)``. With ``backward``, the gradients of the results, made
    unique by ``process``, count as results too, and a module's buffers."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    backward: bool = False
    pointwise: bool = False
    process: Callable[[Any], Any] = lambda result: result

    def fresh(self, dtype: torch.dtype | None = None) -> Callable[..., Any]:
        """What to call: of a module a copy, which has parameters and statistics of its own, in ``dtype``."""
        if not isinstance(self.fn, torch.nn.Module):
            return self.fn
        module = copy.deepcopy(self.fn)
        return module if dtype is None else module.to(dtype)

    def tensors(self) -> list[torch.Tensor]:
        """All tensors among the arguments."""
        return [v for v in tree_flatten((self.args, self.kwargs))[0] if isinstance(v, torch.Tensor)]


def seed_all(text: str) -> None:
    """Make what follows depend on ``text`` alone."""
    number = zlib.crc32(text.encode())
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)


def samples(name: str, dtype: torch.dtype, count: int, backward: bool = False) -> Iterator[Sample]:
    """The first ``count`` samples of op ``name``."""
    op = OPS[name]
    seed_all(f"{name} {dtype}")
    for position, s in enumerate(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=backward), count)):
        yield Sample(
            str(position), op.op, (s.input, *s.args), dict(s.kwargs), backward, not backward and is_pointwise(op),
            s.output_process_fn_grad,
        )  # fmt: skip


def is_pointwise(op: OpInfo) -> bool:
    """Whether each element of the result depends on one element of each argument, and is to be as exact as its size
    asks for. Functions that cancel near their zeros are only so exact as their largest values."""
    cancels = op.name.startswith(("special.bessel_", "special.airy_"))
    return isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo)) and not cancels


# ---- layouts ---------------------------------------------------------------------------------------------------------


def _transposed(t: torch.Tensor) -> torch.Tensor:
    return t.mT.contiguous().mT if t.dim() >= 2 else t


def _stepped(t: torch.Tensor) -> torch.Tensor:
    return t.repeat_interleave(2, dim=-1)[..., ::2] if t.dim() else t


def _offset(t: torch.Tensor) -> torch.Tensor:
    return torch.cat([t.reshape(-1)[:1], t.reshape(-1)])[1:].view(t.shape) if t.numel() else t


def _expanded(t: torch.Tensor) -> torch.Tensor:
    return t[..., :1].expand(t.shape) if t.dim() and t.numel() else t


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": _transposed, "stepped": _stepped, "offset": _offset, "expanded": _expanded,
}  # fmt: skip


def layout_samples(name: str, dtype: torch.dtype) -> Iterator[Sample]:
    """A sample with tensors of two or more dimensions in every layout of LAYOUTS."""
    found = list(samples(name, dtype, 12))
    if isinstance(OPS[name], UnaryUfuncInfo):  # its samples have one dimension
        found = [dataclasses.replace(s, args=_map_tensors(_folded, s.args)) for s in found]
    chosen = next((s for s in found if any(t.dim() >= 2 and t.numel() > 3 for t in s.tensors())), None)
    if chosen is None:
        return
    for layout, change in LAYOUTS.items():
        args, kwargs = _map_tensors(_if_strided(change), (chosen.args, chosen.kwargs))
        yield dataclasses.replace(chosen, name=f"{chosen.name} {layout}", args=args, kwargs=kwargs)


def _if_strided(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda t: change(t) if t.layout is torch.strided else t


def _folded(t: torch.Tensor) -> torch.Tensor:
    return t.reshape(4, -1) if t.dim() == 1 and t.numel() and t.numel() % 4 == 0 else t


def _map_tensors(change: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    return tree_map(lambda v: change(v) if isinstance(v, torch.Tensor) else v, tree)


# ---- running ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Record:
    """What the compiler did while it was watched."""

    cuts: list[Partition] = dataclasses.field(default_factory=list)
    kernels: int = 0

    def __call__(self, stage: str, artefact: Any, seconds: float) -> None:
        if stage == "partition":
            self._last = artefact
        elif stage == "plan":
            self._kernels = len(artefact.kernels)
        elif stage == "link":  # earlier attempts at the same graph do not count
            self.cuts.append(self._last)
            self.kernels += self._kernels


@contextlib.contextmanager
def _watched(record: _Record) -> Iterator[None]:
    """Let ``record`` see the stages of every graph compiled inside."""
    watching = lambda observers=(): StageRunner((*observers, record))  # noqa: E731
    with mock.patch.object(backend_module, "StageRunner", watching):
        yield


def _flat(result: Any) -> list[Any]:
    return tree_flatten(result)[0]


def _copies(sample: Sample) -> tuple[Any, Any]:
    """Arguments with the same strides and offsets that a call may overwrite, leaves for autograd."""

    def copied(t: torch.Tensor) -> torch.Tensor:
        if t.layout is not torch.strided or t.is_quantized or type(t) is not torch.Tensor or t.is_conj() or t.is_neg():
            return t.detach().clone().requires_grad_(t.requires_grad) if type(t) is torch.Tensor else t
        whole = t.untyped_storage().clone()
        new = torch.empty(0, dtype=t.dtype).set_(whole, t.storage_offset(), t.size(), t.stride())
        return new.requires_grad_(t.requires_grad)

    return _map_tensors(copied, (sample.args, sample.kwargs))


def _call(fn: Callable[..., Any], sample: Sample, args: Any, kwargs: Any, module: Any = None) -> list[Any]:
    """Results of ``fn``; with ``sample.backward`` gradients and the buffers of ``module`` too."""
    seed_all(sample.name)
    with torch.set_grad_enabled(sample.backward), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fn(*args, **kwargs)
        found = _flat(result)
        if not sample.backward:
            return found
        state = module if isinstance(module, torch.nn.Module) else torch.nn.Module()
        leaves = [v for v in _flat((args, kwargs)) if isinstance(v, torch.Tensor) and v.requires_grad]
        gradients = _gradients(_flat(sample.process(result)), [*leaves, *state.parameters()])
        found = [v.detach() if isinstance(v, torch.Tensor) else v for v in found]
        return [*found, *gradients, *state.buffers()]


def _gradients(results: list[Any], leaves: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """The gradient at each leaf for results that count more towards their end."""
    roots = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    if not roots or not leaves:
        return []
    weights = [torch.linspace(0.5, 1.5, max(r.numel(), 1))[: r.numel()].view(r.shape).to(r.dtype) for r in roots]
    return list(torch.autograd.grad(roots, leaves, weights, allow_unused=True))


def _reference(sample: Sample) -> list[Any] | None:
    """Eager in float64, or None where the op has no such form."""

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            wide = value.detach().to(WIDER.get(value.dtype, value.dtype))
            return wide.requires_grad_(value.requires_grad)
        return WIDER.get(value, value) if isinstance(value, torch.dtype) else value

    args, kwargs = tree_map(widen, _copies(sample))
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    fn = sample.fresh(torch.float64)
    try:
        return _call(fn, sample, args, kwargs, fn)
    except Exception:
        return None
    finally:
        torch.set_default_dtype(default)


def compiled(sample: Sample, backend: Any, dynamic: bool) -> list[Any]:
    """The sample's results under ``backend``."""
    torch._dynamo.reset()
    args, kwargs = _copies(sample)
    fn = sample.fresh()

    def call(*args: Any) -> Any:
        return fn(*args, **kwargs)

    run = torch.compile(call, backend=backend, dynamic=True if dynamic else None)
    return _call(lambda *args, **_: run(*args), sample, args, kwargs, fn)


def run_eager(sample: Sample) -> list[Any]:
    args, kwargs = _copies(sample)
    fn = sample.fresh()
    return _call(fn, sample, args, kwargs, fn)


def judge(name: str, sample: Sample, dynamic: bool = False, backend: str = "xpu_aten") -> Outcome:
    """Run one sample in eager and compiled by ``backend``, and compare."""
    try:
        eager = run_eager(sample)
    except Exception as error:
        return Outcome(name, sample.name, Verdict.SKIPPED, f"eager raises {_brief(error)}")
    work = work_of([*sample.tensors(), *eager], sample.pointwise)
    record = _Record()
    try:
        with _watched(record):
            ours = compiled(sample, backend_module.xpu_aten if backend == "xpu_aten" else backend, dynamic)
    except Exception as error:
        verdict, detail = Verdict.ERROR, _brief(error)
    else:
        if name in UNINITIALISED:
            ours, eager = _zeroed(ours), _zeroed(eager)
        fault = compare(ours, eager, _reference(sample), work)
        verdict, detail = (Verdict.WRONG, fault) if fault else (Verdict.OK, "")
    dtype = next((t.dtype for t in sample.tensors()), None)
    if verdict is Verdict.WRONG and (reason := KNOWN.get((name, dtype))):  # type: ignore[arg-type]
        verdict, detail = Verdict.KNOWN, reason
    if verdict in (Verdict.WRONG, Verdict.ERROR) and (excuse := _excuse(sample, eager, work, dynamic)):
        verdict, detail = Verdict.SKIPPED, excuse
    if verdict is Verdict.ERROR and backend == "xpu_inductor" and (excuse := _raises(sample, "inductor", dynamic)):
        verdict, detail = Verdict.SKIPPED, excuse
    if (
        verdict is Verdict.WRONG
        and backend == "xpu_inductor"
        and (excuse := _as_stock(sample, ours, eager, work, dynamic))
    ):
        verdict, detail = Verdict.SKIPPED, excuse
    return _with_record(Outcome(name, sample.name, verdict, detail or ""), record)


def _zeroed(results: list[Any]) -> list[Any]:
    return [torch.zeros_like(r) if isinstance(r, torch.Tensor) else r for r in results]


def _raises(sample: Sample, backend: str, dynamic: bool) -> str | None:
    """What ``backend`` raises, if it does."""
    try:
        compiled(sample, backend, dynamic)
    except Exception as error:
        return f"{backend} raises {_brief(error)}"
    return None


def _excuse(sample: Sample, eager: list[Any], work: Work, dynamic: bool) -> str | None:
    """Why a difference is none of ours: plain tracing has it too, or eager does not repeat itself."""
    if raised := _raises(sample, "aot_eager", dynamic):
        return raised
    traced = compiled(sample, "aot_eager", dynamic)
    fault = compare(traced, eager, _reference(sample), work)
    if fault:
        return f"aot_eager differs too: {fault}"
    again = compare(run_eager(sample), eager, None, work)
    return f"eager differs from itself: {again}" if again else None


def _as_stock(sample: Sample, ours: list[Any], eager: list[Any], work: Work, dynamic: bool) -> str | None:
    """Why a difference is Inductor's own, as layouts of gradients of convolutions: the stock one's results are ours."""
    stock = compiled(sample, "inductor", dynamic)
    reference = _reference(sample)
    fault = compare(stock, eager, reference, work)
    return f"inductor differs too: {fault}" if fault and not compare(ours, stock, reference, work) else None


def _with_record(outcome: Outcome, record: _Record) -> Outcome:
    refusals = [r for cut in record.cuts for r in cut.refusals]
    return dataclasses.replace(
        outcome, graphs=len(record.cuts), kernels=record.kernels, externs=tuple((r.op, r.reason) for r in refusals),
        fallbacks=tuple(f"{r.op}: {r.reason}" for r in refusals if not r.deliberate),
    )  # fmt: skip


def _brief(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"
