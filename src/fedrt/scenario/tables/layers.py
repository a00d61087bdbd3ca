"""Settings that Python code gives: tables in layers, plain values, and objects with their names."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import is_dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from fedrt.scenario.tables.fields import table_of
from fedrt.system.plugins import PYTHON, GivenPath, Offer

BUDGET_FORMS = ("energy_j_per_edge_round", "energy_budget_j")
FORMS = (BUDGET_FORMS, ("share", "count"), ("upload", "update"))
"""Settings that say the same thing in different forms: giving one drops the others."""


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The lower table with values of the upper one replacing its own.

    A section whose `kind` changes starts afresh, one form of the energy budget drops the other, and
    a table changes the items that it names of a list of tables with names.
    """
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[key] = _overlay_section(under, value)
        elif isinstance(value, Mapping) and has_names(under):
            merged[key] = _overlay_named(under, value)
        else:
            merged[key] = value
    return merged


def _overlay_section(under: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    if "kind" in value and value["kind"] != under.get("kind"):
        return dict(value)
    for forms in FORMS:
        if any(form in value for form in forms):
            under = {name: v for name, v in under.items() if name not in forms}
    return overlay(under, value)


def has_names(value: Any) -> bool:
    """Whether a value is a list of tables with names, such as `fleet.classes`."""
    return isinstance(value, list) and all(
        isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in value
    )


def _overlay_named(below: Any, above: Mapping[str, Any]) -> list[Any]:
    """The list with its items changed that the table names; None takes one away."""
    merged = {item["name"]: item for item in below}
    for name, change in above.items():
        if change is None:
            merged.pop(name, None)
        elif isinstance(change, Mapping):
            item = merged.get(name, {"name": name})
            merged[name] = without_none(_overlay_section(item, change))
        else:
            merged[name] = change
    return list(merged.values())


def plain(value: Any) -> Any:
    """A value from Python code as a file would have it.

    Numbers and arrays of numpy become Python's, paths become texts, and objects in the place of
    import paths become theirs. None stays: it takes a setting away.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    if is_dataclass(value) and _is_settings(value):
        return table_of(value)
    if isinstance(value, Path):
        return str(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    return given_path(value)


def without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table without settings that are None, which have their defaults again."""
    return {
        key: without_none(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }


MAKERS = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
)
"""What is called to make something; anything else is copied for every run."""


def given_path(thing: Any, name: str | None = None) -> str:
    """The path under which an object of Python code stands in a scenario or names a policy.

    A class or function that another process can import is named by its import path, so that a run
    with it resumes like any other. Everything else is `python:Name` and is only there where Python
    code gives it: what other processes need they get from this one, and nothing is read from files.
    """
    if isinstance(thing, str):
        return thing
    found = import_path(thing)
    if found is not None and name is None:
        return found
    return GivenPath(name or _name_of(thing), Offer(thing, _maker(thing)))


def import_path(thing: Any) -> str | None:
    """The import path of a class or function; None if another process could not import it."""
    if not isinstance(thing, type | types.FunctionType):
        return None
    name = thing.__qualname__
    if not name.isidentifier():
        return None
    module = sys.modules.get(thing.__module__)
    file = getattr(module, "__file__", None)
    if file is None or getattr(module, name, None) is not thing:
        return None
    first, *rest = thing.__module__.split(".")
    spec = None if first in ("__main__", PYTHON) else PathFinder.find_spec(first)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent if rest else None
    places = (
        [Path(spec.origin)]
        if folder is None
        else [folder.joinpath(*rest).with_suffix(".py"), folder.joinpath(*rest, "__init__.py")]
    )
    if Path(file).resolve() not in [place.resolve() for place in places]:
        return None
    return f"{thing.__module__}:{name}"


def _is_settings(value: Any) -> bool:
    """Whether a dataclass is one of settings."""
    return type(value).__module__.startswith(("fedrt.scenario.", "fedrt.learning.", "fedrt.world."))


def _name_of(thing: Any) -> str:
    """A short name for an object, fit for a path."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    own = thing if isinstance(thing, MAKERS) else type(thing)
    name = str(getattr(own, "__name__", ""))
    return name if name.isidentifier() else "function"


def _maker(thing: Any) -> Any:
    """A function that makes what the object stands for.

    What is no maker is copied, so that no run changes another's.
    """
    return functools.partial(_made if isinstance(thing, MAKERS) else _copied, thing)


def _made(thing: Any, *given: Any, **options: Any) -> Any:
    """What a class or function makes; one that takes none of the arguments is given none."""
    if given and not _takes(thing, given, options) and _takes(thing, (), options):
        return thing(**options)
    return thing(*given, **options)


def _copied(thing: Any, *given: Any, **options: Any) -> Any:
    return deepcopy(thing)


def _takes(thing: Any, given: tuple[Any, ...], options: dict[str, Any]) -> bool:
    try:
        inspect.signature(thing).bind(*given, **options)
    except TypeError:
        return False
    except ValueError:  # it has no signature: let it be called
        return True
    return True
