"""What numba and numba-dpex do over and over for each kernel, done once or left out. Changes no kernel's meaning.

Each function takes the place of one thing upstream; ``install`` puts them in. ``tests/upstream`` has a test for each
that fails when upstream no longer needs it. docs/compile-time.md has what each saves.

Loaded by file path inside the compiler process: numba, numba-dpex and the standard library only.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from llvmlite import binding
from numba.core import compiler_machinery, ssa
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import IRLegalization, NopythonTypeInference, PreLowerStripPhis
from numba.core.types.functions import BaseFunction
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode
from numba_dpex.core.passes.passes import NoPythonBackend, QualNameDisambiguationLowering
from numba_dpex.kernel_api_impl.spirv.codegen import SPIRVCodeLibrary
from numba_dpex.kernel_api_impl.spirv.target import SPIRVTargetContext

PASSES = (
    *(TranslateByteCode, FixupArgs, IRProcessing, ReconstructSSA),
    *(NopythonTypeInference, PreLowerStripPhis, IRLegalization),
    *(QualNameDisambiguationLowering, NoPythonBackend),
)
"""numba's passes that a kernel's text needs. It has no closures, ``with``, array expressions or literal unrolling, for
which the other dozen look."""


class KernelPipeline(CompilerBase):
    """numba-dpex's kernel pipeline with ``PASSES`` alone."""

    def define_pipelines(self) -> list[PassManager]:
        """The one pipeline."""
        passes = PassManager("xpu_aten_kernel")
        for each in PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        # as numba-dpex's own pipeline has it: LLVM's IR is the result, nothing is made to be called
        flags = self.state.flags
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        return [passes]


def _load_registries_once(self: SPIRVTargetContext) -> None:
    """numba refreshes a target whenever it meets an intrinsic; numba-dpex then appends its tables of mathematical
    functions again, and looking one up becomes slower with each kernel. From the second time on, only news."""
    if not self._registries:
        _load_registries(self)
    for registry in list(self._registries):
        self.install_registry(registry)


_load_registries = SPIRVTargetContext.load_additional_registries


def _no_text(value: object) -> str:
    """In the place of ``pprint.pformat``, which numba calls for log messages that nobody reads."""
    return ""


def _call_type_once(self: BaseFunction, context: Any, args: Any, kws: Any) -> Any:
    """The signature of a call, found once for each function and argument types."""
    if kws:
        return _call_type(self, context, args, kws)
    key = self, context, args
    found = _call_types.get(key)
    if found is None:
        found = _call_types[key] = _call_type(self, context, args, kws)
    return found


_call_type = BaseFunction.get_call_type
_call_types: dict[Any, Any] = {}


def _optimise(self: SPIRVCodeLibrary) -> None:
    """Into SSA form, one function, no dead code. The rest is the driver's, which optimises all of it again."""
    passes = binding.ModulePassManager()
    passes.add_function_inlining_pass(0)  # no more than what is marked: numba-dpex marks all of its functions
    passes.add_sroa_pass()
    passes.add_cfg_simplification_pass()
    passes.add_instruction_combining_pass()
    passes.add_gvn_pass()
    passes.add_cfg_simplification_pass()
    passes.add_dead_code_elimination_pass()
    passes.add_global_dce_pass()
    passes.run(self._final_module)


def install() -> None:
    """Put all of it in place."""
    SPIRVTargetContext.load_additional_registries = _load_registries_once
    BaseFunction.get_call_type = _call_type_once
    SPIRVCodeLibrary._optimize_final_module = _optimise
    compiler_machinery.pformat = ssa.pformat = _no_text


class _Constants(ast.NodeTransformer):
    """Replaces each ``np.float32(1.5)`` by a global variable, which numba takes for a constant: one statement of its
    IR instead of four."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._names: dict[tuple[str, str], str] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A conversion of a literal becomes a name."""
        self.generic_visit(node)  # arguments that are conversions themselves
        dtype = _dtype(node.func)
        value = _literal(node.args[0]) if dtype is not None and len(node.args) == 1 else None
        if dtype is None or value is None or not _holds(dtype, value):
            return node
        name = self._names.setdefault((dtype.__name__, repr(value)), f"constant{len(self._names)}")
        self.values[name] = dtype(value)
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _dtype(node: ast.expr) -> Any:
    """numpy's scalar type that ``node`` names as ``np.float32`` and its like, or None."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"):
        return None
    found = getattr(np, node.attr, None)
    return found if isinstance(found, type) and issubclass(found, np.number) else None


def _holds(dtype: Any, value: float | int) -> bool:
    """Whether ``value`` needs no more than rounding: numpy and numba differ on integers that are out of range."""
    if issubclass(dtype, np.floating):
        return True
    return isinstance(value, int) and int(np.iinfo(dtype).min) <= value <= int(np.iinfo(dtype).max)


def _literal(node: ast.expr) -> float | int | None:
    """The number that ``node`` spells out, if it does."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Attribute) and ast.unparse(node) in ("np.inf", "np.nan"):
        return getattr(np, node.attr)
    return None


def fold_constants(text: str) -> tuple[ast.Module, dict[str, Any]]:
    """The syntax tree of a kernel's text without its constants, and these by name."""
    folder = _Constants()
    return folder.visit(ast.parse(text)), folder.values
