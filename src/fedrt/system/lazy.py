"""Names that a folder exports, each loaded from its module when it is first used.

A folder's `__init__` that imported all of its modules would load heavy libraries for whoever needs
none of them, and would make folders import each other in circles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

API = "fedrt.api"
"""The folder with the functions that stand for modules of the same name."""

Exports = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def export(package: str, modules: Mapping[str, str]) -> Exports:
    """The `__getattr__`, `__dir__` and `__all__` of a package that exports names of its modules.

    `modules` gives for each module, as seen from the package, the names to export, separated by
    spaces. Its modules and folders are found as well, without being imported first.
    """
    homes = {
        name: f"{package}.{module}" for module, names in modules.items() for name in names.split()
    }

    def load(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        inside = vars(sys.modules[package]).items()
        own = {key for key, value in inside if key[:2] == "__" or isinstance(value, ModuleType)}
        return sorted(own | {*homes})

    return load, names, sorted(homes)


class CallableModule(ModuleType):
    """A module that can be called: `fedrt.scenario` is a folder and a function.

    Importing a module puts it in the place of whatever its package has under the name.
    """

    def __call__(self, *given: Any, **named: Any) -> Any:
        return getattr(import_module(API), self.__name__.rpartition(".")[2])(*given, **named)


def make_callable(module: str) -> None:
    """Let a module be called as the function of the same name in `fedrt.api`."""
    sys.modules[module].__class__ = CallableModule
