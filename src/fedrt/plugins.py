"""A user's own classes by import path, `package.module:Name`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from fedrt.checks import problem
from fedrt.errors import InputError, reason


def load_plugin(path: str, field: str) -> Any:
    """What the import path names; the folder the user stands in counts, as it does for python."""
    module_name, _, name = path.partition(":")
    if not module_name or not name.isidentifier():
        raise InputError(problem(field, path, "an import path like package.module:Name"))
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except Exception as error:
        why = f"{type(error).__name__}: {reason(error)}"
        raise InputError(f"{field} = {path!r}: {module_name} cannot be imported: {why}") from error
    if not hasattr(module, name):
        raise InputError(f"{field} = {path!r}: {module_name} has no {name}")
    plugin = getattr(module, name)
    if not callable(plugin):
        raise InputError(f"{field} = {path!r}: must be a class or a function that makes one")
    return plugin
