"""What the scripts in a dump run on: inputs made or loaded, kernels and graphs compiled and compared with eager."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from aten_backend.observe import StageRunner, observers
from aten_backend.options import Options
from aten_backend.pipeline import compile_graph, compiler_for
from lowering.artifacts import KernelSource, Param
from runtime import devices
from runtime.launch_plan import check_error
from runtime.launcher import build_kernel

SAVED = "inputs.pt"
"""Tensors of a graph's first call, by name, beside its script."""

STEPS, WORSE = 64, 4
"""A result of floats is right where its distance from the same ops in float64 is at most WORSE times eager's largest,
and STEPS units in the last place of the largest number in it."""

Inputs = dict[str, Any]


def tensor(
    shape: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
    *,
    mean: float = 0.0,
    std: float = 1.0,
    low: float | None = None,
    high: float | None = None,
) -> torch.Tensor:
    """A CPU tensor of random numbers: floats normal within [``low``, ``high``], integers uniform over both (0 and 1
    where not given), bools true with the probability ``mean`` (0.5 where it is 0 and none was seen).

    Elements that share memory, as in expanded tensors, are one number.
    """
    extent = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if math.prod(shape) else 0
    if dtype is torch.bool:
        flat = torch.rand(extent) < (mean if std == 1.0 and mean else 0.5)
    elif dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        flat = torch.randn(extent, dtype=wide) * std + mean
        flat = flat.clamp(low, high) if low is not None and not dtype.is_complex else flat
    else:
        first, last = int(low or 0), int(1 if high is None else high)
        flat = (torch.rand(extent, dtype=torch.float64) * (last - first + 1)).floor().to(torch.int64) + first
    return flat.to(dtype).as_strided(shape, stride)


def inputs(script: str, made: Mapping[str, Callable[[], Any]]) -> Inputs:
    """The inputs of ``script``: what was saved beside it or in the folder above, the rest made."""
    saved: Inputs = {}
    for folder in (pathlib.Path(script).parent, pathlib.Path(script).parent.parent):
        if not saved and (folder / SAVED).exists():
            saved = torch.load(folder / SAVED, weights_only=True)
    torch.manual_seed(0)
    found = {}
    for name, make in made.items():
        value = make()
        known = saved.get(name)
        fits = isinstance(known, torch.Tensor) and isinstance(value, torch.Tensor) and _layout(known) == _layout(value)
        found[name] = known if fits else value
    print(f"inputs: {sum(found[n] is saved.get(n) for n in found)} saved, the rest made; seed 0")
    return found


def _layout(value: torch.Tensor) -> tuple[Any, ...]:
    return value.dtype, value.shape, value.stride()


# ---- kernels
# -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Launch:
    """One kernel and what it is given: ``buffers`` by name, then ``numbers`` (sizes, then floats), then, where it has
    ``checks`` (code, dimension, size), the error cell and the number of the first. ``params`` are (name, kind, dtype,
    extent)."""

    function: Callable[..., None]
    params: Sequence[tuple[str, Any, str, int]]
    local_size: tuple[int, ...] | None
    global_size: tuple[int, ...]
    buffers: tuple[str, ...]
    numbers: tuple[float, ...] = ()
    checks: tuple[tuple[int, int, int], ...] = ()

    @property
    def source(self) -> KernelSource:
        """The kernel as the compiler takes it: the text of the function as it stands in the script."""
        params = tuple(Param(*param) for param in self.params)
        text = inspect.getsource(self.function)
        return KernelSource(self.function.__name__, text, params, len(self.global_size), self.local_size)


