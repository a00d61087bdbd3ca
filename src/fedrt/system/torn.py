"""Temporary files and folders during atomic writing, and removal of those of killed processes.

A writer holds a lock on its temporary file, which ends with the process. A temporary that is not
locked was left by a killed process, and is deleted by the next writer of the same name.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

TORN = ".torn"
"""How the name of a file or folder ends while it is being written."""
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

T = TypeVar("T")


@contextmanager
def torn_file(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """A temporary file beside `path`, to be filled and renamed; deleted if it is not.

    It has the mode, as far as the umask lets it.
    """
    _clear(path.parent, f".{path.name}-")
    while True:
        name, handle = _made(path, lambda name: os.open(name, NEW, mode))
        _lock(handle)
        if _is_still(handle, name):
            break
        os.close(handle)  # somebody tidied up before it was locked
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def torn_folder(path: Path, mode: int = 0o777) -> Iterator[Path]:
    """A temporary folder beside `path`, to be filled and renamed; deleted if it is not."""
    _clear(path.parent, f".{path.name}-")
    while True:
        name, _ = _made(path, lambda name: os.mkdir(name, mode))
        try:
            handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        _lock(handle)
        if _is_still(handle, name):
            break
        os.close(handle)
    try:
        yield Path(name)
    finally:
        shutil.rmtree(name, ignore_errors=True)
        os.close(handle)


def _made(path: Path, make: Callable[[str], T]) -> tuple[str, T]:
    """A new temporary beside `path`, and what `make` returns of its name."""
    while True:
        name = str(path.with_name(f".{path.name}-{secrets.token_hex(4)}{TORN}"))
        with suppress(FileExistsError):
            return name, make(name)


def clear_torn(folder: Path) -> None:
    """Delete temporaries that killed processes left in a folder, and none that is in use."""
    _clear(folder, ".")


def _clear(folder: Path, prefix: str) -> None:
    try:
        names = [name for name in os.listdir(folder) if name.endswith(TORN)]
    except OSError:
        return
    for name in names:
        if name.startswith(prefix):
            with suppress(OSError):
                _remove_unheld(os.path.join(folder, name))


def _remove_unheld(path: str) -> None:
    """Delete a file or folder that no process has locked; links are not followed."""
    if os.path.islink(path):
        os.unlink(path)
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = os.fstat(handle).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISDIR(kind):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock a file; on a file system without locks this does nothing."""
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX)


def _is_still(handle: int, name: str) -> bool:
    """Whether a path still names the opened file."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(name))
    except OSError:
        return False
