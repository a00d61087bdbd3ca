"""The environment of processes that this one starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
