"""Starts in surroundings that are wrong: each ends with a clear message, and a correct result or a clean stop."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runtime import worker
from support import ROOT, python

pytestmark = pytest.mark.device

PROGRAM = """
import torch
from torch._dynamo.utils import counters
from aten_backend.backend import xpu_aten

def f(x):
    return torch.softmax(x * 2 + 1, -1)

x = torch.randn(64, 100)
torch.testing.assert_close(torch.compile(f, backend=xpu_aten)(x), f(x), atol=1e-6, rtol=0)
print("launches", counters["xpu_aten"]["kernel_calls"])
"""


def start(tmp_path: Path, program: str = PROGRAM, **environment: str | None) -> Any:
    """Run a program with an empty cache and with ``environment`` on top (None: without that variable)."""
    caches = {"XPU_ATEN_CACHE_DIR": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch")}
    values = {**os.environ, **caches, "PYTHONPATH": str(ROOT), **environment}
    script = tmp_path / "script.py"
    script.write_text(program, encoding="utf-8")
    known = {name: value for name, value in values.items() if value is not None}
    return python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", env=known, cwd=tmp_path)


def check_eager(done: Any, *message: str) -> None:
    """It ran in eager, and said so once."""
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["launches", "0"]
    assert done.stderr.count("UserWarning: xpu_aten runs everything in eager") == 1
    assert "Traceback" not in done.stderr
    for text in message:
        assert text in done.stderr


def check_compiled(done: Any) -> None:
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["launches", "1"]


def check_stopped(done: Any, *message: str) -> None:
    """It failed, and the message is ours."""
    assert done.returncode == 1
    assert "launches" not in done.stdout
    for text in message:
        assert text in done.stderr


NO_DEVICE = [
    ({"ONEAPI_DEVICE_SELECTOR": "level_zero:gpu"}, "finds no SYCL device"),
    ({"XPU_ATEN_DEVICE": "level_zero:gpu"}, "no SYCL device fits 'level_zero:gpu'"),
]


@pytest.mark.parametrize(("environment", "message"), NO_DEVICE, ids=["hidden", "absent"])
def test_no_device(tmp_path, environment, message):
    check_eager(start(tmp_path, **environment), message, "intel-opencl-rt")


def test_no_device_stops_when_asked_to(tmp_path):
    done = start(tmp_path, XPU_ATEN_DEVICE="level_zero:gpu", XPU_ATEN_FALLBACK="error")
    check_stopped(done, "DeviceNotFoundError", "Present: opencl:cpu:0")


def test_opencl_driver_that_is_not_there(tmp_path):
    """A variable left over from another installation: ours is found beside the interpreter."""
    check_compiled(start(tmp_path, OCL_ICD_FILENAMES=str(tmp_path / "libintelocl.so")))


def executable(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def interpreter_without_numba_dpex(tmp_path: Path) -> str:
    """This interpreter with nothing installed. (The worker would start itself anew, with all that is installed.)"""
    return executable(tmp_path / "bare-python", f'export {worker.PREPARED}=1\nexec "{sys.executable}" -S "$@"\n')


def test_no_numba_dpex(tmp_path):
    bare = interpreter_without_numba_dpex(tmp_path)
    done = start(tmp_path, XPU_ATEN_COMPILER_PYTHON=bare)
    check_eager(done, "No module named 'numba_dpex'", "XPU_ATEN_COMPILER_PYTHON")


@pytest.mark.parametrize("fallback", ["eager", "error"])
def test_no_compiler_interpreter(tmp_path, fallback):
    missing = str(tmp_path / "python3")
    done = start(tmp_path, XPU_ATEN_COMPILER_PYTHON=missing, XPU_ATEN_FALLBACK=fallback)
    if fallback == "eager":
        check_eager(done, f"the compiler interpreter {missing} does not start")
    else:
        check_stopped(done, "ToolchainMissingError", f"the compiler interpreter {missing} does not start")


def dying_interpreter(tmp_path: Path, times: int) -> str:
    """An interpreter whose compiler process is killed over its first kernel, ``times`` times in all."""
    dies = tmp_path / "dies.py"
    dies.write_text(
        f"import os, signal, sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom runtime import protocol\n"
        "out = os.fdopen(1, 'wb', 0)\n"
        "protocol.write_message(out, {'status': 'ready', 'versions': {}, 'pid': os.getpid()})\n"
        "os.read(0, 1)\nos.kill(os.getpid(), signal.SIGKILL)\n",
        encoding="utf-8",
    )
    return executable(
        tmp_path / "dying-python",
        'case "$*" in *--versions) ;; *)\n'
        f'  n=$(ls "{tmp_path}" | grep -c "^death"); if [ "$n" -lt {times} ]; then\n'
        f'    touch "{tmp_path}/death$n"; exec "{sys.executable}" "{dies}"; fi ;;\nesac\n'
        f'exec "{sys.executable}" "$@"\n',
    )


def test_worker_killed_while_compiling(tmp_path):
    """The kernel goes to a new process, and the result is the same."""
    python_path = dying_interpreter(tmp_path, times=1)
    done = start(tmp_path, XPU_ATEN_COMPILER_PYTHON=python_path, XPU_ATEN_COMPILE_WORKERS="1")
    check_compiled(done)
    assert "died over kernel" in done.stderr


@pytest.mark.parametrize("fallback", ["eager", "error"])
def test_worker_killed_again_and_again(tmp_path, fallback):
    settings = {"XPU_ATEN_COMPILE_WORKERS": "1", "XPU_ATEN_FALLBACK": fallback}
    done = start(tmp_path, XPU_ATEN_COMPILER_PYTHON=dying_interpreter(tmp_path, times=99), **settings)
    if fallback == "error":
        check_stopped(done, "WorkerDiedError", "compile_workers")
        return
    assert done.returncode == 0, done.stderr
    assert "launches 0" in done.stdout
    assert "the compiler process died 2 times over kernel" in done.stderr
    assert (
        f"from aten.amax.default at {tmp_path / 'script.py'}:7: return torch.softmax(x * 2 + 1, -1)" in done.stderr
    ), "the user's line is named"


def test_other_libraries_on_the_library_path(tmp_path):
    folder = tmp_path / "oneapi"
    folder.mkdir()
    for name in ("libsycl.so.7", "libintlc.so.5", "libOpenCL.so.1", "libtbb.so.12", "libimf.so", "libsvml.so"):
        (folder / name).write_bytes(b"not a library")
    check_compiled(start(tmp_path, LD_LIBRARY_PATH=str(folder)))


READ_ONLY = ["home", "cache", "proc"]


@pytest.mark.parametrize("where", READ_ONLY)
def test_nothing_can_be_written(tmp_path, where):
    """A file stands where the folder should be: unlike a permission, that stops the superuser too."""
    obstacle = tmp_path / "file"
    obstacle.touch()
    environment: Any = {
        "home": {"HOME": str(obstacle), "XPU_ATEN_CACHE_DIR": None, "XDG_CACHE_HOME": None},
        "cache": {"XPU_ATEN_CACHE_DIR": str(obstacle / "cache")},
        "proc": {"XPU_ATEN_CACHE_DIR": os.path.join(os.sep, "proc", "xpu_aten")},
    }[where]
    done = start(tmp_path, **environment)
    check_compiled(done)
    assert done.stderr.count("kernels cannot be kept in") == 1
    assert "cache_dir" in done.stderr


def test_damaged_cache(tmp_path):
    check_compiled(start(tmp_path))
    (kept,) = (tmp_path / "cache").rglob("*.spvc")
    kept.write_bytes(kept.read_bytes()[:100])
    done = start(tmp_path)
    check_compiled(done)
    assert "is damaged" in done.stderr


@pytest.mark.parametrize("name", ["runtime.py", "lowering/__init__.py"])
def test_a_file_of_our_name_beside_the_script(tmp_path, name):
    obstacle = tmp_path / name
    obstacle.parent.mkdir(exist_ok=True)
    obstacle.touch()
    done = start(tmp_path, f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}")
    check_stopped(done, "ImportError: xpu_aten needs its own package", str(obstacle), "Rename that file")


FORK = (
    PROGRAM
    + """
