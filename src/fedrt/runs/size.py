"""The least value of a setting that makes a deadline, by search, with the evidence.

A coarse grid over the range comes first, because the time need not fall as the setting grows (more
edge servers mean more bandwidth but also more backhaul). Then the gap below the least grid value
that makes the deadline is halved until it is small. The answer is always a value that ran.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedrt.checks import Either, Real, Whole, hint, shown
from fedrt.errors import FedrtError, InfeasibleError, InputError
from fedrt.files import write_csv, write_json
from fedrt.policies import make_policy
from fedrt.runs.account import Summary
from fedrt.runs.estimate import Progress, comparison, estimate, over_seeds
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.fields import PerDeviceRule
from fedrt.scenario.load import setting_value
from fedrt.scenario.model import Custom
from fedrt.units import readable_time

GRID = 9
TOLERANCE = 1e-3
"""Relative gap at which a real value is found."""
MOST_ZOOMS = 8
"""How often the surroundings of the best value are searched if the grid has none in time."""
SAME_TIME = 1e-6
"""Relative change of the time up to which it counts as unchanged."""


@dataclass(frozen=True)
class Span:
    """The setting to size and the range to search."""

    key: str
    low: float
    high: float
    whole: bool = False

    def grid(self) -> list[float]:
        """Both ends and values between them: geometric steps, even ones if the range has a 0."""
        parts = [i / (GRID - 1) for i in range(1, GRID - 1)]
        if self.low > 0:
            inner = [self.low * (self.high / self.low) ** part for part in parts]
        else:
            inner = [self.low + (self.high - self.low) * part for part in parts]
        if self.whole and self.high - self.low < GRID:
            inner = [self.low + i for i in range(1, int(self.high - self.low))]
        return sorted({self.low, *map(self.tidy, inner), self.high})

    def tidy(self, value: float) -> float:
        """The value as a person would write it: a whole number or six digits, inside the range."""
        near = round(value) if self.whole else float(f"{value:.6g}")
        return min(max(near, self.low), self.high)

    def between(self, below: float, above: float) -> float | None:
        """A value halfway; None where the two are as close as asked for."""
        if self.whole:
            return (below + above) // 2 if above - below > 1 else None
        if self.low > 0:
            ratio = above / below
            return self.tidy(below * math.sqrt(ratio)) if ratio > 1 + TOLERANCE else None
        size = max(abs(below), abs(above), TOLERANCE * (self.high - self.low))
        return self.tidy((below + above) / 2) if above - below > TOLERANCE * size else None


@dataclass(frozen=True)
class Try:
    """One value that was tried: its time on every seed, or why it could not run."""

    value: float
    times_s: tuple[float, ...] = ()
    problem: str | None = None
    runs: tuple[Summary, ...] = ()

    @property
    def worst_s(self) -> float:
        """The time on the slowest seed; infinite if it could not run."""
        return max(self.times_s) if self.problem is None else math.inf


@dataclass(frozen=True)
class Sizing:
    """The evidence in rising order of the value, and the least one that makes the deadline."""

    span: Span
    deadline_s: float
    tries: tuple[Try, ...]
    answer: Try | None

    @property
    def best(self) -> Try:
        """The fastest value tried."""
        return min(self.tries, key=lambda each: each.worst_s)

    @property
    def note(self) -> str | None:
        """What makes the answer less than certain: a time that both falls and grows."""
        ran = [each for each in self.tries if each.problem is None]
        slack = 1 + SAME_TIME
        falls = any(a.worst_s > b.worst_s * slack for a, b in pairwise(ran))
        grows = [(a, b) for a, b in pairwise(ran) if b.worst_s > a.worst_s * slack]
        if not falls or not grows:
            return None
        a, b = grows[0]
        before, after = readable_time(a.worst_s), readable_time(b.worst_s)
        line = (
            f"the time is not monotone in {self.span.key}: it grows from {before} at"
            f" {a.value:.10g} to {after} at {b.value:.10g}"
        )
        if not self._gap_below():
            return line
        return f"{line}; a smaller value that makes the deadline may lie between those tried"

    def _gap_below(self) -> bool:
        """Whether there are values below the answer that were not tried."""
        values = [each.value for each in self.tries]
        if self.answer is not None:
            values = [value for value in values if value <= self.answer.value]
        return any(self.span.between(a, b) is not None for a, b in pairwise(values))


def read_span(texts: Sequence[str]) -> Span:
    """The setting and its range, from one text like `KEY=lo..hi`."""
    if len(texts) != 1:
        raise InputError(f"--vary: must be given once, not {len(texts)} times")
    text = texts[0]
    key, _, ends = text.partition("=")
    words = ends.split("..")
    values = [setting_value(word) for word in words]
    if not all(key.strip().split(".")) or len(words) != 2 or not all(map(_is_number, values)):
        raise InputError(f"--vary {shown(text)}: must be KEY=lo..hi with two numbers")
    if values[0] > values[1]:
        raise InputError(f"--vary {shown(text)}: must have lo <= hi")
    return Span(key.strip(), *values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300


def fit_span(span: Span, source: str | Path, settings: Sequence[str] = ()) -> tuple[Span, Scenario]:
    """The span, whole if its setting is, and a valid scenario to show it with."""
    scenario = _some_valid(span, source, settings)
    rule = _rule_of(scenario, span.key)
    if isinstance(rule, Either):  # a word or a number, and the ends are numbers
        rule = rule.choose(span.high)
    ends_whole = float(span.low).is_integer() and float(span.high).is_integer()
    if isinstance(rule, Whole):
        if not ends_whole:
            text = f"{span.low:.10g}..{span.high:.10g}"
            raise InputError(f"--vary {span.key}={text}: must be two whole numbers")
        return Span(span.key, int(span.low), int(span.high), whole=True), scenario
    if rule is None:
        # An option of a user's own process: nobody knows its rule, so its look decides.
        whole = isinstance(span.low, int) and isinstance(span.high, int)
        return Span(span.key, span.low, span.high, whole=whole), scenario
    if not isinstance(rule, Real | PerDeviceRule):
        raise InputError(f"--vary {span.key}: must be a setting that is a number")
    return Span(span.key, float(span.low), float(span.high)), scenario


def _some_valid(span: Span, source: str | Path, settings: Sequence[str]) -> Scenario:
    """The scenario at one end of the range, or as it is if both ends are out of bounds."""
    at_high, at_low = ([*settings, f"{span.key}={end!r}"] for end in (span.high, span.low))
    for texts in (at_high, at_low, settings):
        with suppress(InputError):
            return load_scenario(source, texts)
    return load_scenario(source, at_high)  # for what it complains about


def _rule_of(scenario: Scenario, key: str) -> object:
    """The rule a setting is read by; None for an option of a user's own process."""
    at: Any = scenario
    names = key.split(".")
    for name in names[:-1]:
        at = getattr(at, name, None)
    if isinstance(at, Custom):
        return None
    known = getattr(at, "__dataclass_fields__", {})
    if names[-1] not in known or isinstance(at, type):
        raise InputError(f"scenario.{key}: unknown field{hint(names[-1], list(known))}")
    return known[names[-1]].metadata["rule"]


