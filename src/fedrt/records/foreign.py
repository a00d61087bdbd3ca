"""Checks of a folder that may come from another person, before anything in it is changed.

A folder of results holds plain files and folders only. A link in it would have this program read,
overwrite or remove what lies elsewhere, and a pipe would have it wait forever.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fedrt.errors import InputError, reason
from fedrt.system.files import file_mode
from fedrt.validation import shown


def refuse_links(folder: Path, *, itself: bool = False) -> None:
    """Raise an error about the first link in a folder, or anything that is not a plain file.

    The folder itself may be named by a link, which is then the user's own, unless `itself` is said.
    """
    try:
        if itself:
            _refuse_link(str(folder))
        for where, folders, files in os.walk(folder, onerror=_raise):
            for name in sorted((*folders, *files)):
                _refuse_link(os.path.join(where, name))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be read: {reason(error)}") from None


def _refuse_link(path: str) -> None:
    kind = os.lstat(path).st_mode
    if stat.S_ISLNK(kind):
        to = shown(os.readlink(path))[1:-1]
        raise InputError(f"{path}: is a link, to {to}; a folder to go on with must not hold links")
    if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
        raise InputError(f"{path}: is neither a file nor a folder; remove it")


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def open_lock(path: Path) -> int:
    """An open descriptor of the lock file, created if needed; links are never followed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags, file_mode())
