"""The line of a user's own code from which an exception came."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from pathlib import Path

from fedrt.errors import reason

PACKAGE = Path(__file__).parent
LIBRARIES = ("numpy", "numba", "torch", "scipy", "sklearn", "ray")

TYPED, KERNEL = ("<ipython-input-", "<stdin>"), "ipykernel_"
"""How the names of code begin that a user has typed, and the folders of a notebook's cells."""


def told(error: BaseException) -> str:
    """The type and message of an exception, and the line of the user's code it came from."""
    kind, why = type(error).__name__, reason(error)
    place = user_place(error)
    return (kind if why == kind else f"{kind}: {why}") + (f" ({place})" if place else "")


def user_place(error: BaseException) -> str | None:
    """The file and line of the innermost call in a user's code; None if there was none."""
    folders = [PACKAGE, *_library_folders()]
    standard = Path(sysconfig.get_path("stdlib"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if frame.filename.startswith(TYPED) or path.parent.name.startswith(KERNEL):
            return f"a cell, line {frame.lineno}"
        ours = frame.filename.startswith("<") or any(each in path.parents for each in folders)
        if not ours and not (standard in path.parents and "site-packages" not in path.parts):
            return f"{path.name}, line {frame.lineno}"
    return None


def _library_folders() -> list[Path]:
    """The folders of libraries that call, or are called by, a user's code."""
    modules = [sys.modules.get(name) for name in LIBRARIES]
    return [Path(each.__file__).parent for each in modules if each is not None and each.__file__]
