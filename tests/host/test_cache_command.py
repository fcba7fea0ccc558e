"""`xpu-aten cache`: what it prints and its exit codes. Needs neither a device nor numba-dpex."""

from __future__ import annotations

import pathlib

import pytest

from aten_backend import cli
from aten_backend.commands import cache as command
from aten_backend.options import Options
from aten_backend.pipeline import compiler_for
from lowering.artifacts import KernelSource, Param
from runtime.cache import CompiledKernel, KernelKey, SpirvCache

KERNEL = CompiledKernel("k_1", "entry", b"spirv" * 99, "define void @k()", b"native", "a CPU")
SOURCE = KernelSource("k_1", "def k_1(item, x): pass", (Param("x", "pointer", "float32"),), 1)
TARGET = """
import torch
def small():
    return torch.nn.functional.silu, (torch.randn(4, 5),)
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(command, "device_opens", lambda options: False)
    return tmp_path / "cache"


def run(folder: pathlib.Path, *arguments: str) -> int:
    return cli.main(["cache", arguments[0], "--dir", str(folder), *arguments[1:]])


def test_stats_tell_what_this_installation_can_use(folder: pathlib.Path, capsys) -> None:
    cache = SpirvCache(folder)
    key = compiler_for(Options(cache_dir=str(folder))).key(SOURCE)
    cache.store(key, KERNEL)
    cache.store(KernelKey("k_1", {**key.parts, "compiler source": "another"}), KERNEL)
    cache.store(KernelKey("k_2", {}), KERNEL)
    cache.path(KernelKey("k_2", {})).write_bytes(b"?")
    assert run(folder, "stats") == 0
    printed = capsys.readouterr().out
    assert str(folder) in printed
    assert "kernels     3, of which this installation can use 1" in printed
    assert "unreadable  1" in printed


def test_why_tells_of_a_target_and_of_a_name(folder: pathlib.Path, tmp_path: pathlib.Path, capsys) -> None:
    (tmp_path / "own.py").write_text(TARGET)
    target = f"{tmp_path / 'own.py'}:small"
    assert run(folder, "why", target) == 1
    line = capsys.readouterr().out
    name = line.split()[1].rstrip(":")
    assert line.startswith("compiled  ") and "no kernel of this name is kept" in line

    compiler, cache = compiler_for(Options(cache_dir=str(folder))), SpirvCache(folder)
    (source,) = command._kernels(target, Options())
    assert source.name == name
    stale = KernelKey(name, {**compiler.key(source).parts, "version of numba": "0.0"})
    cache.store(stale, KERNEL)
    assert run(folder, "why", target) == run(folder, "why", name) == 1
    assert capsys.readouterr().out.count("version of numba: 0.0 -> ") == 2

    cache.store(compiler.key(source), KERNEL)
    assert run(folder, "why", target) == run(folder, "why", name) == 0
    assert "can use it" in capsys.readouterr().out


def test_clear_empties_the_folder(folder: pathlib.Path, capsys) -> None:
    SpirvCache(folder).store(KernelKey("k_1", {}), KERNEL)
    assert run(folder, "clear") == 0
    assert "removed 1 kernels" in capsys.readouterr().out
    assert run(folder, "why", "k_1") == 1
    assert "no kernel of this name" in capsys.readouterr().out
