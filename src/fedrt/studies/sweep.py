"""`fedrt sweep`: an estimate for every combination of varied settings, checked before they run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from fedrt.errors import InfeasibleError, InputError
from fedrt.policies import make_policy
from fedrt.policies.spec import with_options
from fedrt.records.history import parts_in
from fedrt.records.summary import Summary
from fedrt.runs.loop import make_world
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.load import Source, setting_value
from fedrt.studies.estimates import Progress, comparison
from fedrt.studies.study import Points, kept_estimate
from fedrt.system.files import write_csv, write_json
from fedrt.validation import shown

MOST_POINTS = 10_000
POLICY = "policy."
"""How the name of a setting begins that is an option of the policies, not of the scenario."""
COLUMNS = (
    "total_time_s",
    "energy_j_mean",
    "energy_j_max",
    "over_budget_devices",
    "over_budget_j",
)

# Setting -> its values, each as a user types it after `KEY=`.
Vary = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Point:
    """One combination of the varied settings, as typed, and the scenario that it gives."""

    settings: dict[str, str]
    scenario: Scenario

    @property
    def policy_options(self) -> dict[str, Any]:
        """The varied options of the policies themselves, such as `policy.alpha`."""
        return {
            key.removeprefix(POLICY): setting_value(word)
            for key, word in self.settings.items()
            if key.startswith(POLICY)
        }

    def policy(self, name: str) -> str:
        """The text of a policy with the options of this point."""
        return with_options(name, self.policy_options) if self.policy_options else name


@dataclass(frozen=True)
class Sweep:
    """The sweep that is going to run; every point is valid."""

    vary: dict[str, tuple[str, ...]]
    points: tuple[Point, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]

    @property
    def rounds(self) -> int:
        """The global rounds of all runs together."""
        runs = len(self.policies) * len(self.seeds)
        return runs * sum(point.scenario.rounds.global_rounds for point in self.points)


@dataclass(frozen=True)
class PointResults:
    """The results at one point; `infeasible` has the policies that strict budgets stopped."""

    point: Point
    results: dict[str, list[Summary]]
    infeasible: dict[str, str]


def read_vary(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The settings to vary, from texts like `KEY=v1,v2,...`; lists in brackets stay whole."""
    vary: dict[str, tuple[str, ...]] = {}
    problems = []
    for text in texts:
        key, _, rest = text.partition("=")
        key, words = key.strip(), split_words(rest)
        twice = _first_repeated([setting_value(word) for word in words])
        if not all(key.split(".")) or not all(words):
            problems.append(f"`vary` {shown(text)}: must be KEY=v1,v2,... without gaps")
        elif key in vary:
            problems.append(f"`vary` {shown(text)}: must give {key} only once")
        elif twice is not None:
            problems.append(f"`vary` {shown(text)}: must name {shown(words[twice])} only once")
        else:
            vary[key] = words
    if problems:
        raise InputError(problems)
    return vary


def split_words(text: str) -> tuple[str, ...]:
    """The parts of a text between commas that are not in brackets, parentheses or quotes."""
    words, depth, quote, start = [], 0, "", 0
    for i, char in enumerate(text):
        if quote:
            escaped = quote == '"' and text[i - 1] == "\\"
            quote = quote if char != quote or escaped else ""
        elif char in "\"'" and (depth or not text[start:i].strip()):
            quote = char
        elif char in "[{(":
            depth += 1
        elif char in "]})":
            depth = max(0, depth - 1)
        elif char == "," and not depth:
            words.append(text[start:i].strip())
            start = i + 1
    return (*words, text[start:].strip())


def _first_repeated(values: Sequence[Any]) -> int | None:
    """The place of the first repeated value; true is not equal to 1, but 1.0 is."""
    kinds = [(isinstance(value, bool), value) for value in values]
    return next((i for i, kind in enumerate(kinds) if kind in kinds[:i]), None)


