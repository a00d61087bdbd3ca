"""Loading users' own classes by import path, `package.module:Name` (docs/security.md)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

from fedrt.errors import FedrtError, InputError, reason
from fedrt.system.blame import PACKAGE as PACKAGE
from fedrt.system.blame import told
from fedrt.validation import problem, shown

PYTHON = "python"
"""The module in the paths of objects that Python code has given; none is loaded by this name."""


@dataclass(frozen=True)
class Offer:
    """An object that Python code has given in place of an import path."""

    thing: Any
    """The object itself: a class, a function, a policy, arrays."""
    make: Callable[..., Any]
    """A function in the place of what an import path names."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        return self.make(*given, **options)


class GivenPath(str):
    """The path of an object that Python code has given, `python:Name`, with the object.

    It equals the plain text, which is all that files have.
    """

    offer: Offer

    def __new__(cls, name: str, offer: Offer) -> GivenPath:
        path = super().__new__(cls, f"{PYTHON}:{name}")
        path.offer = offer
        return path

    def __reduce__(self) -> tuple[type[GivenPath], tuple[str, Offer]]:
        return GivenPath, (self.partition(":")[2], self.offer)


_offered: Mapping[str, Offer] = {}


@contextmanager
def offered(objects: Mapping[str, Offer]) -> Iterator[None]:
    """Let these paths of Python's objects, `python:Name`, be found in the block."""
    global _offered
    before = _offered
    _offered = {**before, **objects}
    try:
        yield
    finally:
        _offered = before


def offers(paths: Iterable[str]) -> dict[str, Offer]:
    """The objects that Python code has given under these paths, for another process."""
    return {path: _offer(path, path) for path in paths if path.partition(":")[0] == PYTHON}


def offer(objects: Mapping[str, Offer]) -> None:
    """Let these paths be found from now on, in a process that has no others."""
    global _offered
    _offered = dict(objects)


def _offer(path: str, field: str) -> Offer:
    if isinstance(path, GivenPath):
        return path.offer
    if path not in _offered:
        raise InputError(
            f"{field} = {shown(path)}: was an object of a Python program, which no file holds:"
            " go on from Python, and give it again"
        )
    return _offered[path]


@contextmanager
def own_code(what: str) -> Iterator[None]:
    """Turn exceptions of a user's code in the block into one-line errors that begin with `what`."""
    try:
        yield
    except FedrtError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{what}: {told(error)}") from error


def load_plugin(path: str, field: str) -> Any:
    """The object that an import path names; modules in the current folder are found."""
    refuse_path(path, field)
    module_name, _, name = path.partition(":")
    if module_name == PYTHON:
        return _offer(path, field)
    try:
        module = _import(module_name)
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {reason(error)}"
        raise InputError(f"{field} = {path!r}: {module_name} cannot be imported: {why}") from error
    with own_code(f"{field} = {path!r}"):
        if not hasattr(module, name):
            raise InputError(f"{field} = {path!r}: {module_name} has no {name}")
        plugin = getattr(module, name)
    if not callable(plugin):
        raise InputError(f"{field} = {path!r}: must be a class or a function that makes one")
    return plugin


def refuse_path(path: str, field: str) -> None:
    """Raise an error if an import path may not be loaded here; nothing is."""
    module_name, _, name = path.partition(":")
    if not module_name or not name.isidentifier():
        raise InputError(problem(field, path, "an import path like package.module:Name"))
    if module_name == PYTHON:
        _offer(path, field)
    elif _allowed is not None and path not in _allowed:
        raise InputError(
            f"{field} = {shown(path)}: is code to be run, and a file asks for it;"
            " `allow_code` lets it, if you trust where the file is from"
        )


_allowed: frozenset[str] | None = None
"""The import paths that may be loaded; None: all, as where python code calls this package."""


@contextmanager
def only_allowed(paths: Iterable[str] | None) -> Iterator[None]:
    """Allow only these import paths to be loaded in the block; None allows all."""
    global _allowed
    before = _allowed
    _allowed = None if paths is None else frozenset(paths)
    try:
        yield
    finally:
        _allowed = before


def allowed() -> frozenset[str] | None:
    """The import paths that may be loaded now, for another process; None: all."""
    return _allowed


def allow_from_now(paths: frozenset[str] | None) -> None:
    """Allow only these import paths from now on, in a process that has started for this."""
    global _allowed
    _allowed = paths


_own_folder: str | None = None


def own_folder() -> str | None:
    """The folder in which users' modules are looked for first; by default the current one."""
    if _own_folder is not None:
        return _own_folder
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def set_own_folder(folder: str | None) -> None:
    """Set the folder of users' modules, for processes that start in another folder."""
    global _own_folder
    _own_folder = folder


def _import(module_name: str) -> ModuleType:
    """Import a module, from the user's folder if it is there.

    That holds for this module alone. The folder comes last for all others, so that no library takes
    one from there that exists elsewhere, while the user's code still finds its neighbours.
    """
    folder, first = own_folder(), module_name.partition(".")[0]
    spec = None
    if folder is not None and first not in sys.modules:
        invalidate_caches()
        spec = PathFinder.find_spec(first, [folder])
    if folder is not None and spec is not None:
        if folder not in sys.path:
            sys.path.append(folder)
        if spec.loader is not None:
            module = sys.modules[first] = module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except BaseException:
                sys.modules.pop(first, None)
                raise
    return import_module(module_name)