def search(span: Span, deadline_s: float, measure: Callable[[float], Try]) -> Sizing:
    """The least value found whose time is within the deadline on every seed."""
    tries = {value: measure(value) for value in span.grid()}

    def in_time() -> list[float]:
        return sorted(v for v, each in tries.items() if each.worst_s <= deadline_s)

    for _ in range(MOST_ZOOMS):
        best = min(tries, key=lambda value: tries[value].worst_s)
        if in_time() or math.isinf(tries[best].worst_s):
            break
        tries |= {value: measure(value) for value in _around(best, span, sorted(tries))}
        if best in (span.low, span.high) and best == min(tries, key=lambda v: tries[v].worst_s):
            break
    while good := in_time():
        smaller = [value for value in tries if value < good[0]]
        middle = span.between(max(smaller), good[0]) if smaller else None
        if middle is None:
            break
        tries[middle] = measure(middle)
    answer = tries[good[0]] if good else None
    return Sizing(span, deadline_s, tuple(tries[value] for value in sorted(tries)), answer)


def _around(value: float, span: Span, tried: Sequence[float]) -> list[float]:
    """New values halfway from one that was tried to its neighbours."""
    gaps = [gap for gap in pairwise(tried) if value in gap]
    return [half for gap in gaps if (half := span.between(*gap)) is not None]


def size(
    source: str | Path,
    span: Span,
    deadline_s: float,
    policy: str,
    seeds: Sequence[int],
    settings: Sequence[str] = (),
    progress: Callable[[str, int], Progress] | None = None,
) -> Sizing:
    """The least value of a setting that makes the deadline; if none does, the best reachable."""
    make_policy(policy)

    def measure(value: float) -> Try:
        try:
            scenario = load_scenario(source, [*settings, f"{span.key}={value!r}"])
            runs = estimate(scenario, [policy], seeds, device_rows=False, progress=progress)
        except (InputError, InfeasibleError) as error:
            return Try(value, problem=error.lines[0])
        times_s = tuple(run["total_time_s"] for run in runs[policy])
        return Try(value, times_s, runs=tuple(runs[policy]))

    found = search(span, deadline_s, measure)
    if found.answer is None:
        raise unreachable(found)
    return found


def unreachable(found: Sizing) -> FedrtError:
    """The error that says how close one can get."""
    span, best = found.span, found.best
    what = f"no {span.key} from {span.low:.10g} to {span.high:.10g}"
    if best.problem is not None:
        return InputError(f"{what} can run: {best.problem}")
    slowest = " on the slowest seed" if len(best.times_s) > 1 else ""
    return InputError(
        f"{what} makes the deadline of {readable_time(found.deadline_s)}: the best reachable is"
        f" {readable_time(best.worst_s)}{slowest}, at {span.key} = {best.value:.10g}"
    )


def size_data(found: Sizing, policy: str, scenario: str) -> dict[str, Any]:
    """The answer in the shape of `comparison`, and the evidence, as plain data for JSON."""
    assert found.answer is not None
    return {
        **comparison(scenario, {policy: found.answer.runs}),
        "key": found.span.key,
        "range": [found.span.low, found.span.high],
        "deadline_s": found.deadline_s,
        "value": found.answer.value,
        "note": found.note,
        "tried": [
            {
                "value": each.value,
                "total_time_s": over_seeds(each.times_s) if each.problem is None else None,
                "makes_deadline": each.worst_s <= found.deadline_s,
                "problem": each.problem,
            }
            for each in found.tries
        ],
    }


def save_size(out: Path, found: Sizing, policy: str, scenario: str, seeds: Sequence[int]) -> None:
    """Write `size.csv` and `size.json` into a folder."""
    rows = []
    for each in found.tries:
        times = each.times_s or ("",) * len(seeds)
        rows.append(
            {found.span.key: each.value, "makes_deadline": each.worst_s <= found.deadline_s}
            | {f"time_s_seed_{seed}": time for seed, time in zip(seeds, times, strict=True)}
            | {"problem": each.problem or ""}
        )
    write_csv(out / "size.csv", rows)
    write_json(out / "size.json", size_data(found, policy, scenario))
