"""Compiling kernels in worker processes.

numba-dpex never enters the user's process: it brings a second MKL, needs the library path set when a process starts,
and may crash. Each worker process has a thread here that feeds it from one queue.
"""

from __future__ import annotations

import atexit
import collections
import concurrent.futures
import dataclasses
import functools
import json
import logging
import os
import pathlib
import queue
import subprocess
import sys
import threading
import weakref
from typing import IO, Any

from lowering.artifacts import KernelSource
from runtime import opencl, protocol, worker
from runtime.cache import CompiledKernel, KernelKey, SpirvCache, compiler_fingerprint, environment, kernel_key
from runtime.errors import KernelCompileError, RuntimeSetupError, ToolchainMissingError, WorkerDiedError

__all__ = ["CompiledKernel", "KernelCompiler", "shared"]

logger = logging.getLogger(__name__)

CompileFuture = concurrent.futures.Future[CompiledKernel]

WORKER = pathlib.Path(worker.__file__)
IDLE = 60.0
"""Seconds without a job after which a compiler process is ended: it holds some 180 MB."""

ATTEMPTS = 2
_REMEDY = (
    "Install numba-dpex 0.23 into it (`pip install numba-dpex dpcpp-cpp-rt intel-opencl-rt`, Python 3.9 to 3.11), or "
    "name an interpreter that has it with the option `compiler_python` or XPU_ATEN_COMPILER_PYTHON."
)


@dataclasses.dataclass(frozen=True, eq=False)
class _Job:
    source: KernelSource
    key: KernelKey
    future: CompileFuture


class WorkerProcess:
    """One compiler process. Used by one thread, closed by any."""

    def __init__(self, python: str) -> None:
        self.python = python
        # -E: what PYTHONPATH and its like say is about the user's interpreter
        command = [python, "-E", str(WORKER)]
        environment = {name: value for name, value in os.environ.items() if name != worker.PREPARED}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if not logger.isEnabledFor(logging.DEBUG) else None,
                bufsize=0,
                env=environment,
                start_new_session=True,  # an interrupt from the keyboard is the user's, not the compiler's
            )
        except OSError as error:
            raise ToolchainMissingError(
                f"the compiler interpreter {python} does not start: {error}. {_REMEDY}"
            ) from error
        self._ready = False
        self.seconds: collections.Counter[str] = collections.Counter()
        """Processor time spent in it, by what spent it."""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def _streams(self) -> tuple[IO[bytes], IO[bytes]]:
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise protocol.StreamClosed("closed")
        return process.stdin, process.stdout

    def wait_ready(self) -> None:
        """Wait for the greeting; ToolchainMissingError if numba-dpex does not work there, StreamClosed if killed."""
        if self._ready:
            return
        try:
            header, _ = protocol.read_message(self._streams()[1])  # type: ignore[arg-type]
        except protocol.StreamClosed as error:
            code = self._process.wait()
            if code < 0:
                raise  # killed by a signal: that says nothing about the toolchain
            raise ToolchainMissingError(
                f"the compiler process of {self.python} ended with status {code} before it was ready. {_REMEDY}"
            ) from error
        if header["status"] != "ready":
            raise ToolchainMissingError(
                f"numba-dpex does not work in {header['python']}: {header['message']}. {_REMEDY}"
            )
        logger.debug("compiler process %d is ready: %s", self.pid, header["versions"])
        self._ready = True

    def compile(self, source: KernelSource, native: bool) -> CompiledKernel:
        """Compile one kernel, if ``native`` to machine code for the CPU device too; StreamClosed or OSError if the
        process dies meanwhile."""
        self.wait_ready()
        requests, replies = self._streams()
        request = {
            "name": source.name,
            "text": source.text,
            "params": [[param.kind, param.dtype, param.extent] for param in source.params],
            "ndim": source.ndim,
            "nd_range": source.local_size is not None,
            "native": native,
        }
        protocol.write_message(requests, request)  # type: ignore[arg-type]
        header, body = protocol.read_message(replies)  # type: ignore[arg-type]
        if header["status"] == "error":
            raise KernelCompileError(source.name, source.text, f"{header['type']}: {header['message']}")
        self.seconds.update(header["seconds"])  # adds: it is a Counter
        binaries, _ = protocol.unpack(header["sizes"], body)
        return CompiledKernel(source.name, header["entry"], llvm=header["llvm"], fits=header["fits"], **binaries)

    def kill(self) -> None:
        """End the process and reap it."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close our ends of the pipes; only for the thread that reads them."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def forget(self) -> None:
        """After a fork, in the child: the process is the parent's, and our copies of its pipes would keep it alive."""
        self.close()
        self._process.returncode = 0  # so that nobody waits for what is not our child


