"""Users' own code in a scenario: its import paths, and the parts of `[learning]` made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from fedrt.errors import InputError
from fedrt.scenario.model import Custom, Scenario
from fedrt.system.plugins import load_plugin, own_code, refuse_path
from fedrt.validation import problem

PROCESSES = ("channel.kind", "bandwidth.kind", "backhaul.kind")
"""The settings among them that name a random process of the world."""


def import_paths(scenario: Scenario) -> dict[str, str]:
    """Every import path in a scenario, keyed by its setting."""
    learning = scenario.learning
    found = {"learning.model": learning.model}
    if not learning.dataset.endswith(".npz"):
        found["learning.dataset"] = learning.dataset
    for name in (field.name for field in fields(learning)):
        chosen = getattr(learning, name)
        if isinstance(chosen, Custom):
            found[f"learning.{name}"] = chosen.kind
    for number, entry in enumerate(learning.update or ()):
        if isinstance(entry, Custom):
            found[f"learning.update[{number}]"] = entry.kind
    for number, name in enumerate(scenario.control.codecs or ()):
        found[f"control.codecs[{number}]"] = name
    for name in PROCESSES:
        settings = getattr(scenario, name.removesuffix(".kind"))
        if isinstance(settings, Custom):
            found[name] = settings.kind
    return {name: path for name, path in found.items() if ":" in path}


def training_paths(scenario: Scenario) -> list[str]:
    """The import paths of what trains: every process that does loads them; data are sent."""
    return [
        path
        for name, path in import_paths(scenario).items()
        if name.startswith(("learning.", "control.")) and name != "learning.dataset"
    ]


def path_problems(scenario: Scenario, *, data: bool = True, load: bool = False) -> list[str]:
    """Why import paths of a scenario could not be loaded, a line each.

    Those that may not be are found without loading anything; `load` finds those that cannot be.
    """
    lines: list[str] = []
    for setting, path in import_paths(scenario).items():
        if data or setting != "learning.dataset":
            try:
                (load_plugin if load else refuse_path)(path, f"scenario.{setting}")
            except InputError as error:
                lines += error.lines
    return lines


class OwnEntry:
    """A wrapper of a user's object that turns exceptions of its methods into one-line errors.

    Every attribute is the user's object's own. `name` begins the line: the setting and its value.
    """

    def __init__(self, entry: Any, name: str, key: str) -> None:
        self.entry, self.name, self.key = entry, name, key

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self.entry, attribute)
        if not callable(found):
            return found

        def call(*given: Any) -> Any:
            with own_code(self.name):
                return found(*given)

        return call

    def __repr__(self) -> str:
        return self.key


def make_own(chosen: Custom, setting: str, methods: Sequence[str], *given: Any) -> Any:
    """The user's object for a setting of `[learning]`, made with the arguments and its options.

    It must have these methods. Two that print alike are made alike: programs may be shared.
    """
    field = f"scenario.learning.{setting}"
    name = f"{field} = {chosen.kind!r}"
    factory = load_plugin(chosen.kind, field)
    with own_code(name):
        entry = factory(*given, **chosen.options)
    lacking = [method for method in methods if not callable(getattr(entry, method, None))]
    if lacking:
        listed = " and ".join(f"{method}()" for method in lacking)
        raise InputError(problem(field, chosen.kind, f"something with the methods {listed}"))
    options = dict(sorted(chosen.options.items()))
    # A tensor, as a rate is in a compiled program, is no part of how it is made.
    fixed = tuple(value for value in given if isinstance(value, int | float | str))
    return OwnEntry(entry, name, f"{chosen.kind} {fixed} {options}")


def refuse(entry: Any, rule: str) -> InputError:
    """The error about an invalid value that a user's object has returned."""
    name = entry.name if isinstance(entry, OwnEntry) else repr(entry)
    return InputError(f"{name}: {rule}")
