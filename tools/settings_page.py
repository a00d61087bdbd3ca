"""The tables of docs/settings.md: every setting of a scenario, from the dataclasses that read it.

The block `settings` of `figure_blocks.py`: `make figures` writes it, a test holds it equal. What a
setting means is the text below its field in the source; one without such a text is an error.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any

from fedrt.scenario import Scenario
from fedrt.scenario.classes import ClassesRule, ClassName, DeviceClass, FleetSection
from fedrt.scenario.tables.fields import EntryRule, Kinds, PerDeviceRule, Section
from fedrt.validation import Either, Flag, Listed, OneOf, Real, Text, Whole

PROBES: tuple[object, ...] = ("word", 1.0, [1.0], True, {})
"""One value of every kind, to see which rules an `Either` chooses."""
MORE = {
    "fleet": "[Fleets of one's own](fleets.md) has examples.",
    "fleet.classes": (
        "[Fleets of one's own](fleets.md) says which device is of which class. A class may also "
        "have every setting of `[fleet]` that is given per device; it replaces the fleet's."
    ),
    "fleet.cpu_table": "See [the cost model](cost-model.md).",
    "channel": "See [rate laws](cost-model.md#rate), and [traces](scenarios.md#traces) for files.",
    "bandwidth": "See [resource blocks](cost-model.md#resource-blocks).",
    "base_graph": (
        "An Erdos-Renyi graph is drawn again until it is connected; after 1,000 draws its "
        "connected components are joined by random links, and the run's summary says so."
    ),
    "learning": "See [training](training.md), [codecs](codecs.md) and [gossip](gossip.md).",
    "faults": "See [faults](faults.md).",
    "downlink": "See [the cost model](cost-model.md#downlink).",
    "overheads": "See [the cost model](cost-model.md#overheads).",
    "control": "See [fedrt-plus](fedrt-plus.md) and [fedrt-joint](joint.md).",
}
"""What is added to the text of a section."""


def settings() -> str:
    """All sections, each with a table of its settings and those of the tables inside it."""
    parts = [_table([_row(f.name, f, Scenario) for f in _settings_of(Scenario) if not _nested(f)])]
    for field in _settings_of(Scenario):
        if nested := _nested(field):
            parts += _section(field, nested)
    return "\n".join(parts)


def _section(section: Field[Any], classes: Sequence[type]) -> Iterator[str]:
    """The text of one section: its own settings, by kind where there are kinds."""
    name, rule = section.name, section.metadata["rule"]
    yield f"## `[{name}]`\n"
    about = [_meaning(Scenario, section)]
    if section.default is None:
        about.insert(0, _about(classes[0]))
    elif section.default is not MISSING:
        about.append("The section may be left out.")
    yield _joined(*about, MORE.get(name, "")) + "\n"
    if isinstance(rule, Kinds):
        yield from _kinds(name, classes, 3, own=rule.custom is not None)
        return
    (cls,) = classes
    found = _settings_of(cls)
    yield _table([_row(field.name, field, cls) for field in found])
    inside: dict[int, list[Field[Any]]] = {}
    for field in found:
        if _nested(field):
            inside.setdefault(id(field.metadata["rule"]), []).append(field)
    for same in inside.values():
        yield from _inside(name, same)


def _inside(section: str, same: list[Field[Any]]) -> Iterator[str]:
    """The tables that one or several settings of a section may be."""
    names = [f"{section}.{field.name}" for field in same]
    yield f"### {', '.join(f'`{name}`' for name in names)}\n"
    rule, classes = same[0].metadata["rule"], _nested(same[0])
    if len(classes) == 1 and not hasattr(classes[0], "kind"):
        yield _joined(_about(classes[0]), MORE.get(names[0], "")) + "\n"
        yield _table([_row(field.name, field, classes[0]) for field in _settings_of(classes[0])])
    else:
        custom = getattr(rule, "custom", None)
        yield from _kinds(names[0], classes, 4, own=custom is not None)


def _kinds(name: str, classes: Sequence[type], level: int, *, own: bool) -> Iterator[str]:
    """A table for each kind; settings that all kinds have alike are shown once."""
    every = [{f.name: _row(f.name, f, cls) for f in _settings_of(cls)} for cls in classes]
    alike = [row for n, row in every[0].items() if all(each.get(n) == row for each in every)]
    shared = alike if len(classes) > 1 else []
    for cls, each in zip(classes, every, strict=True):
        rows = [row for row in each.values() if row not in shared]
        yield f'{"#" * level} `{name}`: `kind = "{cls.kind}"`\n'  # type: ignore[attr-defined]
        yield _about(cls) + "\n"
        if rows:
            yield _table(rows)
    if shared:
        yield f"{'#' * level} `{name}`: every kind\n"
        yield _table(shared)
    if own:
        yield (
            "A `kind` of the form `package.module:Name` is your own class "
            "([extending](extending.md)).\n"
        )


def _settings_of(cls: type) -> list[Field[Any]]:
    return [field for field in fields(cls) if "rule" in field.metadata]


def _nested(field: Field[Any]) -> tuple[type, ...]:
    """The dataclasses that a setting's own table may become."""
    return _classes_of(field.metadata["rule"])


