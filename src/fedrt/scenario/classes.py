"""Device classes: kinds of devices with settings of their own, as `[[fleet.classes]]` gives them.

`scenario/placing.py` says which device is of which class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from fedrt.scenario.tables.fields import PerDevice, read_table, setting, table_of
from fedrt.scenario.tables.layers import BUDGET_FORMS
from fedrt.validation import Flag, Listed, Real, Whole, hint, problem

if TYPE_CHECKING:
    from fedrt.scenario.model import Fleet

NOTHING = "none"
"""What takes an optional setting of each device away, such as a budget: that of a preset, of a file
that is extended, or, in a class, the fleet's."""
MOST_CLASSES = 100
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True)
class ClassName:
    """The rule for the name of a class, which is a part of `fleet.classes.NAME.setting`."""

    def read(self, value: object, path: str, problems: list[str]) -> str | None:
        if isinstance(value, str) and NAME.fullmatch(value):
            return value
        rule = "a letter and then up to 39 letters, digits, - or _"
        problems.append(problem(path, value, rule))
        return None


@dataclass(frozen=True)
class DeviceClass:
    """One class: how many devices are of it, where, and their settings."""

    name: str = setting(ClassName())
    """What the class is called in tables and in `fleet.classes.NAME.setting`."""
    share: float | None = setting(Real(least=0, most=1), None)
    """Of the devices that counted classes leave; without `share` and `count`, all that are left."""
    count: int | None = setting(Whole(0, 10_000_000), None)
    """How many devices are of the class; this or `share`."""
    edges: tuple[int, ...] | None = setting(Listed(Whole(0, 9_999), least=1), None)
    """The edge servers in whose clusters alone there are devices of the class."""
    per_edge: bool = setting(Flag(), False)
    """Whether `share` or `count` holds in every cluster, and not over all together."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of each device that replace the fleet's; None takes them away."""

    def as_given(self) -> dict[str, Any]:
        """The class as the table that a user types."""
        own = {name: table_of(getattr(self, name)) for name in OWN}
        own = {name: value for name, value in own.items() if value is not None and value != ()}
        if not self.per_edge:
            del own["per_edge"]
        given = {name: table_of(value) for name, value in self.settings.items()}
        return own | {name: NOTHING if item is None else item for name, item in given.items()}


OWN = tuple(f.name for f in fields(DeviceClass) if "rule" in f.metadata)


def per_device_rules(fleet: type) -> dict[str, Any]:
    """The rules of the settings that every device has, by name: a class may give each."""
    return {f.name: f.metadata["rule"] for f in fields(fleet) if "per_device" in f.metadata}


def class_rules(fleet: type) -> dict[str, Any]:
    """The rules of all settings of a class, by name."""
    own = {f.name: f.metadata["rule"] for f in fields(DeviceClass) if "rule" in f.metadata}
    return own | per_device_rules(fleet)


def needed_settings(fleet: type) -> list[str]:
    """The settings of each device that the fleet or all of its classes must give."""
    return [f.name for f in fields(fleet) if f.metadata.get("per_device") == "needed"]


@dataclass(frozen=True)
class ClassesRule:
    """The rule for a list of classes, or a table of them by their names."""

    fleet: Callable[[], type]
    """The dataclass whose per-device settings a class may give; late, as it holds the classes."""

    def read(self, value: object, path: str, problems: list[str]) -> Any:
        tables = listed_classes(value)
        if tables is None or not 1 <= len(tables) <= MOST_CLASSES:
            rule = f"a list of 1 to {MOST_CLASSES} classes, each a table of named fields"
            problems.append(problem(path, value, rule))
            return None
        before = len(problems)
        found = [self._read_one(table, path, i, problems) for i, table in enumerate(tables)]
        names = [str(table.get("name")) for table in tables]
        for i, name in enumerate(names):
            if name in names[:i] and NAME.fullmatch(name):
                problems.append(f"{path}.{name}: is given more than once")
        return tuple(found) if len(problems) == before else None

    def _read_one(
        self, table: Mapping[str, Any], path: str, place: int, problems: list[str]
    ) -> DeviceClass | None:
        name = table.get("name")
        good = isinstance(name, str) and NAME.fullmatch(name)
        path = f"{path}.{name}" if good else f"{path}[{place}]"
        rules, before = per_device_rules(self.fleet()), len(problems)
        own = {key: item for key, item in table.items() if key in OWN}
        unknown = [str(key) for key in table if key not in own and key not in rules]
        for key in unknown[:MOST_CLASSES]:
            problems.append(f"{path}.{key[:60]}: unknown field{hint(key, [*OWN, *rules])}")
        without = removed(self.fleet(), table)
        settings = {
            key: None if key in without else rules[key].read(item, f"{path}.{key}", problems)
            for key, item in table.items()
            if key in rules
        }
        if "name" not in own:
            problems.append(f"{path}.name: missing")
        shape = read_table(DeviceClass, own, path, problems) if "name" in own else None
        if shape is None or len(problems) > before:
            return None
        return DeviceClass(**{key: getattr(shape, key) for key in OWN}, settings=settings)


