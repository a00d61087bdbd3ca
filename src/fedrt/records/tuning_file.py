"""The tuning of a run's engine as saved in its folder, and checks that it has not changed.

How many devices train at a time and in how many processes moves the rounding of sums: a run that
resumes in another way has other bits from there on. `identity.json` has what the run began with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedrt.errors import InputError
from fedrt.records.identity import Identity, Note
from fedrt.system.files import write_json
from fedrt.system.inputs import parse_json, read_text
from fedrt.validation import shown

FILE, KEY = "tuning.json", "tuning"


def read_tuning_file(file: Path) -> Mapping[str, Any] | None:
    """The contents of a run's tuning file; None if it cannot be read."""
    try:
        found = parse_json(read_text(file))[KEY]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, InputError):
        return None
    return found if isinstance(found, Mapping) else None


def mend_tuning_file(file: Path, kept: Identity | None, *, begun: bool, note: Note) -> None:
    """Restore a missing or damaged tuning file before a run is resumed."""
    found = read_tuning_file(file)
    began = None if kept is None else kept.later.get(KEY)
    what = "is damaged" if file.exists() else "is missing"
    if isinstance(began, dict):
        if found is None or not _alike(found, began):
            write_json(file, {KEY: began})
            note(f"note: {file}: {what}: written again as the run began, {_words(began)}")
    elif kept is None and begun and found is None:
        note(
            f"note: {file}: {what}: tuned anew, so that from here on the run may not have the bits"
            " it would have had"
        )


def tell_edited_tuning(file: Path, kept: Identity | None, note: Note) -> None:
    """Warn if the engine is tuned differently from when the run began."""
    found = read_tuning_file(file)
    began = None if kept is None else kept.later.get(KEY)
    if isinstance(began, dict) and found is not None and dict(found) != began:
        note(
            f"note: {file}: was edited: it says {_words(found)}, the run began with"
            f" {_words(began)}; from here on it does not have the bits it would have had"
        )


def _alike(found: Mapping[str, Any], began: Mapping[str, Any]) -> bool:
    """Whether two tables have the same fields with values of the same types."""
    return found.keys() == began.keys() and all(
        type(found[name]) is type(value) and (type(value) is not int or found[name] >= 1)
        for name, value in began.items()
    )


def _words(tuning: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in tuning.items())
