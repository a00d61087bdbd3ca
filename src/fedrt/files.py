"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedrt.errors import FedrtError, InputError, reason


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FedrtError(f"{path}: cannot be written: {reason(error)}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    write_whole(path, lambda temporary: _fill(temporary, text))


def _fill(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Write plain data as JSON; NaN and infinity are refused."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def new_folder(path: Path) -> Path:
    """Make a folder that must not exist yet."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        raise InputError(f"{path}: exists already; give another --out or remove it") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be made: {reason(error)}") from None
    return path


def free_name(folder: Path, stem: str) -> Path:
    """`folder/stem-N` with the least N >= 1 that is not there yet."""
    number = 1
    while (path := folder / f"{stem}-{number}").exists():
        number += 1
    return path
