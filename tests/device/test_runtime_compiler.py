"""Compiler processes: errors, deaths, missing toolchains, forks, and the end of the user's process."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from device.runtime_harness import compiler, source
from lowering.artifacts import Param
from runtime import opencl
from runtime.cache import SpirvCache
from runtime.compiler import KernelCompiler, WorkerProcess, shared
from runtime.errors import KernelCompileError, ToolchainMissingError, WorkerDiedError

pytestmark = pytest.mark.device

X = (Param("x", "pointer", "float32"),)
ROOT = pathlib.Path(__file__).parents[2]


def test_same_name_is_compiled_once() -> None:
    kernel = source("x[item.get_id(0)] = np.float32(1.5)", X)
    first = compiler().submit(kernel)
    assert compiler().submit(dataclasses.replace(kernel)) is first
    result = first.result()
    assert result.spirv[:4] == b"\x03\x02\x23\x07"
    assert "define spir_kernel" in result.llvm
    assert result.entry.encode() in result.spirv


def test_compile_error_names_the_kernel_and_leaves_the_worker_alive() -> None:
    compiler().submit(source("x[item.get_id(0)] = np.float32(2.5)", X)).result()
    pids = compiler().worker_pids()
    for body in ("x[item.get_id(0)] = no_such_thing(1)", "x[item.get_id(0)] = iadd(1, np.int32(1))", "if"):
        kernel = source(body, X)
        with pytest.raises(KernelCompileError) as caught:
            compiler().submit(kernel).result()
        assert caught.value.name == kernel.name
        assert kernel.text in str(caught.value)
    assert compiler().worker_pids() == pids


def test_machine_code_is_made_where_asked_for() -> None:
    kernel = source("x[item.get_id(0)] = np.float32(1.75)", X)
    made = compiler().submit(kernel).result()
    assert made.native and opencl.host_identity() in made.fits
    plain = KernelCompiler(native=False)
    other = plain.submit(kernel).result(60)
    plain.shutdown()
    assert (other.native, other.fits, other.spirv[:4]) == (b"", "", made.spirv[:4])


def test_killed_worker_is_replaced_and_the_kernel_tried_again() -> None:
    compiler().submit(source("x[item.get_id(0)] = np.float32(3.5)", X)).result()
    (pid,) = compiler().worker_pids()
    os.kill(pid, signal.SIGSTOP)  # so that it is certainly killed over this kernel
    future = compiler().submit(source("x[item.get_id(0)] = np.float32(4.5)", X))
    time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    assert future.result(60).spirv
    assert compiler().worker_pids() != [pid]


def test_worker_that_dies_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = WorkerProcess.compile

    def dies(self: WorkerProcess, kernel, native):
        os.kill(self.pid, signal.SIGKILL)
        return original(self, kernel, native)

    kernels = KernelCompiler()
    monkeypatch.setattr(WorkerProcess, "compile", dies)
    kernel = source("x[item.get_id(0)] = np.float32(5.5)", X)
    with pytest.raises(WorkerDiedError, match=kernel.name):
        kernels.submit(kernel).result(60)
    monkeypatch.undo()
    assert kernels.submit(kernel).result(60).spirv  # a later request starts afresh
    kernels.shutdown()


def test_interpreter_without_numba_dpex(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    kernels = KernelCompiler(str(tmp_path / "bin" / "python"))
    kernels.start()
    with pytest.raises(ToolchainMissingError, match="XPU_ATEN_COMPILER_PYTHON"):
        kernels.submit(source("x[item.get_id(0)] = np.float32(6.5)", X)).result(60)
    kernels.shutdown()


def test_interpreter_that_does_not_exist() -> None:
    kernels = KernelCompiler("/nonexistent/python", workers=2)
    with pytest.raises(ToolchainMissingError, match="/nonexistent/python"):
        kernels.submit(source("x[item.get_id(0)] = np.float32(7.5)", X)).result(60)
    kernels.shutdown()


def test_cached_kernel_needs_no_worker(tmp_path: pathlib.Path) -> None:
    kernel = source("x[item.get_id(0)] = np.float32(8.5)", X)
    first = KernelCompiler(cache=SpirvCache(tmp_path))
    compiled = first.submit(kernel).result(60)
    first.shutdown()
    second = KernelCompiler(cache=SpirvCache(tmp_path))
    assert second.submit(kernel).result(0) == compiled
    assert second.worker_pids() == []


def test_shared_is_one_per_setting(tmp_path: pathlib.Path) -> None:
    assert shared(cache_dir=tmp_path) is shared(cache_dir=tmp_path)
    assert shared(cache_dir=tmp_path) is not shared(cache_dir=tmp_path, workers=2)


def _script(body: str, cwd: pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    prelude = f"""
        import os, sys, time
        sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
        from lowering.artifacts import Param
        from runtime.compiler import KernelCompiler
        from device.runtime_harness import source
        kernel = source("x[item.get_id(0)] = np.float32(9.5)", (Param("x", "pointer", "float32"),))
    """
    text = textwrap.dedent(prelude) + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-c", text],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


def _gone(pid: int) -> bool:
    for _ in range(50):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return True  # reaping is up to whoever inherited it
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("moment", ["kernels.start()", "kernels.submit(kernel)", "kernels.submit(kernel).result()"])
def test_process_ends_quietly_whatever_the_workers_do(tmp_path: pathlib.Path, moment: str) -> None:
    done = _script(
        f"kernels = KernelCompiler(workers=2)\n{moment}\ntime.sleep(.1)\nprint(*kernels.worker_pids())", tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(_gone(int(pid)) for pid in done.stdout.split())


def test_workers_end_when_the_user_process_is_killed(tmp_path: pathlib.Path) -> None:
    done = _script(
        """
        kernels = KernelCompiler()
        kernels.submit(kernel).result()
        print(*kernels.worker_pids(), flush=True)
        os.kill(os.getpid(), 9)
        """,
        tmp_path,
    )
    assert _gone(int(done.stdout))


def test_files_of_the_user_do_not_confuse_the_worker(tmp_path: pathlib.Path) -> None:
    for name in ("numba.py", "numba_dpex.py", "llvmlite.py", "protocol.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module')\n")
    wrong = tmp_path / "lib"
    wrong.mkdir()
    for name in ("libsycl.so.7", "libtbb.so.12", "libOpenCL.so.1", "libsvml.so"):
        (wrong / name).write_text("not a library")
    body = "print(len(KernelCompiler().submit(kernel).result().spirv))"
    done = _script(body, tmp_path, LD_LIBRARY_PATH=str(wrong))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_compiler_works_in_a_forked_child(tmp_path: pathlib.Path) -> None:
    done = _script(
        """
        kernels = KernelCompiler()
        kernels.submit(kernel).result()
        (pid,) = kernels.worker_pids()
        if (child := os.fork()) == 0:
            other = source("x[item.get_id(0)] = np.float32(10.5)", kernel.params)
            assert kernels.submit(kernel).done()
            assert kernels.submit(other).result(30).spirv
            assert kernels.worker_pids() != [pid]
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert kernels.worker_pids() == [pid]
        assert kernels.submit(source("x[item.get_id(0)] = np.float32(11.5)", kernel.params)).result(30).spirv
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_numba_never_enters_the_user_process(tmp_path: pathlib.Path) -> None:
    done = _script(
        """
        import runtime.doctor
        assert all(check.ok for check in runtime.doctor.diagnose()), runtime.doctor.diagnose()
        print([name for name in sys.modules if name.split(".")[0] in ("numba", "numba_dpex", "dpnp", "llvmlite")])
        """,
        tmp_path,
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_idle_processes_end_and_start_again(monkeypatch):
    monkeypatch.setattr("runtime.compiler.IDLE", 0.2)
    compiler = KernelCompiler(workers=1)
    try:
        first = source("x[item.get_id(0)] = np.float32(1)", (Param("x", "pointer", "float32"),))
        compiler.submit(first).result()
        deadline = time.monotonic() + 20
        while compiler._processes and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not compiler._processes
        second = source("x[item.get_id(0)] = np.float32(2)", (Param("x", "pointer", "float32"),))
        assert compiler.submit(second).result().spirv
    finally:
        compiler.shutdown()
