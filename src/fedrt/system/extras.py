"""Optional libraries: what is missing is told in one line with the command that installs it."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder

from fedrt.errors import InputError

EXTRAS = {
    "torch": ("torch", "learning"),
    "sklearn": ("scikit-learn", "learning"),
    "matplotlib": ("matplotlib", "plots"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "datasets": ("datasets", "datasets"),
    "ray": ("ray", "ray"),
}
"""Module -> the name a person knows it by, and the extra of this package that brings it."""


class MissingLibraryError(InputError):
    """A library is not installed that only some commands need."""

    def __init__(self, what: str, module: str) -> None:
        name, extra = EXTRAS[module]
        super().__init__(
            f"{what}: needs {name}, which is not installed: pip install 'fedrt[{extra}]'"
        )


def need(what: str, module: str) -> None:
    """Complain if a library that `what` needs is not there; it is not loaded."""
    modules: dict[str, object] = dict(sys.modules)
    # None is there for a module that something keeps from being imported.
    if (modules[module] if module in modules else PathFinder.find_spec(module)) is None:
        raise MissingLibraryError(what, module)