class KernelCompiler:
    """Compiles kernels in ``workers`` processes of the interpreter ``python`` (None: this one).

    ``native``: to machine code for the OpenCL CPU device too, so that this process's driver has nothing to compile.
    """

    def __init__(
        self, python: str | None = None, workers: int = 1, cache: SpirvCache | None = None, native: bool = True
    ) -> None:
        self.native = native
        self.python = python or os.environ.get("XPU_ATEN_COMPILER_PYTHON") or sys.executable
        self.workers = max(1, workers)
        self.cache = cache
        self.hits = self.misses = 0
        """Kernels that were at hand, in this process or on disk, and kernels that had to be compiled."""
        self._reset()
        _registry.all.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._futures: dict[str, CompileFuture] = {}
        self._processes: dict[int, WorkerProcess] = {}
        self._threads: list[threading.Thread] = []
        self._failure: ToolchainMissingError | None = None
        self._closed = False

    def start(self) -> None:
        """Start the worker processes without waiting for them."""
        with self._lock:
            if self._threads or self._closed:
                return
            for number in range(self.workers):
                thread = threading.Thread(
                    target=self._serve, args=(number,), name=f"xpu_aten-compiler-{number}", daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def submit(self, kernel: KernelSource) -> CompileFuture:
        """Compile a kernel, or find it in the cache; the same name gives the same future."""
        with self._lock:
            known = self._futures.get(kernel.name)
            if known is not None and not _failed(known):
                self.hits += 1
                return known
            future: CompileFuture = concurrent.futures.Future()
            self._futures[kernel.name] = future
        key = self.key(kernel)
        found = self.cache.load(key) if self.cache is not None else None
        if found is not None:
            self.hits += 1
            future.set_result(found)
            return future
        self.misses += 1
        if self.cache is not None and logger.isEnabledFor(logging.INFO):
            logger.info("kernel %s is compiled: %s", kernel.name, self.cache.why_missing(key))
        if self._closed:
            future.set_exception(RuntimeSetupError("the kernel compiler is shut down"))
            return future
        self.start()
        self._jobs.put(_Job(kernel, key, future))
        return future

    def key(self, kernel: KernelSource) -> KernelKey:
        """The key under which the cache keeps ``kernel``."""
        return kernel_key(kernel, *self._installation())

    def environment(self) -> dict[str, str]:
        """The parts of the key that all kernels share."""
        return environment(*self._installation())

    def _installation(self) -> tuple[dict[str, str], str, str]:
        return toolchain_versions(self.python), _fingerprint(), opencl.host_identity() if self.native else ""

    def _serve(self, number: int) -> None:
        """Body of a thread: one process, restarted when it dies."""
        try:
            self._process(number).wait_ready()
        except ToolchainMissingError as error:
            self._failure = error  # the greeting is read only once: the jobs are told from here
            self._drop(number)
        except (RuntimeSetupError, protocol.StreamClosed, OSError) as error:
            logger.debug("compiler process %d: %s", number, error)  # the jobs meet it again, and report it
        while (job := self._next_job(number)) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                result = self._run(number, job.source)
                if self.cache is not None:
                    self.cache.store(job.key, result)
            except BaseException as error:  # whoever waits gets it, whatever it is
                job.future.set_exception(error)
            else:
                job.future.set_result(result)
        self._drop(number)

    def _next_job(self, number: int) -> _Job | None:
        """What to do next. A process that waits for it for long is ended, for the memory that it holds: another is
        started when there is something to do."""
        try:
            return self._jobs.get(timeout=IDLE)
        except queue.Empty:
            self._drop(number)
            return self._jobs.get()

    def _process(self, number: int) -> WorkerProcess:
        """This thread's process, started if there is none."""
        with self._lock:
            if self._closed:
                raise WorkerDiedError("the kernel compiler is shut down")
            if self._failure is not None:
                raise self._failure
            process = self._processes.get(number)
            if process is None:
                process = self._processes[number] = WorkerProcess(self.python)
            return process

    def _run(self, number: int, source: KernelSource) -> CompiledKernel:
        for _ in range(ATTEMPTS):
            process = self._process(number)
            try:
                return process.compile(source, self.native)
            except ToolchainMissingError as error:
                self._drop(number)
                self._failure = error  # the next kernel need not try
                raise
            except (protocol.StreamClosed, OSError) as error:
                self._drop(number)
                if self._closed:
                    break
                logger.warning("compiler process %d died over kernel %s (%s)", process.pid, source.name, error)
        raise WorkerDiedError(
            f"the compiler process died {ATTEMPTS} times over kernel {source.name}. If memory is short, lower the "
            "option `compile_workers`; otherwise leave its ops out with `disable_ops` and report it.",
            source.name,
        )

    def _drop(self, number: int) -> None:
        with self._lock:
            process = self._processes.pop(number, None)
        if process is not None:
            process.kill()
            process.close()

    def seconds(self) -> dict[str, float]:
        """Processor time that the running compiler processes have spent on kernels: in numba with numba-dpex, in
        llvm-spirv, and in the device's driver."""
        with self._lock:
            total = sum((process.seconds for process in self._processes.values()), collections.Counter[str]())
        return dict(total)

    def worker_pids(self) -> list[int]:
        """The ids of the running compiler processes."""
        with self._lock:
            return [process.pid for process in self._processes.values()]

    def start_over(self, cache: SpirvCache | None) -> None:
        """Forget what was compiled, and keep kernels in ``cache`` from now on. The processes stay as they are."""
        with self._lock:
            self._futures.clear()
            self.cache = cache

    def shutdown(self) -> None:
        """End the processes and threads. Kernels not yet compiled fail with WorkerDiedError."""
        with self._lock:
            self._closed = True
            processes = list(self._processes.values())
        for process in processes:
            process.kill()  # its thread sees the stream end
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=5)

    def after_fork_in_child(self) -> None:
        """Start afresh: threads do not survive a fork, and the processes are the parent's."""
        for process in self._processes.values():
            process.forget()
        finished = {name: future for name, future in self._futures.items() if future.done() and not _failed(future)}
        self._reset()
        self._futures = finished


