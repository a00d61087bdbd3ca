"""The command line: parse, call, print. Everything heavy is imported by the command that needs it.

Exit codes: 0 done, 1 nowhere to write to, 2 bad input, 3 infeasible under strict limits, 4 training
diverged, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence

from fedrt import __version__
from fedrt.api.session import called_from
from fedrt.cli import (
    bench,
    bound,
    calibrate,
    compare,
    coordinator,
    data,
    device,
    edge,
    enrol,
    estimate,
    export,
    front,
    plan,
    report,
    reproduce,
    run,
    scenario,
    size,
    sweep,
    testbed,
    trace,
    watch,
)
from fedrt.cli.parser import Parser, note, typed_command, typed_paths, with_options
from fedrt.errors import FedrtError, reason
from fedrt.system.children import SAFE_PATH, environment
from fedrt.system.plugins import only_allowed
from fedrt.system.signals import TerminatedError, terminable

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""The errors of printing where the disk is full or the reader of stdout has closed it."""

COMMANDS = (
    run,
    compare,
    report,
    watch,
    export,
    estimate,
    sweep,
    size,
    front,
    bound,
    bench,
    reproduce,
    plan,
    scenario,
    data,
    trace,
    enrol,
    coordinator,
    edge,
    device,
    testbed,
    calibrate,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Python has None for a stream that was closed before it started, and prints there elsewhere.
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with terminable():
        return guarded(lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    if sys.stdout is None:
        raise FedrtError("stdout: is closed: there is nowhere to print to")
    args = build_parser().parse_args(argv)
    allowed = None if getattr(args, "allow_code", False) else typed_paths(args)
    with only_allowed(allowed), environment(SAFE_PATH), called_from(typed_command(), note):
        args.run(args)
    sys.stdout.flush()
    return 0


def guarded(work: Callable[[], int]) -> int:
    """Run the work and return the exit code; errors are printed on stderr."""
    try:
        return work()
    except FedrtError as error:
        print(with_options(error.report()), file=sys.stderr)
        return error.exit_code
    except TerminatedError:
        print("terminated", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _let_go_of_stdout()  # the reader went away
        return 141
    except OSError as error:
        if error.filename is not None or error.errno not in FULL:
            raise
        _let_go_of_stdout()
        print(f"stdout: cannot be written: {reason(error)}", file=sys.stderr)
        return 1


def _let_go_of_stdout() -> None:
    """Keep the interpreter from reporting unprinted output of a closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> Parser:
    """The parser with all commands and their options."""
    parser = Parser(prog="fedrt", description="Plans federated learning at the network edge.")
    parser.add_argument("--version", action="version", version=f"fedrt {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add(commands)
    return parser
