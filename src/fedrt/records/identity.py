"""The identity of a run: what it was started with, so that a change is noticed on resuming.

`identity.json` holds every setting, option, seed and policy that a run was started with, digests of
the files it names and of the user's own code, and, once training has begun, a digest of the data.
Resuming compares; what differs is named. `run.json` has a digest of the first part, so that a file
that is missing or was edited is noticed too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fedrt.errors import InputError, reason
from fedrt.scenario import Scenario
from fedrt.scenario.entries import import_paths
from fedrt.scenario.tables.fields import table_of
from fedrt.system.files import write_json
from fedrt.system.inputs import MOST_DATA, open_regular, parse_json, read_text
from fedrt.system.own_source import own_source
from fedrt.validation import shown

FILE = "identity.json"
KEY = "identity"
"""The key in run.json of the identity's digest at the start."""
WHERE = ("data_dir", "address")
"""Options that say where something is, not what it is."""
DATA = "the data"
LONGEST = 200
MOST_NAMED = 5
OLD = "was started before runs kept what they are made from: changes since then cannot be seen"

Note = Callable[[str], None]


@dataclass(frozen=True)
class Identity:
    """Everything that a run or a comparison was started with."""

    said: Mapping[str, Any]
    """Every setting by its name; files and code by their digests."""
    later: Mapping[str, Any]
    """What was found when training began."""

    @property
    def digest(self) -> str:
        """A digest of the identity as it was at the start."""
        return _digest(self.said)

    def save(self, folder: Path) -> None:
        """Save the identity in the run's folder."""
        whole = {"said": dict(self.said), "later": dict(self.later)}
        write_json(folder / FILE, whole | {"digest": _digest(whole)})


def identity_of(
    scenario: Scenario,
    policies: Sequence[str],
    seeds: Sequence[int],
    options: Mapping[str, Any],
    more: Mapping[str, Any] | None = None,
) -> Identity:
    """The identity of a run with the given settings; loads the user's own code."""
    said: dict[str, Any] = {"policy": ", ".join(policies), "seed": ", ".join(map(str, seeds))}
    table = table_of(scenario)
    _replace_files(table)
    _flatten("scenario", table, said)
    _flatten("options", {k: v for k, v in options.items() if k not in WHERE}, said)
    code = [(f"scenario.{name}", path) for name, path in import_paths(scenario).items()]
    code += [("policy", path) for path in policies if ":" in path]
    for field, path in code:
        source = own_source(path.partition("(")[0], field)
        if source is not None:
            said[f"source of {path} ({', '.join(source[1])})"] = source[0]
    return Identity(said | dict(more or {}), {})


def read_identity(folder: Path, run: Mapping[str, Any]) -> Identity | None:
    """The identity saved in a folder; None for folders of older versions.

    An error if it is missing, damaged or was edited.
    """
    path = folder / FILE
    if KEY not in run and not path.exists():
        return None
    try:
        whole = parse_json(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    good = isinstance(whole, dict) and all(
        isinstance(whole.get(name), dict) for name in ("said", "later")
    )
    if good:
        found = Identity(whole["said"], whole["later"])
        parts = {"said": whole["said"], "later": whole["later"]}
        if whole.get("digest") == _digest(parts) and run.get(KEY) == found.digest:
            return found
    raise InputError(f"{path}: is damaged or was edited: it does not fit its digest")


def check_same(folder: Path, kept: Identity | None, now: Identity, note: Note) -> None:
    """Raise an error that names what has changed since a run was started."""
    if kept is None:
        note(f"note: {folder}: {OLD}")
        return
    found = changes(kept.said, now.said)
    if found:
        raise InputError(
            f"{folder}: cannot go on, for since it was started {listed(found)}; undo that, or"
            " start a branch of it (fedrt run --branch)"
        )


def check_later(
    folder: Path, kept: Identity | None, later: Mapping[str, Any], free: Mapping[str, Any]
) -> None:
    """Save what is found when training begins; raise an error if it differs from before.

    What is free may change later; only what it was at first is kept.
    """
    if kept is None:
        return
    before, told = kept.later, []
    for name, value in later.items():
        if name in before and before[name] != value:
            told.append(f"{name} are not those it was started with")
    if told:
        raise InputError(f"{folder}: cannot go on: {', '.join(told)}")
    if not {*later, *free} <= before.keys():
        replace(kept, later={**free, **before, **later}).save(folder)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences between two identities, each as a phrase."""
    found = []
    for key in dict.fromkeys((*before, *now)):
        old, new = before.get(key), now.get(key)
        if old == new and type(old) is type(new):
            continue
        if key.startswith("source of "):
            if not all(_name(key) in map(_name, each) for each in (before, now)):
                continue  # another import path: that is named already
            if key not in now:
                continue  # made from other files: named with those of now
            words = f"the {key} was changed"
        elif key not in before:
            words = f"{key} was set to {shown(new)}"
        elif key not in now:
            words = f"{key} was removed (it was {shown(old)})"
        else:
            words = f"{key} was changed from {shown(old)} to {shown(new)}"
        found.append(words)
    return found


def _name(key: str) -> str:
    return key.partition(" (")[0]


def listed(found: Sequence[str]) -> str:
    """The first few changes on one line."""
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more


def _replace_files(table: dict[str, Any]) -> None:
    """Settings with digests in place of file paths: the contents count, not the location."""
    if table["learning"]["dataset"].endswith(".npz"):
        table["learning"]["dataset"] = "a file"
    for section in [*table.values(), *(table.get("faults") or {}).values()]:
        if isinstance(section, dict) and section.get("kind") == "trace":
            section["file"] = file_digest(Path(section["file"]))


def file_digest(path: Path) -> str:
    """A digest of a file's contents, read in blocks."""
    found = blake2b(digest_size=16)
    try:
        with open_regular(path, MOST_DATA) as file:
            while piece := file.read(2**22):
                found.update(piece)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    return found.hexdigest()


def _flatten(name: str, value: Any, into: dict[str, Any]) -> None:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            _flatten(f"{name}.{key}", item, into)
    else:
        into[name] = _plain(value)


def _plain(value: Any) -> Any:
    """A setting as a JSON value: itself, its text, or a digest if it is long."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    # A text may be one with an object (`system.plugins.GivenPath`): what counts is the text.
    text = str(value) if isinstance(value, str) else _text(value)
    if len(text) <= LONGEST:
        return text
    return "digest " + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _text(value: Any) -> str:
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_text(item)}" for key, item in value.items()) + "}"
    return repr(value)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()
