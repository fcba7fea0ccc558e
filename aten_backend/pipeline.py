"""The whole compile, every stage named, in order."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

from torch._dynamo.utils import counters
from torch.fx import GraphModule, Node

from aten_backend import fuel, portable
from aten_backend.autotune import Launch, Tuner
from aten_backend.cached import CachedGraph
from aten_backend.numerics.planner import checked
from aten_backend.observe import StageRunner
from aten_backend.once import warn_once
from aten_backend.options import Options
from aten_backend.switches import Steps, without
from lowering import graph
from lowering.assemble import Kernel, Phase
from lowering.build import build, build_updates
from lowering.chain import chain
from lowering.classify import Classes, Refusal, classify, op_name
from lowering.emit import emit
from lowering.errors import ArtifactError, UnsupportedOpError, user_line
from lowering.index import Axis
from lowering.ir import GroupIR, Reduce
from lowering.overwrite import unsafe_writes
from lowering.partition import Extern, Group, Partition, partition
from lowering.passes import run_passes
from lowering.target import GENERIC, Traits
from runtime import compiler, devices
from runtime.cache import default_dir
from runtime.compiler import CompiledKernel, KernelCompiler
from runtime.devices import Device
from runtime.errors import DeviceNotFoundError, KernelCompileError, LaunchError, ToolchainMissingError, WorkerDiedError
from runtime.executor import link
from runtime.launch_plan import LaunchPlan
from runtime.plan import Planner, make_plan

_graphs = itertools.count()

CompileErrors = (KernelCompileError, ToolchainMissingError, WorkerDiedError)


@dataclasses.dataclass(frozen=True, eq=False)
class Lowered:
    """A graph lowered to kernels and a plan; nothing in it needs a device."""

    partition: Partition
    kernels: Mapping[Group, tuple[Kernel, ...]]
    plan: LaunchPlan

    @property
    def distinct(self) -> dict[str, Kernel]:
        """Kernels by name: identical groups share one."""
        return {k.source.name: k for k in self.plan.kernels}


def lower(
    gm: GraphModule,
    options: Options,
    traits: Traits,
    run: StageRunner,
    lost: Mapping[str, str],
    tune: Callable[[Sequence[Launch], Partition], list[Launch]] | None = None,
) -> Lowered:
    """FX graph to launch plan. ``lost`` has nodes that an earlier attempt could not compile, with the reason; ``tune``
    may replace launches by others that do the same."""
    steps = _steps(options)
    traits = steps.traits(traits)
    cut, groups, bodies = _groups(run("passes", run_passes, gm, steps.passes), options, steps, traits, run, lost)
    stages = run("split", lambda: [_kernels(cut, g, b, steps, traits) for g, b in zip(groups, bodies, strict=True)])
    phases = run(
        "schedule", lambda: [[Phase(b, steps.schedule(b, traits, chunk)) for b, chunk in parts] for parts in stages]
    )
    launches = run("chain", _chain, cut, dict(zip(groups, phases, strict=True)), traits)
    if tune is not None:
        launches = run("tune", tune, launches, cut)
    kernels = run("emit", lambda: [emit(launch, traits.local_memory) for launch, _ in launches])
    by_group: dict[Group, tuple[Kernel, ...]] = dict.fromkeys(cut.groups, ())
    for kernel, (_, owners) in zip(kernels, launches, strict=True):
        for group in dict.fromkeys(owners):
            by_group[group] = (*by_group[group], kernel)
    planner = _checked(steps.planner, options, traits) if options.verify == "numerics" else steps.planner
    return Lowered(cut, by_group, run("plan", make_plan, cut, by_group, planner))


def _steps(options: Options) -> Steps:
    """The steps that ``options`` leave on. Who checks groups one by one wants launches of one group each."""
    alone = ("chain",) if options.verify == "numerics" else ()
    return without((*options.disable_passes, *alone))


def _checked(planner: type[Planner], options: Options, traits: Traits) -> type[Planner]:
    """``planner`` with every group checked as it runs."""
    plain = dataclasses.replace(options, verify="off", fusion_fuel=None)
    return checked(planner, lambda part: lower(part, plain, traits, StageRunner(()), {}).plan)


def _groups(
    gm: GraphModule, options: Options, steps: Steps, traits: Traits, run: StageRunner, lost: Mapping[str, str]
) -> tuple[Partition, list[Group], list[GroupIR]]:
    """The graph cut into groups, and what each with a result computes; once more where the fuel does not last for all
    of them, or one would write to memory that it still has to read."""
    while True:
        classes = run("classify", _classes, gm, options, steps, lost)
        cut = run("partition", partition, gm, classes, traits)
        if exhausted := fuel.spend(cut.groups, options.fusion_fuel):
            lost = {**lost, **exhausted}
            continue
        groups = [g for g in cut.groups if g.stored]
        bodies = run("build", lambda cut=cut, groups=groups: [_build(cut, g, steps) for g in groups])
        unsafe = unsafe_writes(cut, groups, bodies)
        if not unsafe:
            return cut, groups, bodies
        lost = {**lost, **unsafe}


def _classes(gm: GraphModule, options: Options, steps: Steps, lost: Mapping[str, str]) -> Classes:
    return steps.classes(classify(gm, options.disable_ops, lost))


def _build(cut: Partition, group: Group, steps: Steps) -> GroupIR:
    try:
        return steps.simplify(build(cut, group))
    except ArtifactError as error:
        error.nodes = tuple(n.name for n in group.nodes)
        raise


def _chain(cut: Partition, phases: Mapping[Group, Sequence[Phase]], traits: Traits) -> list[Launch]:
    """Launches in order."""
    launches = []
    for is_extern, steps in itertools.groupby(cut.steps, lambda step: isinstance(step, Extern)):
        owners = [(p, g) for g in steps if isinstance(g, Group) for p in phases.get(g, ())] if not is_extern else []
        rest = iter(owners)
        for launch in chain([p for p, _ in owners], traits):
            launches.append((launch, tuple(g for _, g in itertools.islice(rest, len(launch)))))
    return launches


def _kernels(
    cut: Partition, group: Group, body: GroupIR, steps: Steps, traits: Traits
) -> tuple[tuple[GroupIR, Axis | None], ...]:
    """The group's kernels: those that make its results, then those that write to them at places that depend on data.
    Where these write in place, there is nothing to make."""
    updates = tuple((steps.simplify(update), None) for update in build_updates(cut, group))
    in_place = updates and graph.destination(group.nodes[0]) is not None
    return updates if in_place else (*steps.split(body, traits), *updates)


def compile_graph(gm: GraphModule, options: Options, run: StageRunner) -> CachedGraph:
    """Compile one decomposed graph. What cannot be compiled is left to ATen, or raises under ``fallback="error"``."""
    name = f"graph{next(_graphs)}"
    lost: dict[str, str] = {}
    device = _open(gm, options, lost)
    traits = GENERIC if device is None else traits_of(device)
    tune = _tuner(options, device, traits) if options.autotune and device is not None else None
    while True:
        try:
            lowered = lower(gm, options, traits, run, lost, tune)
        except ArtifactError as error:
            _lose_group(error, options, lost)
            continue
        _refuse_fallback(lowered.partition, options)
        if not lowered.plan.kernels:
            binaries: dict[str, CompiledKernel] = {}
            break
        try:
            binaries = run("compile", compile_kernels, lowered, compiler_for(options))
            break
        except CompileErrors as error:
            _lose(error, lowered, options, lost)
    launched = [binaries[k.source.name] for k in lowered.plan.kernels]
    linked = run("link", link, lowered.plan, launched, device, name)
    counts = _counts(lowered)
    counters["xpu_aten"].update(counts)  # adds: it is a Counter
    kernels = tuple(
        (k.source, dataclasses.replace(b, llvm="")) for k, b in zip(lowered.plan.kernels, launched, strict=True)
    )
    return CachedGraph(
        lowered.plan.text,
        dict(lowered.plan.constants),
        kernels,
        lowered.plan.steps,
        options.device,
        counts,
        not lost,
        linked,
    )


def _tuner(options: Options, device: Device, traits: Traits) -> Tuner:
    folder = pathlib.Path(options.cache_dir) if options.cache_dir is not None else default_dir()
    return Tuner(device, traits, compiler_for(options), folder / "tuned" if options.cache else None)


def compile_kernels(lowered: Lowered, workers: KernelCompiler) -> dict[str, CompiledKernel]:
    """Binaries of all kernels of a graph, compiled side by side."""
    hits, misses = workers.hits, workers.misses
    futures = {name: workers.submit(kernel.source) for name, kernel in lowered.distinct.items()}
    counters["xpu_aten"]["cache_hits"] += workers.hits - hits
    counters["xpu_aten"]["cache_misses"] += workers.misses - misses
    binaries = {name: future.result() for name, future in futures.items()}
    for name, kernel in lowered.distinct.items() if workers.cache is not None else ():
        portable.record(workers.key(kernel.source), binaries[name])
    return binaries


def compiler_for(options: Options) -> KernelCompiler:
    """The compiler processes that ``options`` ask for."""
    workers = options.compile_workers or min(4, os.cpu_count() or 1)
    native = options.device in ("auto", "cpu") or options.device.startswith("opencl:cpu")
    return compiler.shared(options.compiler_python, workers, options.cache_dir, options.cache, native)


def device_opens(options: Options) -> bool:
    """Whether the device that ``options`` name can be used here."""
    try:
        devices.resolve(options.device)
    except (DeviceNotFoundError, ToolchainMissingError, LaunchError):
        return False  # compile_graph meets it again, and reports it
    return True


def traits_of(device: Device) -> Traits:
    """What schedules need to know of a device."""
    found = device.traits
    return Traits(
        max_work_group_size=found.max_work_group_size,
        compute_units=found.compute_units,
        max_kernel_arguments=min(96, found.max_parameter_size // 8 - 16),
        local_memory=found.local_memory_size,
    )


# ---- what cannot be compiled
# -------------------------------------------------------------------------------------------


def _calls(gm: GraphModule) -> list[Node]:
    return [n for n in gm.graph.nodes if n.op == "call_function"]


def _open(gm: GraphModule, options: Options, lost: dict[str, str]) -> Device | None:
    """The device, or None with every node ``lost`` when there is none and the user allows eager."""
    try:
        return devices.resolve(options.device)
    except (DeviceNotFoundError, ToolchainMissingError, LaunchError) as error:
        if options.fallback == "error":
            raise
        warn_once(f"xpu_aten runs everything in eager: {error}")
        lost.update({n.name: f"no device: {error}" for n in _calls(gm)})
        return None


def _lose(
    error: KernelCompileError | ToolchainMissingError | WorkerDiedError,
    lowered: Lowered,
    options: Options,
    lost: dict[str, str],
) -> None:
    """Leave the groups of a kernel that failed to ATen, or everything when there is no compiler."""
    if options.fallback == "error":
        raise error
    failed = "" if isinstance(error, ToolchainMissingError) else error.name
    groups = [g for g, kernels in lowered.kernels.items() if any(k.source.name == failed for k in kernels)]
    nodes = [n for g in groups for n in g.nodes] or _calls(lowered.partition.gm)
    reason = str(error).splitlines()[0]
    if groups:
        place = f" at {line}" if (line := user_line(nodes[0])) else ""
        warn_once(f"xpu_aten leaves {len(nodes)} ops to eager, from {op_name(nodes[0])}{place} on: {reason}")
    else:
        warn_once(f"xpu_aten runs everything in eager: {reason}")
    lost.update({n.name: reason for n in nodes})


def _lose_group(error: ArtifactError, options: Options, lost: dict[str, str]) -> None:
    """Leave a group to ATen in which this compiler contradicts itself. Who asked for errors or for checks gets the
    error."""
    if options.fallback == "error" or options.verify != "off" or not error.nodes or lost.keys() >= set(error.nodes):
        raise error
    warn_once(f"xpu_aten leaves {len(error.nodes)} ops to eager because of a bug of its own, please report it: {error}")
    lost.update(dict.fromkeys(error.nodes, f"a bug of this compiler: {error}"))


def unexpected(partition: Partition) -> list[Refusal]:
    """Refusals that are a lack of this compiler, not a choice: what ``fallback="error"`` rejects."""
    return [r for r in partition.refusals if not r.deliberate]


def _refuse_fallback(cut: Partition, options: Options) -> None:
    missing = unexpected(cut)
    if missing and options.fallback == "error":
        raise UnsupportedOpError(missing[0].op, missing[0].reason, missing[0].source)


def _reduces(kernel: Kernel) -> bool:
    return any(isinstance(s, Reduce) for s in kernel.group.body)


def _counts(lowered: Lowered) -> dict[str, int]:
    """What a graph adds to ``torch._dynamo.utils.counters["xpu_aten"]``."""
    return {
        "graphs": 1,
        "sycl_kernels": len(lowered.distinct),
        "kernel_calls": len(lowered.plan.kernels),
        "second_stages": sum(len(found) - 1 for found in lowered.kernels.values() if found and _reduces(found[0])),
        "extern_calls": lowered.plan.extern_calls,
        "fallback_nodes": len(unexpected(lowered.partition)),
    }
