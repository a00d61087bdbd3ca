"""Handling of Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted(*more: signal.Signals) -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and `more` until the block has ended; for the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: waiting.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, *more)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if waiting:
        signal.raise_signal(waiting[0])


class TerminatedError(KeyboardInterrupt):
    """Raised on SIGTERM, so that a command cleans up as after Ctrl-C."""


@contextmanager
def terminable(number: signal.Signals = signal.SIGTERM) -> Iterator[None]:
    """Make a signal end the block as Ctrl-C does, unless the process handles it already."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(number) is not signal.SIG_DFL:
        yield
        return
    signal.signal(number, _terminate)
    try:
        yield
    finally:
        if signal.getsignal(number) is _terminate:
            signal.signal(number, signal.SIG_DFL)


def _terminate(number: int, frame: object) -> None:
    raise TerminatedError
