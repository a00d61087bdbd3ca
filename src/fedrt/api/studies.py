"""`fedrt.sweep`, `fedrt.size`, `fedrt.front` and `fedrt.bound`: studies without training.

What was asked for is kept as texts, as the command line takes them, so that a study resumes from
its folder whoever started it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrt.api.asked import (
    Objects,
    Policies,
    Seeds,
    folder_of,
    read_policies,
    read_seeds,
    read_settings,
    value_text,
)
from fedrt.api.folders import Place, again, in_folder, refuse_given
from fedrt.api.session import command_text, note
from fedrt.errors import InputError
from fedrt.scenario import Scenario
from fedrt.scenario.load import Source, base_text
from fedrt.scenario.sizes import size_notes
from fedrt.studies.study import (
    BASE,
    Points,
    check_same,
    make_study,
    opened_points,
    read_study,
    same_study,
)
from fedrt.validation import shown

Vary = Mapping[str, Any] | Sequence[str] | str

MOST_NOTES = 3
"""Notes about points of a study; more of them say the same."""
TEXT = ""
"""Like any text that can be asked for (`requested`)."""


@dataclass(frozen=True)
class StudyFolder:
    """A study that is running: its folder, its results so far, and whether it is new."""

    out: Path
    points: Points
    fresh: bool


@dataclass
class Request:
    """What a study is asked for, as texts, from its caller or from the folder to resume."""

    kind: str
    source: Source
    settings: list[str]
    asked: dict[str, Any]
    out: Place | None = None
    overwrite: bool = False
    resume: Path | None = None

    @contextmanager
    def opened(
        self,
        scenarios: Sequence[Scenario],
        policies: Sequence[str],
        said: Mapping[str, Any],
        name: str | None = None,
    ) -> Iterator[StudyFolder]:
        """The folder of a new or resumed study, locked for this process.

        If the block is interrupted, a message says how to resume. `name` is what the folder is
        called after, by default the scenario.
        """
        asked = {"kind": self.kind, **self.asked}
        same, scenario = same_study(asked, scenarios, policies), scenarios[0]
        lines = dict.fromkeys(line for each in scenarios for line in size_notes(each.learning))
        for line in [*lines][:MOST_NOTES]:
            note(f"note: {line}")
        if self.resume is None:
            base = base_text(self.source, self.settings)
            about = {**said, "command": command_text(self.kind)}

            def make(path: Path) -> Path:
                return make_study(path, scenario, about, asked, base, same)

            out = in_folder(self.kind, name or scenario.name, make, self.out, self.overwrite)
        else:
            out = self.resume
            check_same(out, same)
        with opened_points(out) as points:
            try:
                yield StudyFolder(out, points, self.resume is None)
            except KeyboardInterrupt:
                note(f"stopped; go on with: {again(self.kind, out)}")
                raise


def requested(
    kind: str,
    source: Source,
    asked: dict[str, Any],
    given: Mapping[str, Any],
    like: Mapping[str, Any],
    objects: Objects,
    resume: Place | None,
) -> Request:
    """What is asked for, or what the folder to resume says, beside which nothing may be given.

    `given` is what the caller gave, `like` has something like each thing that is asked for.
    """
    if resume is None:
        settings = read_settings(given["settings"], objects)
        return Request(kind, source, settings, asked, given["out"], given["overwrite"])
    told = _without_objects(given, objects)
    names = [name for name, value in told.items() if value not in (None, (), [], "", False)]
    refuse_given("resume", "everything from its folder", names)
    path = folder_of(resume)
    asked = read_study(path, kind, list(like))
    for name, value in asked.items():
        if not _fits(value, like[name]):
            where = f"{path / 'run.json'}: study.{name}"
            raise InputError(f"{where} = {shown(value)}: is nothing that could be asked for")
    return Request(kind, path / BASE, [], asked, resume=path)


def _fits(value: Any, like: Any) -> bool:
    """Whether something from a file is like what could have been asked for.

    A tuple has several such things; those in a set are the only values.
    """
    if isinstance(like, tuple):
        return any(_fits(value, each) for each in like)
    return value in like if isinstance(like, set) else type(value) is type(like)


def source_of(scenario: Source | None, objects: Objects, *others: Any) -> Source:
    """The scenario of a study, whose objects are added to `objects`.

    An error if neither it nor what brings one is given.
    """
    if scenario is None and all(other is None for other in others):
        raise InputError("`scenario`: give a shipped one's name, a TOML file or a value")
    if isinstance(scenario, Scenario):
        objects.add_all(scenario)
    return scenario or ""


def _without_objects(given: Mapping[str, Any], objects: Objects) -> dict[str, Any]:
    """What was given, without what brings objects again to a study that resumes."""
    if not objects.found:
        return dict(given)
    return {
        name: value
        for name, value in given.items()
        if name not in ("policy", "policies") and not isinstance(value, Scenario)
    }


def vary_texts(vary: Vary) -> list[str]:
    """The settings to vary as texts, `KEY=v1,v2,...` or `KEY=lo..hi`, from these or from a table.

    In a table a list has the values, and a text is taken as typed.
    """
    if isinstance(vary, str):
        return [vary]
    if not isinstance(vary, Mapping):
        return list(vary)
    return [f"{key}={_values_text(values)}" for key, values in vary.items()]


def _values_text(values: Any) -> str:
    if isinstance(values, str):
        return values
    return ",".join(value_text(value) for value in values)


def policies_text(policies: Policies | None, objects: Objects, default: str = "all") -> str:
    """Policies as one text, with commas between them."""
    if policies is None or isinstance(policies, str):
        return policies or default
    return ",".join(read_policies(policies, objects))


def seeds_text(seeds: Seeds | None) -> str:
    """Seeds as one text, with commas between them."""
    if seeds is None or isinstance(seeds, str):
        return seeds or "0"
    return ",".join(map(str, read_seeds(seeds)))
