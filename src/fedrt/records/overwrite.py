"""Deleting an old folder of results that a new one replaces, if FedRT made all of it.

Every entry is checked before the first one goes: with a file that fedrt has not made, a link, or a
run that another process is at, nothing is removed. `run.json` goes last, so that a removal that was
cut can be given again.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from fedrt.errors import FedrtError, InputError, reason
from fedrt.records.directory import BEFORE, RunDirectory, read_opened
from fedrt.system.inputs import parse_json, read_text

FILES = re.compile(
    r"((config|base)\.toml|(run|environment|identity|inputs|summary|comparison|tuning)\.json|points\.jsonl"
    r"|page\.html|\.lock|\..*\.torn|(devices|links|edges|rounds|partition)\.parquet"
    r"|(sweep|front|size|bound|bench|bounds|speed)\.(json|csv)|(accuracy|sweep|front|size)\.(png|svg|pdf))"
)
"""The files of a folder that a command has saved."""
INNER = {
    "checkpoints": re.compile(r"\d+\.npz|\..*\.torn"),
    "records": re.compile(r"\d+\.npz|\..*\.torn"),
    "tensorboard": re.compile(r"events\.out\.tfevents\..*"),
}
"""The folders inside a run directory, and their files."""

LAST = ("config.toml", "run.json")
REMAINS = {"run.json", ".lock"}
"""The files that an interrupted deletion may leave: those that mark the folder go last."""


def remove_results(path: Path) -> None:
    """Delete a folder that a command has saved; an error if FedRT did not make all of it."""
    files: list[Path] = []
    folders = [path]
    try:
        for entry, is_folder in _own_entries(path, runs=True):
            (folders if is_folder else files).append(entry)
        with ExitStack() as stack:
            for folder in folders:
                if (folder / "run.json").exists():
                    stack.enter_context(RunDirectory(folder).locked())
                    files.append(folder / ".lock")
            for folder in reversed(folders):
                own = [file for file in files if file.parent == folder]
                for file in sorted(own, key=lambda file: (file.name in LAST, file.name)):
                    file.unlink(missing_ok=True)
                folder.rmdir()
    except OSError as error:
        raise FedrtError(f"{path}: cannot be removed: {reason(error)}") from None


def _own_entries(path: Path, *, runs: bool) -> Iterator[tuple[Path, bool]]:
    """All files and folders in a folder of results, outer folders first."""
    if not _is_folder(path):
        raise InputError(f"{path}: is no folder that fedrt has made; `overwrite` leaves it alone")
    if not _is_remains(path):
        read_opened(path, "a folder that fedrt has made, so `overwrite` leaves it alone")
    for entry in sorted(path.iterdir()):
        name = entry.name
        if _is_file(entry) and FILES.fullmatch(name):
            yield entry, False
        elif _is_folder(entry) and name in INNER:
            yield entry, True
            for inner in sorted(entry.iterdir()):
                if not (_is_file(inner) and INNER[name].fullmatch(inner.name)):
                    raise _foreign(path, inner)
                yield inner, False
        elif _is_folder(entry) and (runs or name == BEFORE) and _is_run(entry):
            yield entry, True
            yield from _own_entries(entry, runs=False)
        else:
            raise _foreign(path, entry)


def _is_run(path: Path) -> bool:
    return _is_file(path / "run.json") or _is_remains(path)


def _is_remains(path: Path) -> bool:
    """Whether a folder holds only what an interrupted deletion of results may have left."""
    if not set(os.listdir(path)) <= REMAINS:
        return False
    try:
        said = parse_json(read_text(path / "run.json")) if (path / "run.json").exists() else {}
    except (OSError, ValueError, RecursionError, InputError):
        return False
    return not said or (isinstance(said, dict) and "format_version" in said)


def _foreign(path: Path, entry: Path) -> InputError:
    what = "is a link" if entry.is_symlink() else "is not of fedrt's making"
    inside = entry.relative_to(path)
    return InputError(f"{path}: {inside} {what}; `overwrite` leaves the folder alone: move it away")


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(os.lstat(path).st_mode) if os.path.lexists(path) else False


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode) if os.path.lexists(path) else False