def kernels(
    launches: Sequence[Launch],
    reference: Callable[..., tuple[Any, ...]],
    given: Inputs,
    results: Mapping[str, Callable[[], torch.Tensor]],
    scratch: Mapping[str, Callable[[], torch.Tensor]],
    in_place: Mapping[str, str],
) -> int:
    """Run ``launches`` in order on ``given``, compare ``results`` with what ``reference`` returns for them, and print
    it. Those ``in_place`` start as copies of the inputs that they are written to. The exit code: 0 where all are right,
    1 where one is not, 2 where eager cannot run these inputs."""
    values = list(given.values())
    try:
        expected = reference(*map(_copied, values))
    except (IndexError, RuntimeError) as refused:
        return _nothing_to_compare(refused)
    memory = {**given, **{name: make() for name, make in {**results, **scratch}.items()}}
    for name, target in in_place.items():
        memory[name].copy_(memory[target])
    device = devices.resolve(Options.parse().device)
    error, checks = torch.zeros((), dtype=torch.int64), list[tuple[int, int, int]]()
    for launch in launches:
        source = launch.source
        compiled = compiler_for(Options.parse(None, {"cache": False})).submit(source).result()
        addresses: list[float] = [memory[name].data_ptr() for name in launch.buffers]
        noted = (error.data_ptr(), len(checks) + 1) if launch.checks else ()
        arguments = (*addresses, *launch.numbers, *noted)
        checks += launch.checks
        build_kernel(device, compiled, source).bind().launch(arguments, launch.global_size)
        device.wait()
    check_error(error, checks)
    exact = in_float64(reference, values)
    return _report(list(results), [memory[name] for name in results], expected, exact)


# ---- graphs
# ------------------------------------------------------------------------------------------------------------


def aten_graph(function: Callable[..., Any], given: Inputs, options: Mapping[str, Any]) -> int:
    """Compile the ATen calls of ``function`` with this backend and compare with ATen itself; exit code as above."""
    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    names = list(tensors)
    others = {name: value for name, value in given.items() if name not in tensors}

    def of_tensors(*values: torch.Tensor) -> Any:
        return function(**dict(zip(names, values, strict=True)), **others)

    def compiled(*values: torch.Tensor) -> Any:
        chosen = Options.parse(None, options)
        graph = make_fx(of_tensors, tracing_mode="fake")(*values)
        (output,) = graph.graph.find_nodes(op="output")
        graph.recompile()
        assert isinstance(output.args[0], (tuple, list))
        return compile_graph(graph, chosen, StageRunner(observers(chosen)))(list(values))

    return _compare(of_tensors, compiled, list(tensors.values()))


def dynamo_graph(function: Callable[..., Any], given: Inputs, options: Mapping[str, Any]) -> int:
    """Compile ``function`` through torch.compile and compare with eager; exit code as above."""
    return _compare(function, torch.compile(function, backend="xpu_aten", options=dict(options)), list(given.values()))


def _compare(plain: Callable[..., Any], compiled: Callable[..., Any], values: list[Any]) -> int:
    devices.resolve(Options.parse().device)  # without a device, ATen would be compared with itself
    with torch.no_grad():
        try:
            torch.manual_seed(0)
            expected = plain(*map(_copied, values))
        except (IndexError, RuntimeError) as error:
            return _nothing_to_compare(error)
        torch.manual_seed(0)
        exact = in_float64(plain, values)
        torch.manual_seed(0)
        found = compiled(*map(_copied, values))
    counted = counters["xpu_aten"]
    print(f"{counted['kernel_calls']} launches, {counted['extern_calls']} ATen calls")
    return _report([f"result {n}" for n in range(len(expected))], found, expected, exact)


def _copied(value: Any, change: Callable[[Any], Any] = lambda flat: flat) -> Any:
    """``value`` with its layout and memory of its own, so that writes stay apart. ``change`` is done to the memory."""
    if not isinstance(value, torch.Tensor):
        return value
    extent = 1 + sum((s - 1) * t for s, t in zip(value.shape, value.stride(), strict=True)) if value.numel() else 0
    flat = change(value.detach().as_strided((extent,), (1,)).clone())
    return flat.as_strided(value.shape, value.stride()).requires_grad_(value.requires_grad)


