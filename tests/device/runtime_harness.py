"""Compiling and running small kernels for the tests of the runtime."""

from __future__ import annotations

import functools
import hashlib

import torch

from lowering.artifacts import KernelSource, Param
from runtime.compiler import KernelCompiler
from runtime.devices import resolve
from runtime.launcher import build_kernel

# torch has no arithmetic for the wider unsigned types, but it can hold them
STORAGE = {torch.bool: "uint8", torch.float16: "uint16", torch.bfloat16: "uint16"}


@functools.cache
def compiler() -> KernelCompiler:
    """One compiler without a cache, for all tests."""
    return KernelCompiler(workers=1)


def dtype_name(dtype: torch.dtype) -> str:
    """The storage type of a parameter for tensors of ``dtype``."""
    return STORAGE.get(dtype, str(dtype).removeprefix("torch."))


def source(
    body: str, params: tuple[Param, ...], ndim: int = 1, local_size: tuple[int, ...] | None = None
) -> KernelSource:
    """A kernel whose function body is ``body``; the item is called ``item``."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    digest = hashlib.sha256(repr((body, params, ndim, local_size)).encode()).hexdigest()[:16]
    name = f"kernel_{digest}"
    text = f"def {name}(item, {', '.join(param.name for param in params)}):\n{lines}\n"
    return KernelSource(name, text, params, ndim, local_size)


def run(
    body: str,
    tensors: dict[str, torch.Tensor],
    global_size: tuple[int, ...],
    local_size: tuple[int, ...] | None = None,
    scalars: dict[str, int | float] | None = None,
    local: dict[str, tuple[str, int]] | None = None,
) -> None:
    """Run ``body`` once over ``global_size`` work-items and wait."""
    scalars, local = scalars or {}, local or {}
    params = [Param(name, "pointer", dtype_name(tensor.dtype)) for name, tensor in tensors.items()]
    params += [
        Param(name, "scalar", "int64" if isinstance(value, int) else "float64") for name, value in scalars.items()
    ]
    params += [Param(name, "local", dtype, extent) for name, (dtype, extent) in local.items()]
    kernel = source(body, tuple(params), len(global_size), local_size)
    device = resolve("cpu")
    compiled = compiler().submit(kernel).result()
    launch = build_kernel(device, compiled, kernel).bind()
    launch.launch((*(tensor.data_ptr() for tensor in tensors.values()), *scalars.values()), global_size)
    device.wait()


def apply(expressions: dict[str, tuple[str, torch.dtype]], inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Evaluate expressions over the names of ``inputs`` elementwise, all in one kernel; returns them by name."""
    size = next(iter(inputs.values())).numel()
    outputs = {name: torch.zeros(size, dtype=dtype) for name, (_, dtype) in expressions.items()}
    loads = [f"{name} = {name}_p[i]" for name in inputs]
    stores = [f"{name}_o[i] = {expression}" for name, (expression, _) in expressions.items()]
    tensors = {f"{name}_p": value for name, value in inputs.items()} | {f"{n}_o": t for n, t in outputs.items()}
    run("\n".join(["i = item.get_id(0)", *loads, *stores]), tensors, (size,))
    return outputs
