"""Compiled functions whose cache is keyed by their source. Importing this loads numba.

Numba keeps compiled code until the date of the function's own file changes: a change in another
file whose functions are compiled into it goes unnoticed, and a fresh checkout of the same source
compiles everything again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """A decorator like `numba.njit` whose cache is keyed by the text of all source files involved.

    Those are its own file, the files of this package that its module imports from, and those that
    compiled functions among these are made of in turn. Where nothing can be kept, as in a container
    whose files are read-only, every process compiles for itself.
    """

    def wrap(function: Function) -> Function:
        dispatcher = njit(**options)(function)
        with suppress(RuntimeError):  # no folder of numba's can be written
            dispatcher._cache = _SourceCache(function)
        return dispatcher

    return wrap


class _SourceCache(FunctionCache):
    """Numba's cache on disk, keyed by a digest of the source in place of a date.

    The digest stands where Numba looks for its own version, before it reads anything else: what an
    older source left may name classes that are no more.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        digest = source_digest(function)
        self._cache_file._source_stamp = digest
        self._cache_file._version = f"{self._cache_file._version} {digest}"


def source_digest(function: Callable[..., Any]) -> str:
    """A digest of the text of all files that a function is compiled from."""
    found = blake2b(digest_size=16)
    for name in sorted(_modules_of(function)):
        file = getattr(sys.modules.get(name), "__file__", None)
        found.update(name.encode() + b"\0")
        found.update(Path(file).read_bytes() if file else b"")
    return found.hexdigest()


def _modules_of(function: Callable[..., Any]) -> set[str]:
    """The modules that a function is compiled from."""
    packages = (__name__.partition(".")[0], _package(function))
    found: set[str] = set()
    imported: set[str] = set()
    called = [function]
    while called:
        function = called.pop()
        if function.__module__ in found:
            continue
        found.add(function.__module__)
        values = [
            value
            for value in function.__globals__.values()
            if str(getattr(value, "__module__", None)).partition(".")[0] in packages
        ]
        called += [value.py_func for value in values if isinstance(value, Dispatcher)]
        imported |= {value.__module__ for value in values}
    return found | imported


def _package(function: Callable[..., Any]) -> str:
    return function.__module__.partition(".")[0]