def _nothing_to_compare(error: Exception) -> int:
    print(f"eager cannot run these inputs, so there is nothing to compare with: {error}")
    return 2


# ---- the verdict
# -------------------------------------------------------------------------------------------------------


class _Wide(TorchDispatchMode):
    """Runs every op in float64 where the program says a narrower float; random ones in float32, so that the numbers
    that they draw are eager's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        change = _narrowed if torch.Tag.nondeterministic_seeded in func.tags else _widened
        return func(*tree_map(change, args), **tree_map(change, kwargs or {}))


def _narrowed(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype is torch.float64 else value


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in NARROW else value
    return value.to(torch.float64) if isinstance(value, torch.Tensor) and value.dtype in NARROW else value


NARROW = (torch.float32, torch.float16, torch.bfloat16)


def in_float64(function: Callable[..., Any], values: Sequence[Any]) -> Sequence[Any] | None:
    """What ``function`` returns when all its arithmetic is done in float64; None where an op has none."""
    wide = [_copied(value, _widened) for value in values]
    try:
        with _Wide(), torch.no_grad():
            found: Sequence[Any] = function(*wide)
            return found
    except (RuntimeError, TypeError) as error:
        print(f"no reference in float64: {str(error).splitlines()[0]}")
        return None


def _report(names: Sequence[str], found: Sequence[Any], expected: Sequence[Any], exact: Sequence[Any] | None) -> int:
    good = True
    for n, (name, ours, eager) in enumerate(zip(names, found, expected, strict=True)):
        if not isinstance(eager, torch.Tensor):
            right, how = ours == eager, f"{ours} for {eager}"
        elif (ours.dtype, ours.shape) != (eager.dtype, eager.shape):
            right, how = False, f"{ours.dtype} {tuple(ours.shape)} for {eager.dtype} {tuple(eager.shape)}"
        elif not eager.dtype.is_floating_point:
            wrong = int((ours != eager).sum())
            right, how = not wrong, f"{wrong} of {eager.numel()} elements differ"
        else:
            right, how = _distance(ours.detach(), eager.detach(), None if exact is None else exact[n])
        good &= right
        what = f" {str(eager.dtype).removeprefix('torch.')} {tuple(eager.shape)}" if torch.is_tensor(eager) else ""
        print(f"{'pass' if right else 'FAIL'}  {name}{what}: {how}")
    print("PASS" if good else "FAIL")
    return 0 if good else 1


def _distance(found: torch.Tensor, wanted: torch.Tensor, exact: torch.Tensor | None) -> tuple[bool, str]:
    """Whether floats agree, and how far ours and eager's are from ``exact`` (None: eager's is the reference)."""
    ours, eager = found.double(), wanted.double()
    reference = eager if exact is None else exact.detach().double()
    finite = torch.isfinite(eager)
    if not torch.equal(torch.isfinite(ours), finite) or not torch.equal(
        ours[~finite].nan_to_num(0.5), eager[~finite].nan_to_num(0.5)
    ):
        return False, "infinities or NaN stand elsewhere"
    if not finite.any():
        return True, "nothing finite"
    here = finite & torch.isfinite(reference)
    off, theirs = ((v - reference).where(here, 0.0).abs() for v in (ours, eager))
    allowed = STEPS * torch.finfo(wanted.dtype).eps * float(reference.where(here, 0.0).abs().max())
    allowed += WORSE * float(theirs.max())
    text = f"{float(off.max()):.2g} from float64, eager {float(theirs.max()):.2g}"
    if float(off.max()) <= allowed:
        return True, text
    worst = tuple(int(i) for i in torch.unravel_index(off.argmax(), off.shape))
    return False, f"{text}, worst at {worst}: {found[worst].item():.9g} for {wanted[worst].item():.9g}"


def main(run: Callable[[], int]) -> None:
    """End the script with the exit code of ``run``."""
    sys.exit(run())


lazily = functools.partial
"""Inputs are made in order and one at a time: a script names them as ``lazily(tensor, ...)``."""
