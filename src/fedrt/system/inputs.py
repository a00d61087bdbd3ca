"""Reading files from outside: only regular files, up to a size, and JSON.

A pipe or a device has no end, a small archive may unpack to more than a machine has. Each limit is
named in the message that refuses a larger file.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError, reason
from fedrt.validation import shown

MOST_TEXT = 64 * 2**20
"""Bytes of a file that is text for people: scenarios, states, what folders of results say."""
MOST_DATA = 8 * 2**30
"""Bytes of a file of samples or of a trace."""
MOST_UNPACKED = 2 * 2**30
"""Bytes that the compressed parts of an archive may unpack to."""
MOST_CELLS = 200_000_000
"""Numbers in a table: few bytes can stand for any number of equal ones."""


@contextmanager
def open_regular(path: Path, most: int = MOST_TEXT, *, follow: bool = True) -> Iterator[BinaryIO]:
    """A regular file of at most `most` bytes, opened for reading.

    Raises OSError and ValueError as opening does, and InputError for what is no such file.
    """
    # A pipe that nobody writes to must not keep us waiting.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    handle = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    try:
        state = os.fstat(handle)
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(state.st_mode):
            raise InputError(f"{path}: must be a regular file, not a device, pipe or socket")
        refuse_larger(path, state.st_size, most)
        with open(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)


def read_bytes(path: Path, most: int = MOST_TEXT, *, follow: bool = True) -> bytes:
    """The bytes of a regular file of limited size; raises as `open_regular` does."""
    with open_regular(path, most, follow=follow) as file:
        # It may have grown since; files of the system say they have no bytes.
        found = file.read(most + 1)
        refuse_larger(path, len(found), most)
    return found


def refuse_larger(what: object, size: int, most: int) -> None:
    """Raise an error about a file with more bytes than may be read."""
    if size > most:
        raise InputError(f"{what}: has {size} bytes: must have at most {most}")


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """The text of a regular file of limited size; raises as `read_bytes` does."""
    return read_bytes(path, most).decode("utf-8")


def parse_json(text: str) -> Any:
    """The data of a JSON text in which no object names a field twice.

    A ValueError or a RecursionError where it is none.
    """
    return json.loads(text, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the field {shown(twice)} is given twice in one object")
    return table


def refuse_zip_bomb(file: BinaryIO, name: object) -> None:
    """Raise an error if a zip archive would unpack to more than `MOST_UNPACKED` bytes.

    What is stored as it is cannot be more than the file has. A part gives no more bytes than its
    entry says, so looking at the entries is enough. Files that are no archive pass.
    """
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            packed = [each for each in archive.infolist() if each.compress_type]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return
    finally:
        file.seek(0)
    total = sum(each.file_size for each in packed)
    if total > MOST_UNPACKED:
        raise InputError(
            f"{name}: unpacks to {total} bytes: compressed arrays must have at most"
            f" {MOST_UNPACKED} in all; save larger ones uncompressed, as np.savez does"
        )


_PARSING = Lock()
"""numpy reads the head of an array as a Python literal, which Python 3.11 cannot in two threads."""


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an npz file, whose checksums are verified; nothing is unpickled."""
    try:
        with _PARSING, path.open("rb") as file:
            refuse_zip_bomb(file, path)
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
    except InputError:
        raise
    except Exception as error:  # a damaged archive may fail in any part of its reader
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def refuse_many_cells(name: object, rows: int, columns: int) -> None:
    """Raise an error about a table with more numbers than `MOST_CELLS`, before reading it."""
    if rows * columns > MOST_CELLS:
        raise InputError(
            f"{name}: has {rows} rows in {columns} columns: must have at most {MOST_CELLS} numbers"
        )
