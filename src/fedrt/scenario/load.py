"""Reading scenarios: presets, files, `extends`, and settings from the command line.

Layers are plain tables: what a file extends (a preset or another file, which may extend others),
the file, then each setting that was typed. A later layer wins key by key, with rules that let it
change its mind: `overlay` in `scenario/tables/layers.py` has them.
"""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedrt.errors import InputError, reason
from fedrt.scenario.classes import listed_classes, unknown_class
from fedrt.scenario.model import Scenario
from fedrt.scenario.tables.fields import table_of, unknown_name
from fedrt.scenario.tables.layers import overlay
from fedrt.scenario.tables.toml_text import parse_toml, toml_text
from fedrt.system.inputs import read_text
from fedrt.validation import shown

PRESETS = Path(__file__).parent / "presets"
MOST_BYTES = 16 * 2**20
"""Of a scenario file: one list for each of 100,000 devices fits."""
MOST_FILES = 16
"""That extend each other."""


def preset_names() -> list[str]:
    """The names of all scenarios that come with FedRT."""
    names = sorted(str(p.relative_to(PRESETS).with_suffix("")) for p in PRESETS.rglob("*.toml"))
    return sorted(names, key=lambda name: name.count("/"))


Source = str | Path | Scenario
"""A preset's name, a TOML file, or a scenario."""


def load_scenario(source: Source, settings: Iterable[str] = ()) -> Scenario:
    """The scenario of a preset's name or a TOML file, with `key=value` settings applied."""
    problems: list[str] = []
    table = _load_layers(source)
    for text in settings:
        table = overlay(table, _parse_setting(text, table, problems))
    return Scenario.read(table, problems)


def read_scenario(text: str) -> Scenario:
    """The scenario that `scenario_text` wrote; settings it does not name have their defaults."""
    try:
        return Scenario.read(parse_toml(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"the scenario is not TOML: {reason(error)}") from None


def scenario_text(scenario: Scenario, *, anywhere: bool = False) -> str:
    """The whole scenario as TOML, defaults included; loading it gives the same scenario.

    `anywhere`: from any folder, with the whole path of every file it names.
    """
    table = table_of(scenario)
    if anywhere:
        _locate_files(table, Path.cwd())
    return toml_text(table)


def base_text(source: Source, settings: Iterable[str] = ()) -> str:
    """A preset or file with settings applied, as TOML that means the same from any folder.

    It is not checked: settings that are to follow may be what makes it valid.
    """
    problems: list[str] = []
    table = _load_layers(source)
    for text in settings:
        table = overlay(table, _parse_setting(text, table, problems))
    _locate_files(table, Path.cwd())
    return toml_text(table)


def setting_value(raw: str) -> Any:
    """The value of a setting's text: as TOML, or else as a plain word."""
    try:
        return parse_toml(f"value = {raw}")["value"]
    except (ValueError, RecursionError):  # what TOML cannot read, and numbers of 5,000 digits
        return raw.strip()


def _load_layers(source: Source) -> dict[str, Any]:
    """A preset, a file or a scenario as one table, with what it extends beneath it."""
    if isinstance(source, Scenario):
        return dict(table_of(source))
    source, layers, files = str(source), list[dict[str, Any]](), list[Path]()
    while True:
        is_preset = source in preset_names()
        file = PRESETS / f"{source}.toml" if is_preset else Path(source)
        table, folder = _read_toml(file, source), file.resolve().parent
        _locate_files(table, folder)
        if not is_preset:
            files.append(file.resolve())
        table.setdefault("name", source if is_preset else Path(source).stem)
        table.setdefault("description", "")
        parent = table.pop("extends", None)
        layers.append(table)
        if parent is None:
            return functools.reduce(overlay, reversed(layers))
        source = _extended(parent, folder, files)


def _extended(parent: object, folder: Path, files: list[Path]) -> str:
    """The preset or the file, seen from a folder, that the last of the files extends."""
    path = f"scenario.extends = {shown(parent)}"
    if not isinstance(parent, str):
        raise InputError(f"{path}: must be a preset's name or a TOML file")
    if parent in preset_names():
        return parent
    if not parent.endswith(".toml"):
        line = unknown_name("the preset", parent, preset_names())
        raise InputError(f"{path}: must be a preset or a file that ends in .toml; {line}")
    try:
        found = (folder / parent).resolve()
        there = found.exists()
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    if not there:
        raise InputError(f"{path}: there is no file {found}")
    if found in files:
        raise InputError(f"{path}: {files[-1]} extends itself by way of it: must end somewhere")
    if len(files) > MOST_FILES:
        raise InputError(f"{path}: is one of over {MOST_FILES} files that extend each other")
    return str(found)


def _locate_files(table: dict[str, Any], folder: Path) -> None:
    """Traces, tables of CPUs and data files are named as seen from the scenario file.

    A data file that is not there may be in the folder of data sets, under its bare name.
    """
    faults, learning = table.get("faults"), table.get("learning")
    for section in [*table.values(), *(faults.values() if isinstance(faults, dict) else ())]:
        # A process of one's own has options of its own: what they mean is its business.
        if isinstance(section, dict) and section.get("kind", "trace") == "trace":
            _locate(section, "file", folder)
    fleet = table.get("fleet")
    if isinstance(fleet, dict):
        for each in [fleet, *(listed_classes(fleet.get("classes")) or ())]:
            if isinstance(each.get("cpu_table"), dict):
                _locate(each["cpu_table"], "file", folder)
    if isinstance(learning, dict):
        dataset = str(learning.get("dataset"))
        if dataset.endswith(".npz") and os.path.exists(folder / dataset):
            _locate(learning, "dataset", folder)


def _locate(section: dict[str, Any], name: str, folder: Path) -> None:
    if isinstance(section.get(name), str):
        section[name] = str(folder / section[name])


def _some_presets() -> str:
    """The shipped scenarios: those in a folder by the folder's name, as there are many."""
    names = preset_names()
    alone = [name for name in names if "/" not in name]
    folders = sorted({name.partition("/")[0] for name in names} - {*alone})
    return (
        ", ".join([*alone, *(f"{folder}/..." for folder in folders)])
        + "; fedrt scenario list has all"
    )


def _read_toml(path: Path, source: str) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path, MOST_BYTES))
    except FileNotFoundError:
        line = unknown_name("the scenario", source, preset_names())
        if not line.endswith("?"):
            line += f": give a TOML file or a shipped one, such as {_some_presets()}"
        raise InputError(line) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: is not TOML: {reason(error)}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{source}: cannot be read: {reason(error)}") from None


def _parse_setting(text: str, table: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The table for a text like `section.key=value`, which is to change this one."""
    key, equals, raw = text.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names) or len(names) > 8:
        problems.append(f"`settings` {shown(text)}: must be section.key=value")
        return {}
    unknown = unknown_class(names, table)
    if unknown is not None:
        problems.append(unknown)
        return {}
    value = setting_value(raw)
    for name in reversed(names):
        value = {name: value}
    return dict(value)
