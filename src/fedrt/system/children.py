"""How processes start that this one makes: their environment, signals and main module."""

from __future__ import annotations

import os
import signal
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

from fedrt.system.signals import uninterrupted

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Python processes with this do not take modules from the current folder (docs/security.md)."""


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for processes that start in the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def without_main() -> Iterator[None]:
    """Keep processes that start in the block from running the user's script again.

    Python would import it in each of them, for what it defines; no such process needs that.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def deaf_children() -> Iterator[None]:
    """Make processes that start in the block ignore Ctrl-C, which is delayed here meanwhile.

    They inherit the blocked signal. That is not enough for this process, whose other threads may
    take it, so its handler waits as well.
    """
    from multiprocessing import resource_tracker

    # On its start the tracker would unblock the signal again.
    resource_tracker.ensure_running()
    with uninterrupted():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
