"""SPIR-V on disk, so that a kernel is compiled once per machine."""

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
import zlib
from collections.abc import Mapping

from lowering.artifacts import KernelSource

logger = logging.getLogger(__name__)

FORMAT = 1
SUFFIX = ".spvc"
SIZE_LIMIT = 1 << 30
_MAGIC = b"XPUATEN\0"
_PREFIX = struct.Struct(">8sI32s")  # magic, length of the header, checksum of header and body
_COMPILER_SOURCES = ("numba_compat.py", "kernel_language.py")


@dataclasses.dataclass(frozen=True)
class CompiledKernel:
    """A kernel as SPIR-V, with the optimised LLVM text it came from."""

    name: str
    entry: str
    spirv: bytes
    llvm: str

    def __str__(self) -> str:
        return f"{self.name}: {len(self.spirv)} bytes of SPIR-V\n{self.llvm}"


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
    return digest.hexdigest()


def kernel_key(source: KernelSource, versions: Mapping[str, str], fingerprint: str) -> str:
    """The file name for ``source``: a hash of everything that decides the binary."""
    parts = {
        "format": FORMAT,
        "name": source.name,
        "text": source.text,
        "params": [[param.kind, param.dtype, param.extent] for param in source.params],
        "ndim": source.ndim,
        "nd_range": source.local_size is not None,
        "versions": dict(versions),
        "compiler": fingerprint,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def encode(kernel: CompiledKernel) -> bytes:
    """The content of a cache file: a checksum, a JSON header, then SPIR-V and compressed LLVM text."""
    header = json.dumps({"name": kernel.name, "entry": kernel.entry, "spirv": len(kernel.spirv)}).encode()
    content = header + kernel.spirv + zlib.compress(kernel.llvm.encode(), 1)
    return _PREFIX.pack(_MAGIC, len(header), hashlib.sha256(content).digest()) + content


def decode(data: bytes) -> CompiledKernel:
    """The inverse of ``encode``; ValueError if the data is not what was written."""
    if len(data) < _PREFIX.size:
        raise ValueError("too short")
    magic, header_length, checksum = _PREFIX.unpack_from(data)
    content = data[_PREFIX.size :]
    if magic != _MAGIC or hashlib.sha256(content).digest() != checksum:
        raise ValueError("wrong checksum")
    header = json.loads(content[:header_length])
    end = header_length + header["spirv"]
    llvm = zlib.decompress(content[end:]).decode()
    return CompiledKernel(header["name"], header["entry"], content[header_length:end], llvm)


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

    def path(self, key: str) -> pathlib.Path:
        """Where the kernel with this key is kept."""
        return self.folder / key[:2] / f"{key}{SUFFIX}"

    def load(self, key: str) -> CompiledKernel | None:
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

    def store(self, key: str, kernel: CompiledKernel) -> None:
        """Keep a kernel. Readers see the whole file or none."""
        if not self._writable:
            return
        try:
            write_whole(self.path(key), encode(kernel))
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

    def clear(self) -> int:
        """Remove every kernel; return how many there were."""
        files = self.files()
        for path, _ in files:
            path.unlink(missing_ok=True)
        return len(files)
