"""THE numerics policy: when a compiled result counts as right. Every test of numbers, ``verify="numerics"`` and
`xpu-aten bisect` use it.

1. Same dtype, shape, layout, and strides (along dimensions of more than one element) as eager.
2. Integers, bools and indexes: equal to eager's, bit for bit. Where they are made from half types (whose steps we
   compute in float32, and eager rounds one by one), equal to eager's or to those of the float64 run.
3. Floating point (complex numbers by their parts), element by element. An element is right when it equals eager's (NaN
   equals NaN, infinities by sign), or when it is *no worse than eager* against the same op run by eager in float64:

       |compiled - ref|  <=  2 * |eager - ref|  +  tolerance

   For pointwise work the tolerance is ULPS steps of the result's type at ``ref``: SYCL's functions are up to four steps
   off where eager's libraries are one, and a formula of two or three of them adds up. Steps of a complex number are
   those of its larger part: either part of a product is a difference of products of both. For all other work, a result
   is a sum of ``length`` terms, and its error scales with the terms rather than with the sum; so the tolerance is
   ULPS * sqrt(length) steps at the largest finite magnitude among inputs and results (or in the result where that is
   larger), and eager's error is taken at its largest over the tensor.
4. NaN and infinities stand where eager's stand. The one exception is rule 3: where eager overflowed on the way (half
   types, whose steps we compute in float32) and the compiled result agrees with float64 rounded to the type.
5. Where no float64 reference exists, eager's own result is the reference, and the tolerance is doubled.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

HALVES = (torch.float16, torch.bfloat16)
ULPS = 8
"""Steps of the type that pointwise work may be off."""


@dataclasses.dataclass(frozen=True)
class Work:
    """What the policy needs to know of the op: whether it is ``pointwise``, otherwise how many terms a result has at
    most (``length``) and their ``magnitude``; and whether it reads half types (``halves``)."""

    pointwise: bool
    length: int = 1
    magnitude: float = 1.0
    halves: bool = False


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong with a result: ``text`` says it; ``result`` is its position, ``index`` the first wrong element's
    (None where type or layout are wrong), ``values`` that element compiled, in eager and, if there is one, in
    float64."""

    text: str
    result: int = 0
    index: tuple[int, ...] | None = None
    values: tuple[Any, ...] = ()


def work_of(inputs: Iterable[Any], pointwise: bool) -> Work:
    """The work behind an op that reads the tensors ``inputs``."""
    tensors = [t for t in inputs if isinstance(t, torch.Tensor) and t.layout is torch.strided and t.numel()]
    length = max((t.numel() for t in tensors), default=1)
    largest = max((magnitude(t) for t in tensors), default=1.0)
    return Work(pointwise, length, largest, any(t.dtype in HALVES for t in tensors))


def magnitude(t: torch.Tensor) -> float:
    """The largest finite magnitude in ``t``."""
    t = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    values = t.detach().to(torch.float64).abs()
    values = values[torch.isfinite(values)]
    return float(values.max()) if values.numel() else 0.0


def compare(compiled: Any, eager: Any, reference: Any, work: Work) -> str | None:
    """What is wrong with ``compiled``, or None, as text."""
    fault = judge(compiled, eager, reference, work)
    if fault is None:
        return None
    return f"result {fault.result}: {fault.text}" if len(eager) > 1 and len(compiled) == len(eager) else fault.text


def judge(compiled: Any, eager: Any, reference: Any, work: Work) -> Fault | None:
    """What is wrong with ``compiled``, or None. Each is a flat list of results; ``reference`` may be None, as may be
    its entries."""
    if len(compiled) != len(eager):
        return Fault(f"{len(compiled)} results instead of {len(eager)}")
    if reference is None or len(reference) != len(eager):
        reference = [None] * len(eager)
    for position, (ours, theirs, ref) in enumerate(zip(compiled, eager, reference, strict=True)):
        fault = _compare_one(ours, theirs, ref, work)
        if fault is not None:
            return dataclasses.replace(fault, result=position)
    return None


def _compare_one(ours: Any, theirs: Any, ref: Any, work: Work) -> Fault | None:
    if not isinstance(theirs, torch.Tensor):
        same = type(ours) is type(theirs) and (ours == theirs or ours != ours)
        return None if same else Fault(f"{ours!r} instead of {theirs!r}")
    if not isinstance(ours, torch.Tensor):
        return Fault(f"{type(ours).__name__} instead of a tensor")
    return _layout_fault(ours, theirs) or _value_fault(ours, theirs, ref, work)


