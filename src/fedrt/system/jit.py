"""Compiled functions whose cache is keyed by their source. Importing this loads numba.

Numba keeps compiled code until the date of the function's own file changes: a change in another
file whose functions are compiled into it goes unnoticed, and a fresh checkout of the same source
compiles everything again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """A decorator like `numba.njit` whose cache is keyed by the text of all source files involved.

    Those are its own file and the files of this package that its module imports functions from.
    """

    def wrap(function: Function) -> Function:
        dispatcher = njit(**options)(function)
        dispatcher._cache = _SourceCache(function)
        return dispatcher

    return wrap


class _SourceCache(FunctionCache):
    """Numba's cache on disk, keyed by a digest of the source in place of a date."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._cache_file._source_stamp = source_digest(function)


def source_digest(function: Callable[..., Any]) -> str:
    """A digest of the text of all files that a function is compiled from."""
    modules = {function.__module__}
    package = __name__.partition(".")[0]
    for value in function.__globals__.values():
        home = getattr(value, "__module__", None)
        if isinstance(home, str) and home.partition(".")[0] in (package, _package(function)):
            modules.add(home)
    found = blake2b(digest_size=16)
    for name in sorted(modules):
        file = getattr(sys.modules.get(name), "__file__", None)
        found.update(name.encode() + b"\0")
        found.update(Path(file).read_bytes() if file else b"")
    return found.hexdigest()


def _package(function: Callable[..., Any]) -> str:
    return function.__module__.partition(".")[0]
