"""The command `xpu-aten`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from aten_backend.commands import bisect, cache, compare, doctor, dump, explain, profile, warm
from aten_backend.comparison.backends import BackendError
from aten_backend.comparison.records import RecordError
from aten_backend.comparison.warm import StartError
from aten_backend.comparison.workloads import WorkloadError
from aten_backend.options import OptionError
from aten_backend.targets import TargetError

# What a user can mend by another command line: told without a traceback.
USAGE_ERRORS = (TargetError, OptionError, BackendError, RecordError, StartError, WorkloadError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 for success, 1 for a bad finding, 2 for a command not understood."""
    given = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser().parse_args(given)
    arguments.given = given
    try:
        code: int = arguments.run(arguments)
    except USAGE_ERRORS as error:
        print(f"xpu-aten: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="xpu-aten", description="Tools of the xpu_aten backend of torch.compile.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (doctor, explain, dump, profile, bisect, compare, warm, cache):
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
