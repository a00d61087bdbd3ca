"""Typed settings: how frozen dataclasses are read from tables, checked, and written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

from fedrt.registry import Entry
from fedrt.validation import Either, Listed, Real, Rule, hint, keys_of, problem, shown

T = TypeVar("T")


def setting(rule: Rule, default: Any = MISSING) -> Any:
    """A dataclass field that is checked by a rule; without a default it is required."""
    return field(default=default, metadata={"rule": rule})


def per_device(rule: Rule, *, needed: bool = False) -> Any:
    """A setting of the fleet that every device has: a class of devices may give it too.

    One that is `needed` the fleet or all of its classes must give.
    """
    kind = "needed" if needed else "optional"
    return field(default=None, metadata={"rule": rule, "per_device": kind})


def read_table(
    cls: type[T], table: object, path: str, problems: list[str], needed: Sequence[str] = ()
) -> T | None:
    """A dataclass from a table of settings; None after adding lines to `problems`.

    Settings without a default are required, and so are those in `needed`.
    """
    before = len(problems)
    names = [f.name for f in fields(cls) if "rule" in f.metadata]  # type: ignore[arg-type]
    required = [
        f.name
        for f in fields(cls)  # type: ignore[arg-type]
        if "rule" in f.metadata and (f.default is MISSING or f.name in needed)
    ]
    found = keys_of(table, path, problems, required, names)
    values = {
        f.name: f.metadata["rule"].read(found[f.name], f"{path}.{f.name}", problems)
        for f in fields(cls)  # type: ignore[arg-type]
        if f.name in found and "rule" in f.metadata
    }
    return cls(**values) if len(problems) == before else None


def table_of(value: Any) -> Any:
    """Settings as plain tables, without those that are None; `read_table` reads them back."""
    if hasattr(value, "as_given"):
        return value.as_given()
    if hasattr(value, "options"):
        return {"kind": value.kind} | dict(value.options)
    if is_dataclass(value) and not isinstance(value, type):
        kind = {"kind": value.kind} if hasattr(value, "kind") else {}
        settings = (f.name for f in fields(value) if "rule" in f.metadata)
        items = {name: table_of(getattr(value, name)) for name in settings}
        return kind | {name: item for name, item in items.items() if item is not None}
    if isinstance(value, tuple):
        return [table_of(item) for item in value]
    return value


@dataclass(frozen=True)
class Section:
    """The rule for a table that becomes one dataclass."""

    cls: type

    def read(self, value: object, path: str, problems: list[str]) -> Any:
        return read_table(self.cls, value, path, problems)


@dataclass(frozen=True)
class Kinds:
    """The rule for a table whose `kind` says which dataclass it becomes.

    Each class names its kind; those of a registry are loaded when a table names them.

    Where `custom` is given, a kind with a colon is an import path, and it gets the other fields
    as options.
    """

    choices: tuple[type, ...] | Mapping[str, Entry]
    custom: type | None = None

    @property
    def classes(self) -> tuple[type, ...]:
        """All of the dataclasses; loaded here."""
        if isinstance(self.choices, Mapping):
            return tuple(entry.load() for entry in self.choices.values())
        return self.choices

    def read(self, value: object, path: str, problems: list[str]) -> Any:
        if not isinstance(value, Mapping):
            problems.append(problem(path, value, "a table of named fields"))
            return None
        known: Mapping[str, Any] = (
            self.choices
            if isinstance(self.choices, Mapping)
            else {cls.kind: cls for cls in self.choices}  # type: ignore[attr-defined]
        )
        kind = value.get("kind")
        rest = {name: item for name, item in value.items() if name != "kind"}
        if self.custom is not None and isinstance(kind, str) and ":" in kind:
            return self.custom(kind, rest)
        if not isinstance(kind, str) or kind not in known:
            rule = "one of " + ", ".join(known)
            rule += " or an import path, package:Name" if self.custom is not None else ""
            line = problem(f"{path}.kind", kind, rule) if "kind" in value else None
            problems.append(line or f"{path}.kind: missing; must be {rule}")
            return None
        chosen = known[kind]
        cls = chosen.load() if isinstance(chosen, Entry) else chosen
        return read_table(cls, rest, path, problems)


@dataclass(frozen=True)
class EntryRule:
    """The rule for the name of a registry's entry, or an import path to a user's own class.

    The other fields of such a table are its options; the bare name of an entry that has options
    stands for their defaults, except where the entry says that it is `plain`.
    """

    entries: Mapping[str, Entry]
    custom: type

    @property
    def options(self) -> tuple[type, ...]:
        """The dataclasses of those that have options; loaded here."""
        return tuple(entry.load() for entry in self.entries.values() if entry.has_options)

    def read(self, value: object, path: str, problems: list[str]) -> Any:
        kind = value.get("kind") if isinstance(value, Mapping) else value
        options = dict(value) if isinstance(value, Mapping) else {}
        options.pop("kind", None)
        if isinstance(kind, str):
            if ":" in kind:
                return self.custom(kind, options)
            entry = self.entries.get(kind)
            if entry is not None and entry.has_options and not (entry.plain and value == kind):
                return read_table(entry.load(), options, path, problems)
            if entry is not None and not options:
                return kind
        rule = f"one of {', '.join(self.entries)}, or an import path, package:Name"
        problems.append(problem(path, value, rule))
        return None


@dataclass(frozen=True)
class PerDevice:
    """A quantity of each device: one value for all, a list, or drawn once for each."""

    low: float
    high: float
    values: tuple[float, ...] | None = None

    def as_given(self) -> Any:
        """The value in the form in which a user types it."""
        if self.values is not None:
            return list(self.values)
        return self.low if self.low == self.high else {"uniform": [self.low, self.high]}


@dataclass(frozen=True)
class PerDeviceRule:
    """The rule for a number, a list of numbers, or `{ uniform = [low, high] }`."""

    rule: Real

    def read(self, value: object, path: str, problems: list[str]) -> PerDevice | None:
        before = len(problems)
        if isinstance(value, list | tuple):
            values = Listed(self.rule, least=1).read(value, path, problems)
            return PerDevice(min(values), max(values), values) if values else None
        if isinstance(value, Mapping):
            keys_of(value, path, problems, ["uniform"])
            if len(problems) > before:
                return None
            ends = Listed(self.rule, 2, 2).read(value["uniform"], f"{path}.uniform", problems)
            if ends is None:
                return None
            if ends[0] > ends[1]:
                problems.append(problem(f"{path}.uniform", list(ends), "[low, high], low <= high"))
                return None
            return PerDevice(*ends)
        number = self.rule.read(value, path, problems)
        return None if number is None else PerDevice(number, number)


def word_or(words: tuple[str, ...], rule: Rule) -> Either:
    """The rule for one of a few words, or else another rule."""
    from fedrt.validation import OneOf

    return Either(lambda value: OneOf(words) if isinstance(value, str) else rule)


def one_or_list(rule: Rule) -> Either:
    """The rule for one value, or a list of them."""
    listed = Listed(rule, least=1)
    return Either(lambda value: listed if isinstance(value, list | tuple) else rule)


def unknown_name(what: str, name: str, known: list[str]) -> str:
    """The error line for a name that is not among the known ones."""
    return f"{what} {shown(name)} does not exist{hint(name, known)}"
