"""`fedrt size`: the least or greatest value of a setting that meets a deadline and the budgets.

A coarse grid over the range comes first, because the time need not fall as the setting grows (more
edge servers mean more bandwidth but also more backhaul). It also shows the direction: where the low
end of the range is the fastest of the grid, more is worse and the greatest value is searched,
otherwise the least. Then the gap beside the outermost grid value that will do is halved until it is
small, as if the time were monotone inside that gap. The answer is always a value that ran.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from fedrt.errors import InfeasibleError, InputError
from fedrt.policies import make_policy
from fedrt.policies.spec import with_options
from fedrt.records.summary import Summary
from fedrt.scenario import load_scenario
from fedrt.scenario.load import Source
from fedrt.studies.estimates import Progress
from fedrt.studies.span import Span
from fedrt.studies.study import Points, kept_estimate
from fedrt.studies.sweep import POLICY
from fedrt.units import readable_time

MOST_ZOOMS = 8
"""How often the surroundings of the best value are searched if the grid has none that will do."""
SAME_TIME = 1e-6
"""Relative change of the time up to which it counts as unchanged."""
WIGGLE = 0.01
"""By how much some value may undercut the low end of a range in which more is worse."""

Wanted = Literal["least", "greatest"]


@dataclass(frozen=True)
class Try:
    """One value that was tried: its time on every seed, or why it could not run."""

    value: float
    times_s: tuple[float, ...] = ()
    problem: str | None = None
    runs: tuple[Summary, ...] = ()

    @property
    def worst_s(self) -> float:
        """The time on the slowest seed; infinite if the value could not run."""
        return max(self.times_s) if self.problem is None else math.inf

    @property
    def over_devices(self) -> int:
        """The number of devices over budget, on the seed with the most."""
        return max((run["over_budget_devices"] for run in self.runs), default=0)

    @property
    def over_j(self) -> float:
        """The joules that all devices together spent over budget, on the seed with the most."""
        return max((run["over_budget_j"] for run in self.runs), default=0.0)


@dataclass(frozen=True)
class Sizing:
    """All values that were tried, in rising order, and the answer."""

    span: Span
    deadline_s: float
    tries: tuple[Try, ...]
    answer: Try | None
    wanted: Wanted = "least"
    overspend: bool = False
    """Whether a value with devices over budget may be the answer."""

    @property
    def best(self) -> Try:
        """The fastest value that was tried."""
        return min(self.tries, key=lambda each: each.worst_s)

    def in_time(self, tried: Try) -> bool:
        """Whether a value meets the deadline on every seed."""
        return tried.worst_s <= self.deadline_s

    def will_do(self, tried: Try) -> bool:
        """Whether a value meets the deadline and, if required, keeps every budget."""
        return self.in_time(tried) and (self.overspend or not tried.over_devices)

    @property
    def note(self) -> str | None:
        """A note if the answer is uncertain because the time both falls and rises."""
        ran = [each for each in self.tries if each.problem is None]
        falls = [(a, b) for a, b in pairwise(ran) if _slower(a, b)]
        grows = [(a, b) for a, b in pairwise(ran) if _slower(b, a)]
        if not falls or not grows:
            return None
        (a, b), verb = (grows[0], "grows") if self.wanted == "least" else (falls[0], "falls")
        before, after = readable_time(a.worst_s), readable_time(b.worst_s)
        line = (
            f"the time is not monotone in {self.span.key}: it {verb} from {before} at"
            f" {a.value:.10g} to {after} at {b.value:.10g}"
        )
        if not self._gap_beyond():
            return line
        other = "smaller" if self.wanted == "least" else "greater"
        return f"{line}; a {other} value that makes the deadline may lie between those tried"

    def _gap_beyond(self) -> bool:
        """Whether there are untried values further out than the answer."""
        values = [each.value for each in self.tries]
        if self.answer is not None:
            answer, least = self.answer.value, self.wanted == "least"
            values = [v for v in values if (v <= answer if least else v >= answer)]
        return any(self.span.between(a, b) is not None for a, b in pairwise(values))


def _slower(a: Try, b: Try, slack: float = SAME_TIME) -> bool:
    return a.worst_s > b.worst_s + slack * abs(b.worst_s)


def which(tries: Sequence[Try]) -> Wanted:
    """Whether to search for the least or the greatest value, judged by those tried first.

    That is where the high end is slower than the low end and no value is faster than the low end;
    where the time stays the same, where the high end overspends more.
    """
    ran = [each for each in tries if each.problem is None]
    if len(ran) < 2:
        return "least"
    low, high, fastest = ran[0], ran[-1], min(ran, key=lambda each: each.worst_s)
    if _slower(high, low):
        return "least" if _slower(low, fastest, WIGGLE) else "greatest"
    same = not _slower(low, high)
    return "greatest" if same and high.over_j > low.over_j else "least"


def search(
    span: Span,
    deadline_s: float,
    measure: Callable[[float], Try],
    wanted: Wanted | None = None,
    *,
    overspend: bool = False,
) -> Sizing:
    """Search for the outermost value that meets the deadline and the budgets on every seed."""
    tries = {value: measure(value) for value in span.grid()}
    wanted = wanted or which([tries[value] for value in sorted(tries)])

    def so_far(answer: Try | None = None) -> Sizing:
        rising = tuple(tries[value] for value in sorted(tries))
        return Sizing(span, deadline_s, rising, answer, wanted, overspend)

    def good() -> list[float]:
        """The values that will do, the outermost first."""
        values = [value for value, each in tries.items() if so_far().will_do(each)]
        return sorted(values, reverse=wanted == "greatest")

    for _ in range(MOST_ZOOMS):
        best = _nearest(tries, overspend)
        if good() or tries[best].problem is not None:
            break
        tries |= {value: measure(value) for value in _around(best, span, sorted(tries))}
        hopeless = not any(each.worst_s <= deadline_s for each in tries.values())
        if hopeless and best in (span.low, span.high) and best == _nearest(tries, overspend):
            break
    while found := good():
        further = [v for v in tries if (v < found[0] if wanted == "least" else v > found[0])]
        if not further:
            break
        next_one = max(further) if wanted == "least" else min(further)
        middle = span.between(*sorted((next_one, found[0])))
        if middle is None:
            break
        tries[middle] = measure(middle)
    return so_far(tries[found[0]] if found else None)


def _nearest(tries: Mapping[float, Try], overspend: bool) -> float:
    """The fastest value within budgets; if there is none, the one that overspends least."""

    def rank(value: float) -> tuple[int, float]:
        each = tries[value]
        if each.problem is None and each.over_devices and not overspend:
            return 1, each.over_j
        return (0 if each.problem is None else 2), each.worst_s

    return min(tries, key=rank)


def _around(value: float, span: Span, tried: Sequence[float]) -> list[float]:
    """New values halfway between one that was tried and its neighbours."""
    gaps = [gap for gap in pairwise(tried) if value in gap]
    return [half for gap in gaps if (half := span.between(*gap)) is not None]


def policy_at(span: Span, policy: str, value: float) -> str:
    """The text of the policy at a value, which may be that of one of its own options."""
    if not span.key.startswith(POLICY):
        return policy
    return with_options(policy, {span.key.removeprefix(POLICY): value})


def size(
    source: Source,
    span: Span,
    deadline_s: float,
    policy: str,
    seeds: Sequence[int],
    settings: Sequence[str] = (),
    progress: Callable[[str, int], Progress] | None = None,
    *,
    wanted: Wanted | None = None,
    overspend: bool = False,
    kept: Points | None = None,
) -> Sizing:
    """Search with estimates of the scenario; the result has no answer if no value will do."""
    make_policy(policy_at(span, policy, span.low))

    def measure(value: float) -> Try:
        try:
            own = span.key.startswith(POLICY)
            texts = [*settings] if own else [*settings, f"{span.key}={value!r}"]
            scenario, made = load_scenario(source, texts), policy_at(span, policy, value)
            runs = kept_estimate(scenario, made, seeds, kept, progress)
        except (InputError, InfeasibleError) as error:
            return Try(value, problem=error.lines[0])
        return Try(value, tuple(run["total_time_s"] for run in runs), runs=tuple(runs))

    return search(span, deadline_s, measure, wanted, overspend=overspend)