def _failed(future: CompileFuture) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


@functools.cache
def _fingerprint() -> str:
    return compiler_fingerprint()


@functools.cache
def toolchain_versions(python: str) -> dict[str, str]:
    """The versions in an interpreter that decide which binary a text becomes; empty if it does not run."""
    if os.path.abspath(python) == os.path.abspath(sys.executable):
        return worker.toolchain_versions()
    command = [python, "-E", str(WORKER), "--versions"]
    try:
        output = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
        versions: dict[str, str] = json.loads(output)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        logger.info("the compiler interpreter %s does not tell its versions: %s", python, error)
        return {}
    return versions


class _Registry:
    """All compilers of this process, and those that are shared."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.all: weakref.WeakSet[KernelCompiler] = weakref.WeakSet()
        self.shared: dict[tuple[Any, ...], KernelCompiler] = {}

    def shutdown(self) -> None:
        for compiler in list(self.all):
            compiler.shutdown()

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        for compiler in list(self.all):
            compiler.after_fork_in_child()


_registry = _Registry()
atexit.register(_registry.shutdown)
os.register_at_fork(after_in_child=_registry.after_fork)


def shared(
    python: str | None = None,
    workers: int = 1,
    cache_dir: str | os.PathLike[str] | None = None,
    cache: bool = True,
    native: bool = True,
) -> KernelCompiler:
    """The process-wide compiler with these settings. ``cache_dir`` None is the default folder."""
    key = (python, workers, str(cache_dir) if cache_dir is not None else None, cache, native)
    with _registry.lock:
        if key not in _registry.shared:
            _registry.shared[key] = KernelCompiler(python, workers, SpirvCache(cache_dir) if cache else None, native)
        return _registry.shared[key]
