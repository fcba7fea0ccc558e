"""`xpu-aten cache`: what is kept on disk, why a kernel is not found there, and emptying it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

from aten_backend.explanation import lowered_graphs
from aten_backend.options import Options
from aten_backend.pipeline import compiler_for, device_opens, traits_of
from aten_backend.targets import load_target
from lowering.artifacts import KernelSource
from lowering.target import GENERIC
from runtime import devices
from runtime.cache import KernelKey, SpirvCache
from runtime.compiler import KernelCompiler

COMPILED, FOUND = 1, 0


def add(commands: Any) -> None:
    about = "Compiled kernels on disk: what is kept, why a kernel is not found, emptying it."
    command = commands.add_parser("cache", help=about, description=about)
    actions = command.add_subparsers(dest="action", required=True)
    for name, text, run in (
        ("stats", "How many kernels are kept, how large they are, and how many this installation can use.", stats),
        ("why", "For each kernel: whether it is kept, and if not, what differs from the nearest that is.", why),
        ("clear", "Remove every kernel.", clear),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("--dir", metavar="PATH", help="the folder, if not the option cache_dir's or the default")
        action.set_defaults(run=run)
        if name == "why":
            action.add_argument(
                "what", metavar="TARGET|KERNEL", help="file.py:function or module:function, or the name of a kernel"
            )


def _compiler(arguments: argparse.Namespace) -> tuple[Options, KernelCompiler, SpirvCache]:
    """What the options of the environment ask for, with a cache even where they switch it off."""
    options = Options.parse(None, {"cache_dir": arguments.dir} if arguments.dir else {})
    compiler = compiler_for(options)
    return options, compiler, compiler.cache or SpirvCache(options.cache_dir)


def stats(arguments: argparse.Namespace) -> int:
    """Print what is kept; returns 0."""
    _, compiler, cache = _compiler(arguments)
    files = cache.files()
    current = compiler.environment().items()
    kept = [parts for _, parts in cache.readable()]
    usable = sum(current <= parts.items() for parts in kept)
    print(f"folder      {cache.folder}")
    print(f"kernels     {len(files)}, of which this installation can use {usable}")
    if len(files) > len(kept):
        print(f"unreadable  {len(files) - len(kept)}: damaged or of an older format; trimmed in time")
    size = sum(status.st_size for _, status in files)
    limit = f"{cache.size_limit / 2**20:.0f} MiB; beyond that, the least recently used go first"
    print(f"size        {size / 2**20:.1f} MiB of at most {limit}")
    if files:
        times = sorted(status.st_mtime for _, status in files)
        print(f"last used   {_date(times[-1])}; the one unused for longest {_date(times[0])}")
    return 0


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def why(arguments: argparse.Namespace) -> int:
    """Print what is found and what is not; returns 1 if something would be compiled."""
    options, compiler, cache = _compiler(arguments)
    if ":" not in arguments.what:
        return _why_name(arguments.what, compiler, cache)
    missing = 0
    for source in _kernels(arguments.what, options):
        key = compiler.key(source)
        if cache.load(key) is not None:
            print(f"kept      {source.name}")
        else:
            missing += 1
            print(f"compiled  {source.name}: {cache.why_missing(key)}")
    return COMPILED if missing else FOUND


def _kernels(target: str, options: Options) -> Iterator[KernelSource]:
    """The distinct kernels of a target, as they are for the device that the options name."""
    function, args = load_target(target)
    traits = traits_of(devices.resolve(options.device)) if device_opens(options) else GENERIC
    found = {
        k.source.name: k.source for g in lowered_graphs(function, args, {}, options, traits) for k in g.plan.kernels
    }
    yield from found.values()


def _why_name(name: str, compiler: KernelCompiler, cache: SpirvCache) -> int:
    """Compare what is kept under a kernel's name with this installation."""
    usable = False
    for path, parts in cache.readable(name):
        ours = {**parts, **compiler.environment()}
        differences = KernelKey(name, ours).differs_from(parts)
        usable = usable or not differences
        print(f"{path.name}: {'; '.join(differences) if differences else 'this installation can use it'}")
    if not usable:
        reason = "none of these fits" if any(cache.readable(name)) else "no kernel of this name is kept"
        print(f"compiled  {name}: {reason}")
    return FOUND if usable else COMPILED


def clear(arguments: argparse.Namespace) -> int:
    """Remove everything; returns 0."""
    _, _, cache = _compiler(arguments)
    size = sum(status.st_size for _, status in cache.files())
    print(f"removed {cache.clear()} kernels, {size / 2**20:.1f} MiB, from {cache.folder}")
    return 0
