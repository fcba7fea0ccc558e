"""SPIR-V as text, where a tool for that is installed."""

from __future__ import annotations

import importlib.util
import logging
import pathlib
import shutil
import subprocess
import tempfile

logger = logging.getLogger(__name__)

_PACKAGE = "dpcpp_llvm_spirv"
"""What numba-dpex itself calls to make SPIR-V; it translates back as well."""


def find_tool() -> list[str] | None:
    """The command that writes the text of the file named next to stdout: spirv-dis, else numba-dpex's llvm-spirv."""
    if path := shutil.which("spirv-dis"):
        return [path, "--no-color"]
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        tool = pathlib.Path(folder) / "bin" / "llvm-spirv"
        if tool.exists():
            return [str(tool), "--to-text", "-o", "-"]
    return None


def disassemble(spirv: bytes) -> str | None:
    """``spirv`` as text; None where there is no tool, or it does not take this module."""
    command = find_tool()
    if command is None:
        return None
    try:
        with tempfile.NamedTemporaryFile(suffix=".spv") as file:  # llvm-spirv does not read pipes
            file.write(spirv)
            file.flush()
            done = subprocess.run([*command, file.name], capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        logger.info("SPIR-V is not disassembled: %s", error)
        return None
    return done.stdout.decode(errors="replace")
