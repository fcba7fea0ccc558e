"""One test for each workaround of the runtime. A failure means that the workaround is no longer needed: remove both."""

from __future__ import annotations

import os
import pathlib
import struct
import subprocess
import sys
import textwrap

import pytest

from device.runtime_harness import compiler, source
from lowering.artifacts import Param
from runtime import oneapi

pytestmark = pytest.mark.device
RUNTIME = pathlib.Path(oneapi.__file__).parent
HELP = ("LD_LIBRARY_PATH", "LD_PRELOAD", "OCL_ICD_FILENAMES", "ONEAPI_ROOT", "CMPLR_ROOT")


def python(text: str, prepared: bool = False) -> subprocess.CompletedProcess[str]:
    """Run ``text`` in a fresh process, with the library path of a compiler process if ``prepared``."""
    environment = {name: value for name, value in os.environ.items() if name not in HELP}
    folder = oneapi.library_dir()
    if prepared and folder is not None:
        environment["LD_LIBRARY_PATH"] = str(folder)
        environment["OCL_ICD_FILENAMES"] = str(folder / oneapi.OPENCL_DRIVER)
    command = [sys.executable, "-c", textwrap.dedent(text)]
    return subprocess.run(command, env=environment, capture_output=True, check=False, text=True, timeout=120)


PRELUDE = f"""
import importlib.util, re, sys
spec = importlib.util.spec_from_file_location("compat", {str(RUNTIME / "numba_compat.py")!r})
compat = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compat)
def compile_kernel(body, *params):
    return compat.compile_to_spirv("def k(item, x):\\n    " + body, "k", [("pointer", "float32", 0)], 1, False)
"""


def test_dpctl_does_not_find_its_libraries() -> None:
    """``libraries.load_sycl_runtime``."""
    assert python("import dpctl; assert dpctl.get_devices()").returncode != 0


def test_numba_dpex_needs_the_library_path_at_process_start() -> None:
    """``worker.restart_with_library_path``."""
    text = f"""
        import sys
        sys.path.insert(0, {str(RUNTIME.parent)!r})
        from runtime.libraries import import_dpctl
        import_dpctl()
        import numba_dpex
    """
    assert python(text).returncode != 0
    assert python("import numba_dpex", prepared=True).returncode == 0


def test_range_has_no_lowering_without_refresh() -> None:
    """``cpu_target.target_context.refresh()`` in ``numba_compat``."""
    text = (
        PRELUDE
        + """
class NoRefresh:
    class target_context:
        refresh = staticmethod(lambda: None)
compat.cpu_target = NoRefresh
compile_kernel("for i in range(3): x[i] = np.float32(1)")
"""
    )
    assert python(text, prepared=True).returncode != 0
    assert python(text.replace("compat.cpu_target = NoRefresh", ""), prepared=True).returncode == 0


def test_division_has_an_error_path_by_default() -> None:
    """``KERNEL_OPTIONS`` in ``numba_compat``."""
    text = (
        PRELUDE
        + """
compat.KERNEL_OPTIONS = {}
llvm = compile_kernel("x[0] = x[1] / x[2]")[2]
print("br i1" in llvm[llvm.index("define spir_kernel"):] or "icmp eq i64" in llvm or "fcmp oeq" in llvm)
"""
    )
    assert python(text, prepared=True).stdout.strip() == "True"


KERNEL_TARGET = """
from numba_dpex.core.descriptor import dpex_kernel_target
context = dpex_kernel_target.target_context
context.refresh()
"""


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (
            "_load_registries_once: tables grow at each refresh",
            KERNEL_TARGET
            + """
def size(): return sum(len(selector.versions) for selector in context._defns.values())
before = size()
context.refresh()
assert size() > before
""",
        ),
        (
            "_call_type_once: a call is resolved again though its types are known",
            KERNEL_TARGET
            + """
import operator
from numba.core import types
from numba.core.typing import npydecl
function = context.typing_context.resolve_value_type(operator.add)
find, found = npydecl.NumpyRulesArrayOperator.generic, []
npydecl.NumpyRulesArrayOperator.generic = lambda *args: found.append(args) or find(*args)
for count in (1, 2):
    function.get_call_type(context.typing_context, (types.float32, types.float32), {})
    assert len(found) >= count
""",
        ),
        (
            "_no_text: text is made for log messages that nobody reads",
            """
import inspect
from numba.core import compiler_machinery, ssa
assert "pformat(defs)" in inspect.getsource(ssa)
assert "pformat(internal_state.flags.values())" in inspect.getsource(compiler_machinery)
""",
        ),
        (
            "_optimise: all of LLVM's passes run, though the driver runs them again",
            """
import inspect
from numba_dpex.kernel_api_impl.spirv.codegen import SPIRVCodeLibrary
assert "PassManagerBuilder" in inspect.getsource(SPIRVCodeLibrary._optimize_final_module)
""",
        ),
        (
            "KernelPipeline: passes run that find nothing to do in a kernel",
            """
import inspect
from numba_dpex.core.pipelines import kernel_compiler
assert "define_untyped_pipeline" in inspect.getsource(kernel_compiler)
""",
        ),
    ],
)
def test_numba_spends_time_that_can_be_saved(place: str, text: str) -> None:
    """``numba_speed``, one case for each of its replacements."""
    done = python("import numba_dpex" + text, prepared=True)
    assert done.returncode == 0, (place, done.stderr)


def test_indices_are_assumed_to_be_small() -> None:
    """``INDEX_LIMIT`` in ``launcher``."""
    kernel = source("x[item.get_id(0)] = np.float32(1.25)", (Param("x", "pointer", "float32"),))
    assert "2147483648" in compiler().submit(kernel).result().llvm


def test_contraction_is_off() -> None:
    """Not a workaround but what we rely on: llvm-spirv forbids fusing ``a * b + c`` (ExecutionMode ContractionOff)."""
    kernel = source("x[0] = x[0] * x[1] + x[2]", (Param("x", "pointer", "float32"),))
    spirv = compiler().submit(kernel).result().spirv
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    place, modes = 5, []
    while place < len(words):
        count, opcode = words[place] >> 16, words[place] & 0xFFFF
        if opcode == 16:
            modes.append(words[place + 2])
        place += count
    assert 31 in modes


def test_onednn_leaves_results_unwritten_where_openmp_gives_it_fewer_threads():
    text = """
        import os
        os.environ["OMP_THREAD_LIMIT"] = "1"
        import torch
        torch.set_num_threads(2)
        x = torch.randn(256, 256)
        expected = (x.double() @ x.t().double()).float()
        found = torch.ops.mkldnn._linear_pointwise(x, x, None, "none", [], "")
        print(torch.allclose(x @ x.t(), expected, atol=1e-3), torch.allclose(found, expected, atol=1e-3))
    """
    assert python(text).stdout.split() == ["True", "False"]
