"""Reading scenarios: presets, files, `extends`, and settings from the command line.

Layers are plain tables: the preset a file extends, the file, then each setting that was typed. A
later layer wins key by key, with two rules that let it change its mind: a section whose `kind`
changes starts afresh, and giving one form of the energy budget drops the other.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedrt.errors import InputError, reason
from fedrt.scenario.fault_rules import fault_problems
from fedrt.scenario.fields import read_table, table_of, unknown_name
from fedrt.scenario.model import Scenario
from fedrt.scenario.rules import broken_rules
from fedrt.scenario.toml_text import parse_toml, toml_text
from fedrt.system.inputs import read_text
from fedrt.validation import shown

PRESETS = Path(__file__).parent / "presets"
MOST_BYTES = 16 * 2**20
"""Of a scenario file: one list for each of 100,000 devices fits."""
BUDGET_FORMS = ("energy_j_per_edge_round", "energy_budget_j")


def preset_names() -> list[str]:
    """The names of all scenarios that come with FedRT."""
    names = sorted(str(p.relative_to(PRESETS).with_suffix("")) for p in PRESETS.rglob("*.toml"))
    return sorted(names, key=lambda name: name.count("/"))


def load_scenario(source: str | Path, settings: Iterable[str] = ()) -> Scenario:
    """The scenario of a preset's name or a TOML file, with `key=value` settings applied."""
    problems: list[str] = []
    table = _load_layers(str(source))
    for text in settings:
        layer = _parse_setting(text, problems)
        table = _overlay(table, layer)
    return _checked(table, problems)


def read_scenario(text: str) -> Scenario:
    """The scenario that `scenario_text` wrote; settings it does not name have their defaults."""
    try:
        return _checked(parse_toml(text), [])
    except (ValueError, RecursionError) as error:
        raise InputError(f"the scenario is not TOML: {reason(error)}") from None


def _checked(table: Mapping[str, Any], problems: list[str]) -> Scenario:
    scenario = read_table(Scenario, table, "scenario", problems)
    if scenario is not None:
        problems += broken_rules(scenario) + fault_problems(scenario)
    if problems or scenario is None:
        raise InputError(problems)
    return scenario


def scenario_text(scenario: Scenario, *, anywhere: bool = False) -> str:
    """The whole scenario as TOML, defaults included; loading it gives the same scenario.

    `anywhere`: from any folder, with the whole path of every file it names.
    """
    table = table_of(scenario)
    if anywhere:
        _locate_files(table, Path.cwd())
    return toml_text(table)


def base_text(source: str | Path, settings: Iterable[str] = ()) -> str:
    """A preset or file with settings applied, as TOML that means the same from any folder.

    It is not checked: settings that are to follow may be what makes it valid.
    """
    problems: list[str] = []
    table = _load_layers(str(source))
    for text in settings:
        table = _overlay(table, _parse_setting(text, problems))
    _locate_files(table, Path.cwd())
    return toml_text(table)


def setting_value(raw: str) -> Any:
    """The value of a setting's text: as TOML, or else as a plain word."""
    try:
        return parse_toml(f"value = {raw}")["value"]
    except (ValueError, RecursionError):  # what TOML cannot read, and numbers of 5,000 digits
        return raw.strip()


def _load_layers(source: str) -> dict[str, Any]:
    """A preset or file as one table, with what it extends beneath it."""
    is_preset = source in preset_names()
    table = _read_toml(PRESETS / f"{source}.toml" if is_preset else Path(source), source)
    if not is_preset:
        _locate_files(table, Path(source).resolve().parent)
    table.setdefault("name", source if is_preset else Path(source).stem)
    table.setdefault("description", "")
    parent = table.pop("extends", None)
    if parent is None:
        return table
    if not isinstance(parent, str) or parent not in preset_names():
        line = unknown_name("the preset", str(parent), preset_names())
        raise InputError(f"scenario.extends = {shown(parent)}: {line}")
    return _overlay(_load_layers(parent), table)


def _locate_files(table: dict[str, Any], folder: Path) -> None:
    """Traces and data files are named as seen from the scenario file.

    A data file that is not there may be in the folder of data sets, under its bare name.
    """
    faults, learning = table.get("faults"), table.get("learning")
    for section in [*table.values(), *(faults.values() if isinstance(faults, dict) else ())]:
        # A process of one's own has options of its own: what they mean is its business.
        if isinstance(section, dict) and section.get("kind", "trace") == "trace":
            _locate(section, "file", folder)
    if isinstance(learning, dict):
        dataset = str(learning.get("dataset"))
        if dataset.endswith(".npz") and os.path.exists(folder / dataset):
            _locate(learning, "dataset", folder)


def _locate(section: dict[str, Any], name: str, folder: Path) -> None:
    if isinstance(section.get(name), str):
        section[name] = str(folder / section[name])


def _read_toml(path: Path, source: str) -> dict[str, Any]:
    try:
        return parse_toml(read_text(path, MOST_BYTES))
    except FileNotFoundError:
        presets = preset_names()
        raise InputError(
            f"{unknown_name('the scenario', source, presets)}: give a TOML file or one of "
            + ", ".join(presets)
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: is not TOML: {reason(error)}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{source}: cannot be read: {reason(error)}") from None


def _overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The lower table with values of the upper one replacing its own."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            afresh = "kind" in value and value["kind"] != under.get("kind")
            if any(form in value for form in BUDGET_FORMS):
                under = {name: v for name, v in under.items() if name not in BUDGET_FORMS}
            merged[key] = dict(value) if afresh else _overlay(under, value)
        else:
            merged[key] = value
    return merged


def _parse_setting(text: str, problems: list[str]) -> dict[str, Any]:
    """The table for a text like `section.key=value`."""
    key, equals, raw = text.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names) or len(names) > 8:
        problems.append(f"`settings` {shown(text)}: must be section.key=value")
        return {}
    value = setting_value(raw)
    for name in reversed(names):
        value = {name: value}
    return dict(value)
