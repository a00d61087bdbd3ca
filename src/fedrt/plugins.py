"""A user's own classes by import path, `package.module:Name`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from fedrt.checks import problem
from fedrt.errors import FedrtError, InputError, reason

PACKAGE = Path(__file__).parent


@contextmanager
def own_code(what: str) -> Iterator[None]:
    """Whatever a user's code raises in the block becomes one line that begins with `what`."""
    try:
        yield
    except FedrtError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{what}: {_told(error)}") from error


def _told(error: BaseException) -> str:
    """The exception's type and reason, and the line of the user's code it came from."""
    import traceback

    kind, why = type(error).__name__, reason(error)
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if PACKAGE not in Path(frame.filename).parents]
    place = f" ({Path(mine[-1].filename).name}, line {mine[-1].lineno})" if mine else ""
    return (kind if why == kind else f"{kind}: {why}") + place


def load_plugin(path: str, field: str) -> Any:
    """What the import path names; the folder the user stands in counts, as it does for python."""
    module_name, _, name = path.partition(":")
    if not module_name or not name.isidentifier():
        raise InputError(problem(field, path, "an import path like package.module:Name"))
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
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