def removed(fleet: type, table: Mapping[str, Any]) -> list[str]:
    """The optional settings of each device that a table takes away."""
    optional = [f.name for f in fields(fleet) if f.metadata.get("per_device") == "optional"]
    return [name for name in optional if table.get(name) == NOTHING]


def listed_classes(value: object) -> list[Mapping[str, Any]] | None:
    """Classes as a list of tables with names; None where the value is neither form of them."""
    if isinstance(value, Mapping):
        named = isinstance(value.get("name"), str)
        tables = [
            {"name": key, **item} if isinstance(item, Mapping) else None
            for key, item in value.items()
        ]
        value = None if named else tables
    if not isinstance(value, list | tuple) or not all(isinstance(v, Mapping) for v in value):
        return None
    return list(value)


def unknown_class(names: Sequence[str], table: Mapping[str, Any]) -> str | None:
    """A line if the key `fleet.classes.NAME.setting` names a class that the table does not have."""
    if names[:2] != ["fleet", "classes"] or len(names) < 4:
        return None
    fleet = table.get("fleet")
    classes = listed_classes(fleet.get("classes")) if isinstance(fleet, Mapping) else None
    known = [str(each.get("name")) for each in classes or ()]
    if names[2] in known:
        return None
    has = f"has {', '.join(known)}{hint(names[2], known)}" if known else "has none"
    return f"scenario.fleet.classes.{names[2][:60]}: there is no such class; the fleet {has}"


@dataclass(frozen=True)
class FleetSection:
    """The rule for the fleet: what all classes give it need not give itself."""

    cls: type

    def read(self, value: object, path: str, problems: list[str]) -> Any:
        classes = None
        if isinstance(value, Mapping):
            classes = listed_classes(value.get("classes"))
            without = removed(self.cls, value)  # as if they had never been given
            value = {key: item for key, item in value.items() if key not in without}
        needed = [
            name
            for name in needed_settings(self.cls)
            if not classes or not all(name in table for table in classes)
        ]
        return read_table(self.cls, value, path, problems, needed)


def setting_of(fleet: Fleet, number: int | None, name: str) -> Any:
    """What devices of one class (None: of a fleet without classes) have for a setting."""
    if number is None or not fleet.classes:
        return getattr(fleet, name)
    return fleet.classes[number].settings.get(name, getattr(fleet, name))


def path_of(fleet: Fleet, number: int | None) -> str:
    """The name of the section that the settings of a class's devices come from first."""
    if number is None or not fleet.classes:
        return "scenario.fleet"
    return f"scenario.fleet.classes.{fleet.classes[number].name}"


def settings_in(fleet: Fleet, name: str) -> list[Any]:
    """What devices have for a setting, for each class in turn."""
    return [setting_of(fleet, k, name) for k in numbers_of(fleet)]


def numbers_of(fleet: Fleet) -> list[int] | list[None]:
    """The numbers of the fleet's classes; None alone where it has no classes."""
    return list(range(len(fleet.classes))) if fleet.classes else [None]


def with_setting(fleet: Fleet, name: str, old: Any, new: Any) -> Fleet:
    """The fleet with another value wherever it or a class has a certain one for a setting."""
    classes = fleet.classes and tuple(
        replace(each, settings={**each.settings, name: new})
        if each.settings.get(name) == old
        else each
        for each in fleet.classes
    )
    own = new if getattr(fleet, name) == old else getattr(fleet, name)
    return replace(fleet, **{name: own, "classes": classes})


def budget_of(fleet: Fleet, number: int | None) -> tuple[str, PerDevice] | None:
    """The form and value of the budget of a class's devices; None for no limit."""
    own = fleet.classes[number].settings if number is not None and fleet.classes else {}
    given = [(form, own[form]) for form in BUDGET_FORMS if form in own]
    if not given:
        given = [(form, getattr(fleet, form)) for form in BUDGET_FORMS]
    chosen = [(form, value) for form, value in given if isinstance(value, PerDevice)]
    return chosen[-1] if chosen else None
