"""A child process that tests a mutant, and how long it may take.

Real time is no measure on a shared machine: what loops is ended by the CPU time it takes, what
waits for ever by taking none.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

# A test has failed that takes this much more CPU than it did untouched, and a start: the test that
# compiled a kernel when the tests were recorded need not be the first to call it now.
PATIENCE = 3.0
START_S = 60.0
# A child has stopped that takes less than half a CPU second in so many real ones.
STILL_S = 90.0
LEAST_CPU_S = 0.5
TICKS = os.sysconf("SC_CLK_TCK")


class Patience:
    """A pytest plugin that ends a test which takes far more CPU than it did untouched."""

    def __init__(self, cpu_s: Mapping[str, float]) -> None:
        self.cpu_s = cpu_s

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        _allow_cpu(START_S)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        _allow_cpu(START_S + PATIENCE * self.cpu_s.get(nodeid, 0.0))


def _allow_cpu(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    ends_s = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (ends_s, resource.RLIM_INFINITY))


def timed_out(status: int) -> bool:
    """Whether it was ended for taking too long."""
    return status in (-signal.SIGXCPU, -signal.SIGKILL)


def run_in_child(work: Callable[[], int]) -> int:
    """The exit status of `work` in a session of its own; minus the signal that ended it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os._exit(work())
        except BaseException as error:
            print(error, flush=True)
            os._exit(1)
    seen_s, seen_at_s = 0.0, time.monotonic()
    try:
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > seen_at_s + STILL_S:
                now_s = cpu_of_session(child)
                if abs(now_s - seen_s) < LEAST_CPU_S:
                    os.killpg(child, signal.SIGKILL)
                seen_s, seen_at_s = now_s, time.monotonic()
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):  # what a test has started and left
            os.killpg(child, signal.SIGKILL)


def cpu_of_session(session: int) -> float:
    """The CPU seconds of all processes of a session and of the children they have waited for."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session:
                total += sum(int(field) for field in fields[11:15])
    return total / TICKS
