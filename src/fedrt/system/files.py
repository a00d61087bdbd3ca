"""Atomic writing: files and folders appear complete or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import FedrtError, InfeasibleError, InputError, reason
from fedrt.system.torn import TORN, torn_file, torn_folder

_private: ContextVar[bool] = ContextVar("fedrt_private", default=False)


@contextmanager
def private_files() -> Iterator[None]:
    """Let files and folders that this module writes in the block be for their owner alone.

    All others are as the umask lets them be, and none is ever wider than that.
    """
    token = _private.set(True)
    try:
        yield
    finally:
        _private.reset(token)


def file_mode() -> int:
    """The mode of a new file, before the umask."""
    return 0o600 if _private.get() else 0o666


def _folder_mode() -> int:
    return 0o700 if _private.get() else 0o777


Complaints = tuple[type[FedrtError], ...]
COMPLAINTS: Complaints = (InputError, InfeasibleError)


class UnwritableError(FedrtError):
    """Raised where something cannot be written now: no room, no right, or a disk that fails."""


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file, then rename it to `path` in one step."""
    try:
        with torn_file(path, file_mode()) as temporary:
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
    except (OSError, UnicodeEncodeError) as error:
        raise UnwritableError(f"{path}: cannot be written: {reason(error)}") from error


def write_alone(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file atomically in a folder that no other process writes to, one thread a name.

    One that is not durable may be lost when the machine stops, but not when a process does.

    Does not look for what killed processes have left, which takes the longer the more files there
    are: `clear_torn` once, at the start, does.
    """
    temporary = path.with_name(f".{path.name}{TORN}")
    try:
        temporary.unlink(missing_ok=True)  # of a killed process, perhaps with another mode
        with open(temporary, "xb", opener=_opener) as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UnwritableError(f"{path}: cannot be written: {reason(error)}") from error


def make_folder(path: Path, *, parents: bool = False) -> None:
    """Create a folder unless it exists, perhaps with those that it is in.

    Where files are private, one that exists is from then on.
    """
    try:
        if parents and not path.parent.exists():
            make_folder(path.parent, parents=True)
        path.mkdir(mode=_folder_mode(), exist_ok=True)
        if _private.get() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700)
    except OSError as error:
        raise UnwritableError(f"{path}: cannot be made: {reason(error)}") from None


def check_room(folder: Path, size: int) -> None:
    """Raise an error unless so many bytes can be written in a folder, which is made if need be."""
    make_folder(folder, parents=True)
    probe = folder / f".room{TORN}"
    try:
        with probe.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(size, 1))
    except OSError as error:
        raise UnwritableError(f"{folder}: cannot be written: {reason(error)}") from error
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, file_mode())


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_whole(path, lambda temporary: _fill(temporary, text))


def _fill(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Write data as JSON, atomically; NaN and infinity are errors."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as an npz file."""

    def fill(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_whole(path, fill)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV, with the keys of all of them as columns, in order of appearance."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


class BusyError(InputError):
    """Raised where another process uses a folder."""


class TakenError(InputError):
    """Raised where a folder to be created exists already."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path}: exists already; give another `out` or remove it")


def refuse_existing(path: Path) -> None:
    """Raise an error, before any work is done, if a folder to be created exists already."""
    if os.path.lexists(path):
        raise TakenError(path)


def new_folder(path: Path) -> Path:
    """Create a folder that must not exist yet."""
    try:
        refuse_existing(path)
        path.mkdir(parents=True)
    except FileExistsError:
        raise TakenError(path) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be made: {reason(error)}") from None
    return path


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill in the block, which is renamed to `path` at its end."""
    refuse_existing(path)
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = stack.enter_context(torn_folder(path, _folder_mode()))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be made: {reason(error)}") from None
        yield temporary
        refuse_existing(path)
        try:
            temporary.rename(path)
        except OSError as error:
            refuse_existing(path)
            raise InputError(f"{path}: cannot be made: {reason(error)}") from None


@contextmanager
def gone_unless(
    path: Path,
    sign: str | None,
    *,
    fresh: bool = True,
    least: int = 1,
    kinds: Complaints = COMPLAINTS,
) -> Iterator[None]:
    """Delete a newly created folder if the block fails before it has results worth keeping.

    So that the command leaves nothing behind. `sign` is a pattern of what is worth keeping where
    there are at least so many; None: nothing is. A folder that another process is at stays.
    """
    try:
        yield
    except (BusyError, TakenError):
        raise
    except kinds:
        if fresh and (sign is None or len(list(path.glob(sign))) < least):
            shutil.rmtree(path, ignore_errors=True)
        raise


def free_name(folder: Path, stem: str) -> Path:
    """The path `folder/stem-N` with the least N >= 1 that does not exist yet."""
    number = 1
    while os.path.lexists(path := folder / f"{stem}-{number}"):
        number += 1
    return path
