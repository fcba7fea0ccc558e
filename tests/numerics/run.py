"""PyTorch's OpInfo database through the compiler, by one command.

    python tests/numerics/run.py --dtype float32 --samples 4 --shuffle --jobs 2 --json result.json

``--backward`` judges gradients too, ``--modules`` takes PyTorch's database of modules instead (train and eval, forward
and backward).

Ops run in child processes, so that a crash costs one op and is reported as one. Ends with 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import queue
import random
import re
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

Row = dict[str, Any]


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float32", help="torch dtype of the samples")
    parser.add_argument("--backend", choices=("xpu_aten", "xpu_inductor"), default="xpu_aten")
    parser.add_argument("--samples", type=int, default=4, help="samples an op, the first ones")
    parser.add_argument("--ops", default="", help="regular expression that an op's name must match")
    parser.add_argument("--shuffle", action="store_true", help="run the ops in another order (fixed by --seed)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1", help="i/n: run the i-th of n parts")
    parser.add_argument("--dynamic", action="store_true", help="compile with dynamic=True")
    parser.add_argument("--layouts", action="store_true", help="one sample, in several layouts of its arguments")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--backward", action="store_true", help="gradients are judged as well")
    what.add_argument("--modules", action="store_true", help="modules instead of ops, forward and backward")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=180, help="seconds an op may take")
    parser.add_argument("--json", type=pathlib.Path, help="where the outcomes go")
    parser.add_argument(
        "--cache-dir",
        default=os.path.join(tempfile.gettempdir(), "xpu_aten_opinfo_cache"),
        help="kernels kept between runs",
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


# ---- the child: one op a line in, its outcomes as one line of JSON out -----------------------------------------------


def child(options: argparse.Namespace) -> None:
    """Judge the ops named on standard input."""
    import torch

    from numerics import opinfo

    find = sample_source(options)
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10_000
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what ops print must not get between the answers
    dtype = getattr(torch, options.dtype)
    for line in sys.stdin:
        name = line.strip()
        rows = []
        for sample in find(name, dtype):
            outcome = dataclasses.asdict(opinfo.judge(name, sample, options.dynamic, options.backend))
            rows.append({**outcome, "verdict": outcome["verdict"].value})
        print(json.dumps(rows), file=answers, flush=True)


def sample_source(options: argparse.Namespace) -> Callable[[str, Any], Iterable[Any]]:
    """What gives the samples of a name in a type."""
    from numerics import modules, opinfo

    if options.modules:
        return lambda name, dtype: modules.samples(name, dtype, options.samples)
    if options.layouts:
        return opinfo.layout_samples
    return lambda name, dtype: opinfo.samples(name, dtype, options.samples, options.backward)


# ---- the parent ------------------------------------------------------------------------------------------------------


class Child:
    """A process that judges ops until it dies."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self.command, self.environment = [sys.executable, __file__, *argv, "--child"], environment
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, name: str, timeout: float) -> list[Row]:
        """The outcomes of one op. A process that dies or hangs is replaced at the next call."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self.environment,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{name}\n".encode())
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], timeout)
        answer = self.process.stdout.readline() if ready else b""
        if answer:
            rows: list[Row] = json.loads(answer)
            return rows
        if not ready:
            self.process.kill()
        code = self.process.wait()  # it has ended by itself where it answered nothing
        self.process = None
        detail = f"the process died with {code}" if ready else f"took more than {timeout:.0f} s"
        return [
            {
                "op": name,
                "sample": "?",
                "verdict": "error",
                "detail": detail,
                "graphs": 0,
                "kernels": 0,
                "externs": [],
                "fallbacks": [],
            }
        ]

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()


def chosen_ops(options: argparse.Namespace) -> list[str]:
    """Names of the ops to run, in order."""
    import torch

    from numerics.modules import MODULES
    from numerics.opinfo import OPS

    dtype = getattr(torch, options.dtype)
    if options.modules:
        names = [n for n, (info, _) in MODULES.items() if dtype in info.dtypes]
    else:
        names = [n for n, op in OPS.items() if dtype in op.supported_dtypes("cpu")]
    if options.backward:
        names = [n for n in names if OPS[n].supports_autograd and dtype in OPS[n].supported_backward_dtypes("cpu")]
    names = [n for n in names if re.search(options.ops, n)]
    if options.shuffle:
        random.Random(options.seed).shuffle(names)
    part, parts = map(int, options.part.split("/"))
    return names[part - 1 :: parts]


def run(options: argparse.Namespace, argv: list[str]) -> list[Row]:
    """All outcomes."""
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    names = chosen_ops(options)
    for name in names:
        todo.put(name)
    environment = {**os.environ, "XPU_ATEN_CACHE_DIR": options.cache_dir, "PYTHONWARNINGS": "ignore"}
    rows: list[Row] = []

    def work() -> None:
        process = Child(argv, environment)
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                break
            found = process.ask(name, options.timeout)
            rows.extend(found)
            for row in found:
                if row["verdict"] in ("wrong", "error"):
                    print(f"{row['verdict'].upper():5} {row['op']} [{row['sample']}] {row['detail']}", flush=True)
        process.close()

    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rows


def summary(rows: list[Row]) -> str:
    """Counts of verdicts, coverage, and what was left to ATen without intent."""
    verdicts = collections.Counter(r["verdict"] for r in rows)
    good = [r for r in rows if r["verdict"] == "ok" and r["graphs"]]
    bare = [r for r in good if not r["externs"]]
    judged = [r for r in good if not r["externs"] or r["fallbacks"]]
    lines = [
        f"{len(rows)} samples: "
        + ", ".join(f"{verdicts[v]} {v}" for v in ("ok", "wrong", "error", "known", "skipped")),
        f"of {len(good)} that are ok and reached the backend, {len(bare)} left nothing to ATen, "
        f"{len(good) - len(judged)} only on purpose, "
        f"{len(judged) - len(bare)} for want of lowering",
    ]
    reasons = collections.Counter(f for r in rows for f in set(r["fallbacks"]))
    lines += [f"{count:5}  {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """The command."""
    argv = sys.argv[1:] if argv is None else argv
    options = parse(argv)
    if options.child:
        child(options)
        return 0
    rows = run(options, argv)
    print(summary(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any(r["verdict"] in ("wrong", "error") for r in rows))


if __name__ == "__main__":
    sys.exit(main())
