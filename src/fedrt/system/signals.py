"""Handling of Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block has ended; for the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: waiting.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
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
def terminable() -> Iterator[None]:
    """Make SIGTERM end the block as Ctrl-C does, unless the process handles it already."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: object) -> None:
    raise TerminatedError
