"""Parts of local training that a scenario chooses: shipped by name, or a user's by import path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrt.errors import InputError
from fedrt.scenario.model import Custom
from fedrt.system.plugins import load_plugin, own_code
from fedrt.validation import problem


class OwnEntry:
    """A user's optimiser, codec, aggregator or task; what its methods raise becomes one line.

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
    """The user's object for a setting of `[learning]`, made with what is given and its options.

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
    return OwnEntry(entry, name, f"{chosen.kind} {given} {options}")


def refuse(entry: Any, rule: str) -> InputError:
    """The complaint about what an entry has returned."""
    name = entry.name if isinstance(entry, OwnEntry) else repr(entry)
    return InputError(f"{name}: {rule}")
