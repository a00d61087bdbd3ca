"""What a caller asks for, read and checked: policies, seeds, settings, options, data and models.

The command line gives what was typed, Python code its own values and objects; both get the same
messages, in which a parameter stands in backticks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from fedrt.api.data import Data, data_path
from fedrt.api.folders import Place
from fedrt.callbacks.loggers import check_loggers
from fedrt.errors import InputError
from fedrt.measures import target_rule
from fedrt.policies import POLICIES, Policy
from fedrt.policies.spec import read_spec
from fedrt.quantities import SEED
from fedrt.records.options import CHUNK, PATH, WORKERS, RunOptions
from fedrt.runs.stopping import read_stop_at
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.load import Source
from fedrt.scenario.model import Learning
from fedrt.scenario.tables.fields import table_of
from fedrt.scenario.tables.layers import given_path, plain
from fedrt.scenario.tables.toml_text import toml_text
from fedrt.studies.sweep import split_words
from fedrt.system.plugins import GivenPath, Offer
from fedrt.validation import Maybe, Text, Whole, problem, shown

ALL = "all"
"""The policies of everything that compares some, unless others are given: all shipped ones."""

PolicyLike = str | Policy | type[Policy] | Any
Policies = str | Iterable[PolicyLike]
Seeds = int | str | Iterable[int]
Settings = Mapping[str, Any] | Sequence[str]

Offers = dict[str, Offer]


@dataclass
class Objects:
    """The objects of Python code that a call was given, by their paths."""

    found: Offers = field(default_factory=dict)

    def add(self, path: str) -> str:
        """The plain text of a path; its object is found from now on."""
        if isinstance(path, GivenPath):
            self.found[str(path)] = path.offer
        return path

    def add_all(self, scenario: Scenario) -> None:
        """Add the objects in a scenario; an error if two of them have one name."""
        for path in _given_paths(table_of(scenario)):
            self.add_alone(path)

    def add_alone(self, path: GivenPath) -> None:
        """Add an object by its path; an error if another object has the same."""
        known = self.found.get(path)
        if known is not None and known.thing is not path.offer.thing:
            name = path.partition(":")[2]
            raise InputError(f"scenario: two different objects are named {name}: rename one")
        self.add(path)

    def name(self, thing: Any) -> str:
        """The path of an object among others, which may have the same name."""
        path, number = given_path(thing), 1
        own = path.partition(":")[2]
        while isinstance(path, GivenPath) and (
            path in self.found and self.found[path].thing is not thing
        ):
            number += 1
            path = given_path(thing, f"{own}_{number}")
        return self.add(path)


def _given_paths(table: Any) -> Iterator[GivenPath]:
    if isinstance(table, GivenPath):
        yield table
    elif isinstance(table, Mapping):
        for value in table.values():
            yield from _given_paths(value)


def read_policy(given: PolicyLike, objects: Objects) -> str:
    """The text that names one policy."""
    if isinstance(given, str):
        return given
    shipped = [name for name, made in POLICIES.items() if made is given]
    return shipped[0] if shipped else objects.name(given)


def read_policies(given: Policies, objects: Objects) -> list[str]:
    """The texts that name policies; `all` means the shipped ones."""
    if isinstance(given, str) and given == ALL:
        return list(POLICIES)
    if isinstance(given, str):
        specs = [read_spec(word).text for word in split_words(given)]
        return check_list(specs, given, "policies")
    several: Any = given
    each = list(several) if isinstance(several, Iterable) else [several]
    if not each:
        raise InputError("`policies`: must name at least one")
    texts = [read_policy(one, objects) for one in each]
    specs = [read_spec(text).text for text in texts]
    return check_list(specs, ",".join(texts), "policies")


def read_seeds(given: Seeds) -> list[int]:
    """The seeds of a number, a range, a list, or a comma-separated text."""
    if isinstance(given, str):
        words = [word.strip() for word in given.split(",")]
        return [read_seed(word, "seeds") for word in check_list(words, given, "seeds")]
    numbers = [given] if not isinstance(given, Iterable) else list(given)
    if not numbers:
        raise InputError("`seeds`: must be at least one")
    seeds = [read_seed(number, "seeds") for number in numbers]
    check_list([str(seed) for seed in seeds], ",".join(map(str, seeds)), "seeds")
    return seeds


def read_seed(given: object, name: str = "seed") -> int:
    """One seed, as a number or as typed."""
    value = _number(given)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= SEED.most:
        raise InputError(f"`{name}` {shown(value)}: must be a whole number >= 0")
    return value


def check_list(words: list[str], text: str, name: str) -> list[str]:
    """The words of a list, checked for repetitions; `text` is what was given."""
    if not all(words):
        raise InputError(f"`{name}` {shown(text)}: must be a comma-separated list without gaps")
    twice = [word for word in words if words.count(word) > 1]
    if twice:
        raise InputError(f"`{name}` {shown(text)}: must name {twice[0]} only once")
    return words


def read_settings(given: Settings, objects: Objects) -> list[str]:
    """Settings as texts like `section.key=value`, from these or from a table of them.

    Objects in a table are added to `objects`; their paths stand in the texts.
    """
    if not isinstance(given, Mapping):
        return [given] if isinstance(given, str) else list(given)
    for path in _given_paths(plain(given)):
        objects.add_alone(path)
    return [f"{key}={value_text(value)}" for key, value in given.items()]


def load_with(source: Source, settings: Settings, objects: Objects) -> Scenario:
    """A scenario with settings applied, which holds the objects that stand in their table."""
    scenario = load_scenario(source, read_settings(settings, objects))
    for key, value in settings.items() if isinstance(settings, Mapping) else ():
        value = plain(value)
        if any(True for _ in _given_paths({key: value})):
            for name in reversed(key.split(".")):
                value = {name: value}
            scenario = scenario.with_(**value)
    return scenario


def value_text(value: Any) -> str:
    """A value as it is typed after `KEY=`."""
    value = plain(value)
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_quoted(item)}" for key, item in value.items())
        return f"{{{inner}}}"
    return toml_text({"value": value}).partition("=")[2].strip()


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return toml_text({"value": value}).partition("=")[2].strip()
    return value_text(value)


def read_scenario_asked(
    source: Source | None,
    objects: Objects,
    settings: Settings = (),
    *,
    model: Any = None,
    data: Data | None = None,
    rounds: int | None = None,
) -> Scenario:
    """The scenario that is asked for, with the model, data and rounds that were given."""
    scenario = load_with(source or "quickstart", settings, objects)
    changed: dict[str, Any] = {}
    if model is not None:
        changed.setdefault("learning", {})["model"] = model
    if data is not None:
        changed.setdefault("learning", {})["dataset"] = data_path(data)
    if rounds is not None:
        changed["rounds"] = {"global_rounds": rounds}
    if changed:
        scenario = scenario.with_(**changed)
    objects.add_all(scenario)
    return scenario


class TrainingOptions(TypedDict, total=False):
    """How training is carried out; what is not given, or None, has its default."""

    engine: str | None
    """`stacked` (the default), `sequential` or `ray`."""
    device: Any
    """`cpu`, `cuda`, ...; the default is a GPU if there is one."""
    chunk: int | None
    """Devices trained at a time; the default is measured."""
    workers: int | None
    """Processes that train, on a CPU; the default is as many as pay."""
    data_dir: Place | None
    """The folder of data sets; the default is FEDRT_DATA."""
    targets: Any
    """Accuracies (0 to 1) of which the summary says when they were reached."""
    checkpoint_every: int | None
    """Global rounds between checkpoints; the default is 1."""
    keep_checkpoints: int | None
    """The number of checkpoints to keep; the default is 2."""
    tensorboard: bool | None
    """Whether to log for TensorBoard too."""
    log: str | Sequence[str] | None
    """Loggers that are told of the runs: `tensorboard`, `mlflow`, `wandb`."""
    stop_at: str | Mapping[str, float] | None
    """The measure and value at which a run ends, `accuracy=0.9` or `{"accuracy": 0.9}`."""
    patience: int | None
    """Evaluations in which that measure has not improved, after which a run ends."""
    keep_models: bool | None
    """Whether a comparison keeps the models of its runs; a run by itself always does."""
    address: str | None
    """Of the Ray cluster to train on."""


def read_options(given: Mapping[str, Any], learning: Learning | None = None) -> RunOptions:
    """The options of a run, checked; those not given, or None, have their defaults."""
    asked = {name: value for name, value in given.items() if value is not None}
    unknown = [name for name in asked if name not in OPTIONS]
    if unknown:
        raise TypeError(f"unknown options: {', '.join(unknown)}")
    problems: list[str] = []
    target, count, words = target_rule(learning), Whole(1, 1_000_000), Text()

    def read(name: str, rule: Any, default: Any = None) -> Any:
        if name not in asked:
            return default
        return rule.read(_number(asked[name]), f"`{name}`", problems)

    targets = asked.get("targets", ())
    targets = [targets] if isinstance(targets, str | float | int) else list(targets)
    data_dir = None if "data_dir" not in asked else os.path.abspath(os.fspath(asked["data_dir"]))
    Maybe(PATH).read(data_dir, "`data_dir`", problems)
    options = {
        "engine": words.read(asked.get("engine", "stacked"), "`engine`", problems),
        "device": words.read(str(asked.get("device", "auto")), "`device`", problems),
        "data_dir": data_dir,
        "chunk": read("chunk", CHUNK),
        "workers": read("workers", WORKERS),
        "checkpoint_every": read("checkpoint_every", count, 1),
        "keep_checkpoints": read("keep_checkpoints", count, 2),
        "targets": tuple(target.read(_number(each), "`targets`", problems) for each in targets),
        "tensorboard": bool(asked.get("tensorboard", False)),
        "log": _names(asked.get("log")),
        "stop_at": _stop_text(asked.get("stop_at")),
        "patience": read("patience", count),
        "keep_models": asked.get("keep_models"),
        "address": Maybe(Text(300)).read(asked.get("address"), "`address`", problems),
    }
    if str(options["device"]).partition(":")[0] == "meta":
        problems.append(problem("`device`", options["device"], "a device that can train"))
    if options["address"] is not None and options["engine"] != "ray":
        problems.append("`address`: is for `engine` ray")
    if problems:
        raise InputError(problems)
    return RunOptions(**options)


def _names(given: Any) -> tuple[str, ...] | None:
    """The names of loggers, of one, of several or of none."""
    names = None if given is None else (given,) if isinstance(given, str) else tuple(given)
    check_loggers(names or ())
    return names


def _stop_text(given: Any) -> str | None:
    """The measure and value at which to stop, as typed or in a table of one entry."""
    if isinstance(given, Mapping) and len(given) == 1:
        ((name, value),) = given.items()
        given = f"{name}={value_text(value)}"
    if given is not None:
        read_stop_at(str(given))
    return None if given is None else str(given)


LONGEST = 20
"""Digits of a whole number that is typed."""

OPTIONS = tuple(TrainingOptions.__annotations__)


def _number(given: object) -> object:
    """A number if the text is one, else what was given, which a rule then reports."""
    if not isinstance(given, str):
        return plain(given)
    text = given.strip()
    if text.removeprefix("-").isdecimal() and text.isascii() and len(text) <= LONGEST:
        return int(text)
    try:
        return float(text)
    except ValueError:
        return given


def folder_of(given: str | os.PathLike[str] | Any) -> Path:
    """The folder that a path or a result names."""
    return Path(getattr(given, "folder", given))
