"""The messages to a compiler process, and how the process sets itself up. Needs neither a device nor numba-dpex."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys

import pytest

from runtime import oneapi, protocol, worker


def test_messages_round_trip() -> None:
    stream = io.BytesIO()
    protocol.write_message(stream, {"a": ["ü", 1]}, b"\0\1\2")
    protocol.write_message(stream, {})
    stream.seek(0)
    assert protocol.read_message(stream) == ({"a": ["ü", 1]}, b"\0\1\2")
    assert protocol.read_message(stream) == ({}, b"")
    with pytest.raises(protocol.StreamClosed):
        protocol.read_message(stream)


def test_message_cut_short_is_noticed() -> None:
    stream = io.BytesIO()
    protocol.write_message(stream, {"a": 1}, b"body")
    with pytest.raises(protocol.StreamClosed):
        protocol.read_message(io.BytesIO(stream.getvalue()[:-1]))


def test_messages_larger_than_a_pipe() -> None:
    read_end, write_end = os.pipe()
    body = os.urandom(1 << 20)
    if (child := os.fork()) == 0:
        with open(write_end, "wb", buffering=0) as stream:
            protocol.write_message(stream, {"n": 1}, body)
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb", buffering=0) as stream:
        assert protocol.read_message(stream) == ({"n": 1}, body)
    os.waitpid(child, 0)


def test_versions_do_not_import_the_toolchain_and_ignore_the_folder(tmp_path: pathlib.Path) -> None:
    for name in ("runtime.py", "numba.py", "json.py", "llvmlite.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-E", worker.__file__, "--versions"]
    output = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True).stdout
    assert json.loads(output) == worker.toolchain_versions()


def test_library_path_comes_first() -> None:
    folder = pathlib.Path("/opt/lib")
    assert oneapi.library_path(folder, None) == "/opt/lib"
    assert oneapi.library_path(folder, "/foreign:/opt/lib::/other") == "/opt/lib:/foreign:/other"


def test_sycl_version(tmp_path: pathlib.Path) -> None:
    assert oneapi.sycl_version(tmp_path) == ()
    for name in ("libsycl.so.7", "libsycl.so.7.2.0", "libsycl.so.7.2.0-gdb.py", "libsycl-preview.so.9"):
        (tmp_path / name).touch()
    assert oneapi.sycl_version(tmp_path) == (7, 2, 0)
