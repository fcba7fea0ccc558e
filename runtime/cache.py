"""Compiled kernels on disk, so that a kernel is compiled once per machine. docs/cache.md says what a key is made of."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import pathlib
import struct
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from lowering.artifacts import KernelSource
from runtime.protocol import pack, unpack

logger = logging.getLogger(__name__)

FORMAT = 3
SUFFIX = ".spvc"
SIZE_LIMIT = 1 << 30
_MAGIC = b"XPUATEN\0"
_PREFIX = struct.Struct(">8sI32s")  # magic, length of the header, checksum of header and body
_COMPILER_SOURCES = (
    *("numba_compat.py", "numba_speed.py", "kernel_language.py"),
    *("opencl.py", "host_stub.py", "share_layout.py"),
)
_BINARIES = ("spirv", "native", "share_out", "launch")
_ABANDONED = 3600.0
"""Seconds after which a file that is still being written never will be finished."""


@dataclasses.dataclass(frozen=True)
class CompiledKernel:
    """A kernel as SPIR-V, with the optimised LLVM text it came from.

    ``native`` is machine code for the device that ``fits`` identifies (``opencl.Target.identity``), ``share_out`` and
    ``launch`` that of the functions by which threads of the host launch it (``host_stub``); empty if there is none.
    """

    name: str
    entry: str
    spirv: bytes
    llvm: str
    native: bytes = b""
    fits: str = ""
    share_out: bytes = b""
    launch: bytes = b""

    def __str__(self) -> str:
        code = f" and {len(self.native)} bytes of machine code for {self.fits}" if self.native else ""
        return f"{self.name}: {len(self.spirv)} bytes of SPIR-V{code}\n{self.llvm}"


@dataclasses.dataclass(frozen=True)
class KernelKey:
    """Everything that decides a kernel's binary, by the name under which `xpu-aten cache why` tells of it."""

    name: str
    parts: Mapping[str, str]

    @property
    def digest(self) -> str:
        """A hash of all parts."""
        return hashlib.sha256(json.dumps([self.name, dict(self.parts)], sort_keys=True).encode()).hexdigest()

    def differs_from(self, parts: Mapping[str, str]) -> list[str]:
        """What ``parts``, of another key, have different: "part: theirs -> ours"."""
        names = [*self.parts, *(name for name in parts if name not in self.parts)]
        ours = self.parts
        return [
            f"{name}: {parts.get(name, 'none')} -> {ours.get(name, 'none')}"
            for name in names
            if parts.get(name) != ours.get(name)
        ]


def default_dir() -> pathlib.Path:
    """XPU_ATEN_CACHE_DIR, else xpu_aten in XDG_CACHE_HOME, else ~/.cache/xpu_aten."""
    named = os.environ.get("XPU_ATEN_CACHE_DIR")
    if named:
        return pathlib.Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "xpu_aten"


