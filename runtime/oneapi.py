"""Where the oneAPI libraries are that pip installs.

Loaded by file path inside the compiler processes too: standard library only.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pathlib
import re
import sys
from collections.abc import Iterator

DISTRIBUTIONS = ("intel-sycl-rt", "intel-cmplr-lib-rt", "dpcpp-cpp-rt")
OPENCL_DRIVER = "libintelocl.so"
_SYCL = re.compile(r"libsycl\.so\.(\d+(?:\.\d+)*)")


def _candidates() -> Iterator[pathlib.Path]:
    for distribution in DISTRIBUTIONS:
        try:
            files = importlib.metadata.files(distribution) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        # wheels put the libraries in <prefix>/lib, wherever the installer's scheme has that
        yield from (pathlib.Path(str(file.locate())).parent for file in files if _SYCL.fullmatch(file.name))
    yield pathlib.Path(sys.prefix) / "lib"
    spec = importlib.util.find_spec("dpctl")  # finds without importing
    for location in (spec.submodule_search_locations or []) if spec is not None else []:
        # <prefix>/lib/pythonX.Y/site-packages/dpctl
        yield from (parent / "lib" for parent in list(pathlib.Path(location).parents)[:5])
    yield pathlib.Path(sys.base_prefix) / "lib"


def sycl_version(folder: pathlib.Path) -> tuple[int, ...]:
    """The version of the SYCL runtime in ``folder``, from its file names; empty if there is none."""
    matches = (_SYCL.fullmatch(path.name) for path in folder.glob("libsycl.so.*"))
    return max((tuple(map(int, match[1].split("."))) for match in matches if match), default=())


def library_dir() -> pathlib.Path | None:
    """The folder with pip's oneAPI libraries for this interpreter, or None."""
    for candidate in _candidates():
        if sycl_version(candidate):
            return candidate.resolve()
    return None


def library_path(folder: pathlib.Path, current: str | None) -> str:
    """LD_LIBRARY_PATH with ``folder`` first: what stands later still serves libraries that it does not have."""
    rest = [entry for entry in (current or "").split(os.pathsep) if entry and entry != str(folder)]
    return os.pathsep.join([str(folder), *rest])