import os, sys
sys.stdout.flush()
compiled = torch.compile(f, backend=xpu_aten)
child = os.fork()
if child == 0:
    try:
        compiled(x)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
torch.testing.assert_close(compiled(x), f(x), atol=1e-6, rtol=0)
print("parent goes on")
"""
)


def test_fork_after_compiling(tmp_path):
    done = start(tmp_path, FORK)
    assert done.returncode == 0, done.stderr
    assert "LaunchError kernels cannot run in a process that was forked" in done.stdout
    assert "spawn" in done.stdout
    assert "parent goes on" in done.stdout


def test_fork_before_compiling(tmp_path):
    """A child of a process that has only imported us compiles and runs."""
    program = (
        "import os, torch\nfrom aten_backend.backend import xpu_aten\nimport sys\nif os.fork():\n"
        "    _, status = os.wait()\n    sys.exit(os.waitstatus_to_exitcode(status))\n"
    ) + PROGRAM
    check_compiled(start(tmp_path, program))


def test_ends_at_once_without_processes_left(tmp_path):
    """The compiler processes end with their user, however it ends."""
    program = PROGRAM + "\nimport os\nfrom runtime.compiler import _registry\n"
    program += "print('pids', *(p for c in _registry.all for p in c.worker_pids()), flush=True)\nos._exit(7)\n"
    done = start(tmp_path, program)
    assert done.returncode == 7
    pids = [int(p) for p in done.stdout.splitlines()[-1].split()[1:]]
    assert pids
    for pid in pids:
        _wait_until_gone(pid)


def _wait_until_gone(pid: int, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = (Path(os.sep) / "proc" / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"compiler process {pid} is still there")
