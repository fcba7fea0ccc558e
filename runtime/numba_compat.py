"""Everything that is needed to make numba-dpex compile a kernel text to SPIR-V, and nothing else.

This file and ``kernel_language.py`` beside it are loaded by path inside the compiler process, whose interpreter has
numba-dpex but not necessarily this package. Every workaround for numba-dpex is here, and ``tests/upstream`` has a
test for each that fails when it is no longer needed.
"""

from __future__ import annotations

import importlib.util
import math
import pathlib
import types as python_types
from collections.abc import Sequence
from typing import Any

import numba_dpex
import numpy as np
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba_dpex.core.types.kernel_api.index_space_ids import ItemType, NdItemType

GLOBAL_MEMORY, LOCAL_MEMORY = 1, 3  # LLVM address spaces of SPIR-V targets

# "numpy": a division by zero gives infinity or NaN. The default, "python", builds an error path into every division.
KERNEL_OPTIONS = {"error_model": "numpy"}

ParamTuple = tuple[str, str, int]


def _load_neighbour(name: str) -> python_types.ModuleType:
    path = pathlib.Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_xpu_aten_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LANGUAGE: dict[str, Any] = _load_neighbour("kernel_language").LANGUAGE
speed = _load_neighbour("numba_speed")
speed.install()


def _argument_type(param: ParamTuple) -> Any:
    kind, dtype, _extent = param
    element = getattr(types, dtype)
    if kind == "scalar":
        return element
    return types.CPointer(element, addrspace=LOCAL_MEMORY if kind == "local" else GLOBAL_MEMORY)


def _load_kernel(text: str, name: str) -> Any:
    # numba finds the names a function uses in its globals; a fresh dictionary for each kernel keeps them apart
    tree, constants = speed.fold_constants(text)
    scope: dict[str, Any] = {"math": math, "np": np, **LANGUAGE, **constants}
    exec(compile(tree, f"<kernel {name}>", "exec"), scope)
    function = scope.get(name)
    if not callable(function):
        raise ValueError(f"the text of kernel {name!r} defines no function of that name")
    return function


def compile_to_spirv(
    text: str, name: str, params: Sequence[ParamTuple], ndim: int, nd_range: bool
) -> tuple[str, bytes, str]:
    """Compile the function ``name`` in ``text``; return its entry point, SPIR-V and optimised LLVM text.

    ``params`` are (kind, dtype, extent), as in ``lowering.artifacts.Param``. The first argument of the function is an
    NdItem if ``nd_range``, else an Item, of ``ndim`` dimensions.
    """
    function = _load_kernel(text, name)
    # Without this `range` has no lowering in a kernel that is compiled by signature.
    cpu_target.target_context.refresh()
    item = NdItemType(ndim) if nd_range else ItemType(ndim)
    signature = (item, *map(_argument_type, params))
    with global_compiler_lock:
        compiler = numba_dpex.kernel(**KERNEL_OPTIONS)(function)._compiler
        compiler.pipeline_class = speed.KernelPipeline
        result = compiler.compile(signature, types.void)
    module = result.kernel_device_ir_module
    return module.kernel_name, module.kernel_bitcode, str(result.library.final_module)
