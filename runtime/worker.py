"""The compiler process: reads kernels from stdin, answers with SPIR-V on stdout.

Run by path in an interpreter that has numba-dpex, where this package need not be installed and the interpreter may be
older. It therefore loads the files beside it by path.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import resource
import select
import sys
import time
import traceback
import types
from typing import Any, BinaryIO, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
PREPARED = "XPU_ATEN_WORKER_PREPARED"
TOOLCHAIN = ("numba-dpex", "numba", "llvmlite", "numpy", "dpcpp-llvm-spirv", "intel-opencl-rt")


def load_neighbour(name: str) -> types.ModuleType:
    """Load the file ``name`` from this folder under a name that cannot collide."""
    spec = importlib.util.spec_from_file_location(f"_xpu_aten_{name}", HERE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {name}.py from {HERE}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def toolchain_versions() -> dict[str, str]:
    """What is installed of the packages that decide which binary a text becomes. Imports none of them."""
    found = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in TOOLCHAIN:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def restart_with_library_path() -> None:
    """Start this process again with the library path set: the loader reads it only when a process starts."""
    if os.environ.get(PREPARED):
        return
    oneapi = load_neighbour("oneapi")
    environment = {**os.environ, PREPARED: "1"}
    folder = oneapi.library_dir()
    if folder is not None:
        environment["LD_LIBRARY_PATH"] = oneapi.library_path(folder, os.environ.get("LD_LIBRARY_PATH"))
        environment["OCL_ICD_FILENAMES"] = str(folder / oneapi.OPENCL_DRIVER)
    os.execve(sys.executable, [sys.executable, "-E", os.path.abspath(__file__), *sys.argv[1:]], environment)


def take_stdio() -> tuple[BinaryIO, BinaryIO]:
    """The message streams; what anything else prints to stdout goes to stderr from now on."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, replies


class Tools(NamedTuple):
    """The files beside this one that do the work."""

    numba_compat: types.ModuleType
    opencl: types.ModuleType
    host_stub: types.ModuleType


def load_tools() -> Tools:
    """Import the toolchain."""
    return Tools(*map(load_neighbour, Tools._fields))


def machine_code(tools: Tools, spirv: bytes) -> tuple[dict[str, bytes], str]:
    """Machine code for this computer's CPU device and to launch it from there, and the device's identity; both empty
    if it has none."""
    target = tools.opencl.open_cpu()
    if target is None:
        return {}, ""
    native, stub = tools.opencl.compile_spirv(target, spirv), tools.host_stub
    return {"native": native, "share_out": stub.share_out(), "launch": stub.launch()}, target.identity


def cpu_seconds() -> tuple[float, float]:
    """Processor time of this process, and of those it started and waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), children.ru_utime + children.ru_stime


def compile_request(tools: Tools, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Compile one request; the reply's header and binaries."""
    params = [(kind, dtype, extent) for kind, dtype, extent in request["params"]]
    moments = [cpu_seconds()]
    try:
        entry, spirv, llvm = tools.numba_compat.compile_to_spirv(
            request["text"], request["name"], params, request["ndim"], request["nd_range"]
        )
        moments.append(cpu_seconds())
        codes, fits = machine_code(tools, spirv) if request["native"] else ({}, "")
        moments.append(cpu_seconds())
    except Exception as error:  # whatever the compiler raises is the user's answer, not a reason to end
        detail = "" if type(error).__module__.startswith("numba") else traceback.format_exc()
        return {"status": "error", "type": type(error).__name__, "message": f"{error}\n{detail}".strip()}, {}
    (start, start_spirv), (middle, end_spirv), (end, _) = moments
    seconds = {"numba": middle - start, "llvm-spirv": end_spirv - start_spirv, "driver": end - middle}
    return {"status": "ok", "entry": entry, "llvm": llvm, "fits": fits, "seconds": seconds}, {"spirv": spirv, **codes}


WARM_UP = (
    ("i = item.get_id(0)\n    x[i] = select(x[i] > np.float32(0.0), exp(x[i]), x[i] + x[i] * x[i])", False),
    (
        "lane = np.int64(item.get_local_id(0))\n    r = work_group_0(np.int64(16))\n"
        "    for j in range(lane, np.int64(64), np.int64(16)):\n        x[r * 64 + j] = group_add(x[j])",
        True,
    ),
)
"""Function bodies and whether they take an NdItem: what most kernels have in them."""


def warm_up(tools: Tools, requests: BinaryIO) -> None:
    """Compile what most kernels have in them, as long as nothing is asked for: the first use of anything is slow."""
    for number, (body, nd_range) in enumerate(WARM_UP):
        if select.select([requests], [], [], 0)[0]:
            return
        name = f"warm_up_{number}"
        request = {"text": f"def {name}(item, x):\n    {body}\n", "name": name, "ndim": 1, "nd_range": nd_range}
        compile_request(tools, {**request, "params": [["pointer", "float32", 0]], "native": True})


def serve(protocol: Any, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the other side closes the stream."""
    try:
        tools = load_tools()
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        protocol.write_message(
            replies,
            {"status": "unusable", "message": message, "versions": toolchain_versions(), "python": sys.executable},
        )
        return
    protocol.write_message(replies, {"status": "ready", "versions": toolchain_versions(), "pid": os.getpid()})
    warm_up(tools, requests)
    while True:
        request, _ = protocol.read_message(requests)
        header, binaries = compile_request(tools, request)
        sizes, body = protocol.pack(binaries)
        protocol.write_message(replies, {**header, "sizes": sizes}, body)


def main() -> None:
    """Entry point of the process."""
    # the script's folder comes first, where our file names would hide other modules
    sys.path[:] = [entry for entry in sys.path if entry and pathlib.Path(entry).resolve() != HERE]
    if sys.argv[1:] == ["--versions"]:
        print(json.dumps(toolchain_versions()))
        return
    restart_with_library_path()
    requests, replies = take_stdio()
    protocol = load_neighbour("protocol")
    try:
        serve(protocol, requests, replies)
    except (protocol.StreamClosed, BrokenPipeError, KeyboardInterrupt):
        os._exit(0)  # the parent is gone or done: nothing is worth finishing, nobody reads what would be printed


if __name__ == "__main__":
    main()