def compiler_fingerprint() -> str:
    """Hash of the source of our part of the compiler."""
    digest = hashlib.sha256()
    for name in _COMPILER_SOURCES:
        digest.update(pathlib.Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()[:16]


def environment(versions: Mapping[str, str], fingerprint: str, processor: str = "") -> dict[str, str]:
    """The parts of a key that all kernels of an installation share: the versions of the toolchain, the hash of our part
    of the compiler, and what machine code is for; ``processor`` is empty if none is made."""
    return {
        **{f"version of {name}": version for name, version in sorted(versions.items())},
        "compiler source": fingerprint,
        "processor": processor or "none",
        "file format": str(FORMAT),
    }


def kernel_key(source: KernelSource, versions: Mapping[str, str], fingerprint: str, processor: str = "") -> KernelKey:
    """The key of ``source``; the other arguments are those of ``environment``."""
    params = ", ".join(f"{param.kind} {param.dtype}{param.extent or ''}" for param in source.params)
    kind = "NdItem" if source.local_size is not None else "Item"
    parts = {
        "text": hashlib.sha256(source.text.encode()).hexdigest()[:16],
        "signature": f"{kind}<{source.ndim}>({params})",
        **environment(versions, fingerprint, processor),
    }
    return KernelKey(source.name, parts)


def encode(kernel: CompiledKernel, parts: Mapping[str, str]) -> bytes:
    """The content of a cache file: a checksum, a JSON header, then SPIR-V, machine codes and compressed LLVM text."""
    fields = {"name": kernel.name, "entry": kernel.entry, "fits": kernel.fits, "parts": dict(parts)}
    sizes, binaries = pack({name: getattr(kernel, name) for name in _BINARIES})
    header = json.dumps({**fields, "sizes": sizes}).encode()
    content = header + binaries + zlib.compress(kernel.llvm.encode(), 1)
    return _PREFIX.pack(_MAGIC, len(header), hashlib.sha256(content).digest()) + content


def decode(data: bytes) -> CompiledKernel:
    """The kernel in a file's content; ValueError if the data is not what was written."""
    if len(data) < _PREFIX.size:
        raise ValueError("too short")
    magic, header_length, checksum = _PREFIX.unpack_from(data)
    content = data[_PREFIX.size :]
    if magic != _MAGIC or hashlib.sha256(content).digest() != checksum:
        raise ValueError("wrong checksum")
    header = json.loads(content[:header_length])
    binaries, llvm = unpack(header["sizes"], content[header_length:])
    return CompiledKernel(
        header["name"], header["entry"], llvm=zlib.decompress(llvm).decode(), fits=header["fits"], **binaries
    )


def read_key(file: BinaryIO) -> KernelKey:
    """The key under which a file was written; ValueError or OSError if it cannot be read."""
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        raise ValueError("too short")
    magic, header_length, _ = _PREFIX.unpack(prefix)
    if magic != _MAGIC or header_length > 1 << 20:
        raise ValueError("not a compiled kernel")
    header: dict[str, Any] = json.loads(file.read(header_length))
    if not isinstance(header.get("parts"), dict):
        raise ValueError("of an older format")
    return KernelKey(header["name"], header["parts"])


def write_whole(path: pathlib.Path, data: bytes) -> None:
    """Write a file that other processes see whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        pathlib.Path(temporary).unlink(missing_ok=True)
        raise


class SpirvCache:
    """A folder of compiled kernels, shared by any number of processes. Never in the way: it can miss, not fail."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, size_limit: int = SIZE_LIMIT) -> None:
        self.folder = pathlib.Path(folder) if folder is not None else default_dir()
        self.size_limit = size_limit
        self._writable = True
        self._trimmed = False
        self._lock = threading.Lock()

    def path(self, key: KernelKey) -> pathlib.Path:
        """Where the kernel with this key is kept. All kernels of one name are in one folder."""
        return self._folder_of(key.name) / f"{key.name}.{key.digest[:32]}{SUFFIX}"

    def _folder_of(self, name: str) -> pathlib.Path:
        return self.folder / hashlib.sha256(name.encode()).hexdigest()[:2]

    def load(self, key: KernelKey) -> CompiledKernel | None:
        """The kernel with this key, or None. A damaged file counts as none."""
        path = self.path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.info("cannot read %s: %s", path, error)
            return None
        try:
            kernel = decode(data)
        except (ValueError, KeyError, zlib.error) as error:
            logger.warning("the cached kernel %s is damaged (%s); compiling it again", path, error)
            return None
        try:
            os.utime(path)  # trimming drops what was not used for longest
        except OSError:
            logger.debug("cannot touch %s", path)
        return kernel

    def why_missing(self, key: KernelKey) -> str:
        """Why ``load`` finds nothing: what is different about the kernel of this name that is nearest to ``key``."""
        found = [parts for _, parts in self.readable(key.name)]
        if not found:
            return "no kernel of this name is kept: its code, or the compiler's way to emit it, is new here"
        differences = min((key.differs_from(parts) for parts in found), key=len)
        return "; ".join(differences) if differences else "its file is damaged"

    def readable(self, name: str | None = None) -> Iterator[tuple[pathlib.Path, dict[str, str]]]:
        """The files (of kernel ``name``) that can be read, with the parts of their keys."""
        of_name = self.folder.glob(f"??/*{SUFFIX}") if name is None else self._folder_of(name).glob(f"{name}.*{SUFFIX}")
        for path in of_name:
            try:
                with open(path, "rb") as file:
                    parts = dict(read_key(file).parts)
                yield path, parts
            except (OSError, ValueError) as error:
                logger.debug("cannot read %s: %s", path, error)

    def store(self, key: KernelKey, kernel: CompiledKernel) -> None:
        """Keep a kernel. Readers see the whole file or none."""
        if not self._writable:
            return
        try:
            write_whole(self.path(key), encode(kernel, key.parts))
        except OSError as error:
            self._writable = False
            logger.warning(
                "kernels cannot be kept in %s: %s. They are compiled anew in each process; "
                "set XPU_ATEN_CACHE_DIR (or the option `cache_dir`) to a writable folder.",
                self.folder,
                error,
            )
            return
        self._trim_once()

    def _trim_once(self) -> None:
        with self._lock:
            if self._trimmed:
                return
            self._trimmed = True
        self.trim()

    def files(self) -> list[tuple[pathlib.Path, os.stat_result]]:
        """The cache's files; those another process removes meanwhile are left out."""
        found = []
        for path in self.folder.glob(f"??/*{SUFFIX}"):
            try:
                found.append((path, path.stat()))
            except FileNotFoundError:
                continue
        return found

    def trim(self) -> int:
        """Remove the files unused for longest until the folder is within its limit; return how many were removed."""
        self._sweep(_ABANDONED)
        files = sorted(self.files(), key=lambda entry: entry[1].st_mtime)
        excess = sum(status.st_size for _, status in files) - self.size_limit
        removed = 0
        for path, status in files:
            if excess <= 0:
                break
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                logger.info("cannot remove %s: %s", path, error)
                continue
            excess -= status.st_size
            removed += 1
        return removed

    def _sweep(self, age: float) -> None:
        """Remove what processes that were killed left half written, ``age`` seconds ago or more."""
        for path in self.folder.glob("??/.*.tmp"):
            try:
                if time.time() - path.stat().st_mtime >= age:
                    path.unlink(missing_ok=True)
            except OSError as error:
                logger.info("cannot remove %s: %s", path, error)

    def clear(self) -> int:
        """Remove every kernel; return how many there were."""
        self._sweep(_ABANDONED)
        files = self.files()
        for path, _ in files:
            path.unlink(missing_ok=True)
        return len(files)