def plan_sweep(
    source: Source,
    vary: Vary,
    policies: Sequence[str],
    seeds: Sequence[int],
    settings: Sequence[str] = (),
) -> Sweep:
    """The sweep over all combinations of the varied settings; all problems are reported at once."""
    if not any(key.startswith(POLICY) for key in vary):
        for name in policies:
            make_policy(name)
    count = math.prod(len(words) for words in vary.values())
    if count > MOST_POINTS:
        raise InputError(f"`vary`: {count} combinations, must be at most {MOST_POINTS}")
    points, problems = [], dict[str, None]()
    for words in product(*vary.values()):
        chosen = dict(zip(vary, words, strict=True))
        try:
            point = Point(chosen, check_point(source, settings, chosen, seeds[0]))
            for name in policies if point.policy_options else ():
                make_policy(point.policy(name))
            points.append(point)
        except InputError as error:
            problems |= dict.fromkeys(error.lines)
    if problems:
        raise InputError(problems)
    whole = {key: tuple(words) for key, words in vary.items()}
    return Sweep(whole, tuple(points), tuple(policies), tuple(seeds))


def check_point(
    source: Source, settings: Sequence[str], chosen: Mapping[str, str], seed: int
) -> Scenario:
    """The scenario of one point, after checking that its world can be made."""
    texts = [f"{key}={word}" for key, word in chosen.items() if not key.startswith(POLICY)]
    scenario = load_scenario(source, [*settings, *texts])
    make_world(scenario, seed)
    return scenario


def run_sweep(
    sweep: Sweep,
    save: Callable[[Sequence[PointResults]], None] | None = None,
    progress: Callable[[str, int], Progress] | None = None,
    kept: Points | None = None,
) -> list[PointResults]:
    """Run every point; `save` gets the results so far even if the sweep is interrupted.

    Every estimate goes to `kept` as soon as it has ended, and is not made again if it is there.
    """
    outcomes: list[PointResults] = []
    try:
        for point in sweep.points:
            outcomes.append(run_point(point, sweep, progress, kept))
    finally:
        if save is not None and any(outcome.results for outcome in outcomes):
            save(outcomes)
    if not any(outcome.results for outcome in outcomes):
        lines = [line for outcome in outcomes for line in outcome.infeasible.values()]
        raise InfeasibleError(dict.fromkeys(lines))
    return outcomes


def run_point(
    point: Point,
    sweep: Sweep,
    progress: Callable[[str, int], Progress] | None = None,
    kept: Points | None = None,
) -> PointResults:
    """Run every policy on every seed at one point."""
    results: dict[str, list[Summary]] = {}
    infeasible: dict[str, str] = {}
    for name in sweep.policies:
        try:
            policy = point.policy(name)
            results[name] = kept_estimate(point.scenario, policy, sweep.seeds, kept, progress)
        except InfeasibleError as error:
            infeasible[name] = error.lines[0]
    return PointResults(point, results, infeasible)


def sweep_data(sweep: Sweep, outcomes: Sequence[PointResults]) -> dict[str, Any]:
    """The sweep as JSON data, every point in the form of `comparison`."""
    return {
        "scenario": sweep.points[0].scenario.name,
        "vary": {key: [plain_value(word) for word in words] for key, words in sweep.vary.items()},
        "points": [
            {
                "settings": {k: plain_value(word) for k, word in outcome.point.settings.items()},
                "policies": comparison("", outcome.results)["policies"],
                "infeasible": outcome.infeasible,
            }
            for outcome in outcomes
        ],
    }


def plain_value(word: str) -> Any:
    """The value that a word stands for, if JSON can hold it; else the word."""
    value = setting_value(word)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return word
    return value


def sweep_rows(outcomes: Sequence[PointResults]) -> Iterator[dict[str, Any]]:
    """One flat row for each point, policy and seed, or with the reason why it could not run."""
    for outcome in outcomes:
        for policy, runs in outcome.results.items():
            for run in runs:
                row = {"policy": policy, "seed": run["seed"]}
                row |= {name: run[name] for name in COLUMNS}
                parts = run["time_parts"]
                row |= {name: parts[name] for name in parts_in(parts)}
                yield outcome.point.settings | row
        for policy, why in outcome.infeasible.items():
            yield outcome.point.settings | {"policy": policy, "infeasible": why}


def save_sweep(out: Path, sweep: Sweep, outcomes: Sequence[PointResults]) -> None:
    """Write `sweep.csv` and `sweep.json` into a folder."""
    write_csv(out / "sweep.csv", list(sweep_rows(outcomes)))
    write_json(out / "sweep.json", sweep_data(sweep, outcomes))