def _layout_fault(ours: torch.Tensor, theirs: torch.Tensor) -> Fault | None:
    for what in ("dtype", "shape", "layout"):
        if getattr(ours, what) != getattr(theirs, what):
            return Fault(f"{what} {getattr(ours, what)} instead of {getattr(theirs, what)}")
    if theirs.layout is torch.strided and theirs.numel() and _walked(ours) != _walked(theirs):
        return Fault(f"strides {ours.stride()} instead of {theirs.stride()} for shape {tuple(theirs.shape)}")
    return None


def _walked(t: torch.Tensor) -> list[int]:
    """Strides that are walked: a dimension of size one has none to speak of."""
    return [stride for size, stride in zip(t.shape, t.stride(), strict=True) if size > 1]


def _value_fault(ours: torch.Tensor, theirs: torch.Tensor, ref: Any, work: Work) -> Fault | None:
    if theirs.layout is not torch.strided:
        ours, theirs, ref = ours.to_dense(), theirs.to_dense(), None
    if theirs.is_quantized:
        ours, theirs, ref = ours.int_repr(), theirs.int_repr(), None
    in_pairs = theirs.is_complex()
    if in_pairs:
        ours, theirs = _parts(ours), _parts(theirs)
        ref = _parts(ref) if isinstance(ref, torch.Tensor) and ref.is_complex() else None
    if not theirs.dtype.is_floating_point:
        return _exact_fault(ours, theirs, ref if work.halves else None)
    if not isinstance(ref, torch.Tensor) or ref.shape != theirs.shape or not ref.dtype.is_floating_point:
        ref = None
    return _float_fault(ours, theirs, ref, work, in_pairs)


def _parts(t: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(t.resolve_conj().resolve_neg())


def _exact_fault(ours: torch.Tensor, theirs: torch.Tensor, ref: Any) -> Fault | None:
    wrong = ours != theirs
    if isinstance(ref, torch.Tensor) and ref.dtype == theirs.dtype and ref.shape == theirs.shape:
        wrong = wrong & (ours != ref)
    return _report(ours, theirs, None, wrong) if bool(wrong.any()) else None


def steps(ref: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance between neighbours of ``dtype`` at each element of the float64 tensor ``ref``."""
    info = torch.finfo(dtype)
    return torch.clamp(ref.abs(), min=info.tiny, max=info.max) * info.eps


def _float_fault(
    ours: torch.Tensor, theirs: torch.Tensor, ref: torch.Tensor | None, work: Work, in_pairs: bool = False
) -> Fault | None:
    dtype, factor = theirs.dtype, 1 if ref is not None else 2
    ours64, theirs64 = ours.detach().double(), theirs.detach().double()
    ref64 = theirs64 if ref is None else ref.detach().double()
    right = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    error, allowed = (ours64 - ref64).abs(), (theirs64 - ref64).abs()
    if work.pointwise:
        tolerance = factor * ULPS * steps(_larger_part(ref64) if in_pairs else ref64, dtype)
    else:
        scale = torch.clamp(ref64.abs(), min=max(work.magnitude, magnitude(ref64)))
        tolerance = factor * ULPS * math.sqrt(work.length) * steps(scale, dtype)
        finite = allowed[torch.isfinite(allowed)]
        allowed = torch.where(torch.isfinite(allowed), finite.max() if finite.numel() else 0.0, 0.0)
    allowed = torch.where(torch.isfinite(allowed), 2 * allowed, 0.0)
    close = torch.isfinite(ours64) & torch.isfinite(ref64) & (error <= allowed + tolerance)
    rounded = ref64.to(dtype)
    close |= (ours == rounded) | ((ours != ours) & (rounded != rounded))
    # a finite result where eager has none is right only if float64 is finite too: then ``close`` says so
    wrong = ~(right | close)
    return _report(ours64, theirs64, ref64, wrong) if bool(wrong.any()) else None


def _larger_part(pairs: torch.Tensor) -> torch.Tensor:
    """For both parts of each complex number the larger finite one."""
    return torch.where(torch.isfinite(pairs), pairs.abs(), 0.0).amax(-1, keepdim=True).expand_as(pairs)


def _report(ours: torch.Tensor, theirs: torch.Tensor, ref: torch.Tensor | None, wrong: torch.Tensor) -> Fault:
    at = wrong.nonzero()[0]
    place: Sequence[int] = at.tolist()
    index = tuple(place)
    counts = f"{int(wrong.sum())} of {wrong.numel()} elements differ"
    text = f"{counts}, first at {place}: {ours[index].item()!r} instead of {theirs[index].item()!r}"
    values: tuple[Any, ...] = ours[index].item(), theirs[index].item()
    if ref is None:
        return Fault(text, 0, index, values)
    return Fault(f"{text} (float64: {ref[index].item()!r})", 0, index, (*values, ref[index].item()))