def _classes_of(rule: Any) -> tuple[type, ...]:
    if isinstance(rule, Section | FleetSection):
        return (rule.cls,)
    if isinstance(rule, Kinds):
        return rule.classes
    if isinstance(rule, EntryRule):
        return rule.options
    if isinstance(rule, ClassesRule):
        return (DeviceClass,)
    if isinstance(rule, Listed):
        return _classes_of(rule.item)
    if isinstance(rule, Either):
        return tuple(cls for each in _choices(rule) for cls in _classes_of(each))
    return ()


def _table(rows: Sequence[str]) -> str:
    return "\n".join(["| setting | value | default | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _row(name: str, field: Field[Any], cls: type) -> str:
    values = words_of(field.metadata["rule"])
    each = "per_device" in field.metadata and not any("per device" in word for word in values)
    value = ("per device: " if each else "") + _listed(values)
    cells = (f"`{name}`", value, _default(field), _meaning(cls, field))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def words_of(rule: Any) -> list[str]:
    """What a rule accepts, in the words of the page, one for each alternative."""
    match rule:
        case Real():
            ends = [(">", rule.above), (">=", rule.least), ("<=", rule.most)]
            limits = [f"`{sign} {_short(end)}`" for sign, end in ends if end is not None]
            return [f"number {' and '.join(limits)}".strip()]
        case Whole(least, most):
            return [f"`{least}`" if least == most else f"whole number, `{least:,}` to `{most:,}`"]
        case Text():
            return ["text"]
        case Flag():
            return ["`true`", "`false`"]
        case OneOf():
            return [f'`"{word}"`' for word in rule.words]
        case Listed(item=Listed() as pair):
            return [f"list of lists of {pair.least}: {_listed(words_of(pair.item))}"]
        case Listed():
            return [f"list: {_listed(words_of(rule.item))}"]
        case PerDeviceRule():
            return [f"per device: {_listed(words_of(rule.rule))}"]
        case EntryRule():
            return [*(f'`"{name}"`' for name in rule.entries), "an import path"]
        case Kinds():
            own = ["an import path"] if rule.custom is not None else []
            kinds = [f'`"{cls.kind}"`' for cls in rule.classes]  # type: ignore[attr-defined]
            return [f"table with `kind` = {_listed([*kinds, *own])}"]
        case Section() | FleetSection():
            return ["table"]
        case ClassesRule():
            return ["list of tables"]
        case ClassName():
            return ["letters, digits, `-` and `_`"]
        case Either():
            return [word for each in _choices(rule) for word in words_of(each)]
    raise SystemExit(f"{rule}: no words for this kind of rule")


def _short(number: float) -> str:
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{number:g}")


def _choices(rule: Either) -> list[Any]:
    """The rules that an `Either` chooses from, each once."""
    found: list[Any] = []
    for value in PROBES:
        if (chosen := rule.choose(value)) not in found:
            found.append(chosen)
    return found


def _default(field: Field[Any]) -> str:
    if field.default is MISSING:
        return "must be given"
    if field.default is None:
        needed = field.metadata.get("per_device") == "needed"
        return "must be given" if needed else ""
    if is_dataclass(field.default):
        return f'`{{ kind = "{field.default.kind}" }}`'
    return f"`{json.dumps(field.default)}`"


def _meaning(cls: type, field: Field[Any]) -> str:
    for base in cls.__mro__:
        if text := _texts_below(base).get(field.name):
            return _linked(text)
    raise SystemExit(f"{cls.__module__}.{cls.__name__}.{field.name}: no text below the field")


@cache
def _texts_below(cls: type) -> dict[str, str]:
    """The text that stands below each field in the source of a class."""
    if not is_dataclass(cls):
        return {}
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for field, after in zip(node.body, node.body[1:], strict=False):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def _about(cls: type) -> str:
    return _linked(" ".join((inspect.getdoc(cls) or "").split()))


def _linked(text: str) -> str:
    """The text with links to the pages that it names."""
    return re.sub(r"docs/([\w-]+)\.md", r"[\1](\1.md)", text)


def _joined(*texts: str) -> str:
    return " ".join(text for text in texts if text)


def _listed(items: Sequence[str]) -> str:
    """The items with commas, the last with an or."""
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])} or {items[-1]}"
