"""The kernel cache on disk: keys, damage, folders that cannot be written, trimming, several processes."""

from __future__ import annotations

import dataclasses
import io
import logging
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from lowering.artifacts import KernelSource, Param
from runtime.cache import CompiledKernel, KernelKey, SpirvCache, decode, default_dir, encode, kernel_key, read_key

KERNEL = CompiledKernel("k_1", "entry", bytes(range(256)) * 20, "define void @k()\n" * 50, b"native" * 9, "a CPU")
SOURCE = KernelSource("k_1", "def k_1(item, x): pass", (Param("x", "pointer", "float32"),), 1)
VERSIONS = {"numba-dpex": "0.23.0"}
KEYS = [KernelKey(f"k_{number}", {"text": "ab"}) for number in range(4)]


def test_round_trip(tmp_path: pathlib.Path) -> None:
    cache = SpirvCache(tmp_path)
    assert cache.load(KEYS[0]) is None
    cache.store(KEYS[0], KERNEL)
    assert SpirvCache(tmp_path).load(KEYS[0]) == KERNEL
    assert [path.suffix for path in tmp_path.glob("*/*")] == [".spvc"]
    assert cache.clear() == 1
    assert cache.load(KEYS[0]) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "k_2"},
        {"text": "def k_1(item, x): return"},
        {"params": (Param("x", "pointer", "float64"),)},
        {"params": (Param("x", "local", "float32", 4),)},
        {"ndim": 2},
        {"local_size": (16,)},
    ],
)
def test_key_depends_on_everything_that_decides_the_binary(changed: dict[str, Any]) -> None:
    key = kernel_key(SOURCE, VERSIONS, "f")
    assert key == kernel_key(dataclasses.replace(SOURCE), dict(VERSIONS), "f")
    assert key != kernel_key(dataclasses.replace(SOURCE, **changed), VERSIONS, "f")
    assert key != kernel_key(SOURCE, {"numba-dpex": "0.24.0"}, "f")
    assert key != kernel_key(SOURCE, VERSIONS, "g")
    assert key != kernel_key(SOURCE, VERSIONS, "f", "a processor")
    assert key.digest == kernel_key(SOURCE, VERSIONS, "f").digest
    assert key.digest != kernel_key(dataclasses.replace(SOURCE, **changed), VERSIONS, "f").digest


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (kernel_key(SOURCE, {"numba-dpex": "0.24.0"}, "f"), "version of numba-dpex: 0.23.0 -> 0.24.0"),
        (kernel_key(SOURCE, {**VERSIONS, "numba": "1"}, "f"), "version of numba: none -> 1"),
        (kernel_key(SOURCE, VERSIONS, "g"), "compiler source: f -> g"),
        (kernel_key(SOURCE, VERSIONS, "f", "p"), "processor: none -> p"),
        (kernel_key(dataclasses.replace(SOURCE, ndim=2), VERSIONS, "f"), "Item<1>(pointer float32) -> Item<2>"),
        (kernel_key(dataclasses.replace(SOURCE, name="k_9"), VERSIONS, "f"), "no kernel of this name"),
    ],
)
def test_a_miss_is_explained(tmp_path: pathlib.Path, other: KernelKey, reason: str) -> None:
    cache = SpirvCache(tmp_path)
    cache.store(kernel_key(SOURCE, {"numba-dpex": "0.1"}, "e"), KERNEL)  # further away
    cache.store(kernel_key(SOURCE, VERSIONS, "f"), KERNEL)
    assert reason in cache.why_missing(other)


def test_a_damaged_file_explains_a_miss(tmp_path: pathlib.Path) -> None:
    cache = SpirvCache(tmp_path)
    cache.store(KEYS[0], KERNEL)
    path = cache.path(KEYS[0])
    with open(path, "rb") as file:
        assert read_key(file).parts == KEYS[0].parts
    path.write_bytes(path.read_bytes()[:-1])
    assert "damaged" in cache.why_missing(KEYS[0])
    path.write_bytes(b"?")
    with pytest.raises(ValueError):
        read_key(io.BytesIO(path.read_bytes()))
    assert "no kernel of this name" in cache.why_missing(KEYS[0])


def test_half_written_files_of_killed_processes_are_swept(tmp_path: pathlib.Path) -> None:
    cache = SpirvCache(tmp_path)
    cache.store(KEYS[0], KERNEL)
    folder = cache.path(KEYS[0]).parent
    old, new = folder / ".old.tmp", folder / ".new.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    assert cache.trim() == 0
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize(
    "damage", [lambda d: b"", lambda d: d[:-3], lambda d: d[:200] + b"?" + d[201:], lambda d: d * 2]
)
def test_damaged_file_is_a_miss_and_is_rewritten(
    tmp_path: pathlib.Path, damage, caplog: pytest.LogCaptureFixture
) -> None:
    cache = SpirvCache(tmp_path)
    cache.store(KEYS[1], KERNEL)
    path = cache.path(KEYS[1])
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert cache.load(KEYS[1]) is None
    assert "damaged" in caplog.text
    cache.store(KEYS[1], KERNEL)
    assert cache.load(KEYS[1]) == KERNEL


def test_decode_refuses_every_truncation() -> None:
    data = encode(KERNEL, {})
    for length in range(0, len(data), 97):
        with pytest.raises(ValueError):
            decode(data[:length])


def test_folder_that_cannot_be_written_warns_once(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = SpirvCache(tmp_path / "file" / "cache")  # root may write anywhere, but not below a file
    with caplog.at_level(logging.WARNING):
        cache.store(KEYS[0], KERNEL)
        cache.store(KEYS[1], KERNEL)
        assert cache.load(KEYS[0]) is None
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


def test_trim_drops_what_was_unused_for_longest(tmp_path: pathlib.Path) -> None:
    size = len(encode(KERNEL, KEYS[0].parts))
    cache = SpirvCache(tmp_path, size_limit=2 * size)
    cache._trimmed = True
    for age, key in enumerate(KEYS):
        cache.store(key, KERNEL)
        os.utime(cache.path(key), (1000 + age, 1000 + age))
    assert cache.load(KEYS[0]) is not None  # used: now the newest
    assert cache.trim() == 2
    assert [cache.load(key) is not None for key in KEYS] == [True, False, False, True]


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.delenv("XPU_ATEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_dir() == tmp_path / "xpu_aten"
    monkeypatch.setenv("XPU_ATEN_CACHE_DIR", str(tmp_path / "mine"))
    assert default_dir() == tmp_path / "mine"


HAMMER = """
import sys
from typing import Any
from runtime.cache import CompiledKernel, KernelKey, SpirvCache
key = KernelKey("k_1", {"text": "ef"})
kernel = CompiledKernel("k_1", "entry", bytes(range(256)) * 20, "llvm" * 999)
cache = SpirvCache(sys.argv[1])
for _ in range(50):
    cache.store(key, kernel)
    assert cache.load(key) == kernel
"""


def test_processes_never_see_half_a_file(tmp_path: pathlib.Path) -> None:
    root = pathlib.Path(__file__).parents[2]
    processes = [subprocess.Popen([sys.executable, "-c", HAMMER, str(tmp_path)], cwd=root) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
