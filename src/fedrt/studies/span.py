"""The setting that `fedrt size` varies, its range, and the values that are tried first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fedrt.errors import InputError
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.class_rules import fixed_by
from fedrt.scenario.classes import class_rules, unknown_class
from fedrt.scenario.load import Source, setting_value
from fedrt.scenario.model import Custom
from fedrt.scenario.tables.fields import PerDeviceRule, table_of
from fedrt.studies.sweep import POLICY
from fedrt.validation import Either, Real, Whole, hint, shown

GRID = 9
TOLERANCE = 1e-3
"""Relative gap at which a real value is found."""


@dataclass(frozen=True)
class Span:
    """A setting and the range in which to search."""

    key: str
    low: float
    high: float
    whole: bool = False

    def grid(self) -> list[float]:
        """Both ends and values between them, in geometric steps, or even ones from 0."""
        parts = [i / (GRID - 1) for i in range(1, GRID - 1)]
        if self.low > 0:
            inner = [self.low * (self.high / self.low) ** part for part in parts]
        else:
            inner = [self.low + (self.high - self.low) * part for part in parts]
        if self.whole and self.high - self.low < GRID:
            inner = [self.low + i for i in range(1, int(self.high - self.low))]
        return sorted({self.low, *map(self.tidy, inner), self.high})

    def tidy(self, value: float) -> float:
        """A value rounded as a person would write it, inside the range."""
        near = round(value) if self.whole else float(f"{value:.6g}")
        return min(max(near, self.low), self.high)

    def between(self, below: float, above: float) -> float | None:
        """A value between two others; None where they are close enough."""
        if self.whole:
            return (below + above) // 2 if above - below > 1 else None
        if self.low > 0:
            ratio = above / below
            return self.tidy(below * math.sqrt(ratio)) if ratio > 1 + TOLERANCE else None
        size = max(abs(below), abs(above), TOLERANCE * (self.high - self.low))
        return self.tidy((below + above) / 2) if above - below > TOLERANCE * size else None


def read_span(texts: Sequence[str]) -> Span:
    """The setting and its range in a text like `KEY=lo..hi`."""
    if len(texts) != 1:
        raise InputError(f"`vary`: must be given once, not {len(texts)} times")
    text = texts[0]
    key, _, ends = text.partition("=")
    words = ends.split("..")
    values = [setting_value(word) for word in words]
    if not all(key.strip().split(".")) or len(words) != 2 or not all(map(_is_number, values)):
        raise InputError(f"`vary` {shown(text)}: must be KEY=lo..hi with two numbers")
    if values[0] > values[1]:
        raise InputError(f"`vary` {shown(text)}: must have lo <= hi")
    return Span(key.strip(), *values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300


def fit_span(span: Span, source: Source, settings: Sequence[str] = ()) -> tuple[Span, Scenario]:
    """The span, of whole numbers if its setting is, and a valid scenario to describe it."""
    if span.key.startswith(POLICY):
        whole = isinstance(span.low, int) and isinstance(span.high, int)
        scenario = load_scenario(source, settings)
        return Span(span.key, span.low, span.high, whole=whole), scenario
    scenario = _some_valid(span, source, settings)
    fixed = fixed_by(scenario, span.key)
    if fixed:
        words = ", ".join(fixed)
        raise InputError(f"`vary` {span.key}: cannot change, as it is fixed by {words}")
    rule = _rule_of(scenario, span.key)
    if isinstance(rule, Either):  # a word or a number, and the ends are numbers
        rule = rule.choose(span.high)
    ends_whole = float(span.low).is_integer() and float(span.high).is_integer()
    if isinstance(rule, Whole):
        if not ends_whole:
            text = f"{span.low:.10g}..{span.high:.10g}"
            raise InputError(f"`vary` {span.key}={text}: must be two whole numbers")
        return Span(span.key, int(span.low), int(span.high), whole=True), scenario
    if rule is None:
        # An option of a user's own process: nobody knows its rule, so its look decides.
        whole = isinstance(span.low, int) and isinstance(span.high, int)
        return Span(span.key, span.low, span.high, whole=whole), scenario
    if not isinstance(rule, Real | PerDeviceRule):
        raise InputError(f"`vary` {span.key}: must be a setting that is a number")
    return Span(span.key, float(span.low), float(span.high)), scenario


def _some_valid(span: Span, source: Source, settings: Sequence[str]) -> Scenario:
    """The scenario at one end of the range, or unchanged if both ends are invalid."""
    at_high, at_low = ([*settings, f"{span.key}={end!r}"] for end in (span.high, span.low))
    for texts in (at_high, at_low, settings):
        with suppress(InputError):
            return load_scenario(source, texts)
    return load_scenario(source, at_high)  # for what it complains about


def _rule_of(scenario: Scenario, key: str) -> object:
    """The rule that checks a setting; None for an option of a user's own process."""
    at: Any = scenario
    names = key.split(".")
    if names[:2] == ["fleet", "classes"] and len(names) == 4:
        unknown = unknown_class(names, table_of(scenario))
        if unknown is not None:
            raise InputError(unknown)
        known = class_rules(type(scenario.fleet))
        if names[3] not in known:
            raise InputError(f"scenario.{key}: unknown field{hint(names[3], list(known))}")
        return known[names[3]]
    for name in names[:-1]:
        at = getattr(at, name, None)
    if isinstance(at, Custom):
        return None
    known = getattr(at, "__dataclass_fields__", {})
    if names[-1] not in known or isinstance(at, type):
        raise InputError(f"scenario.{key}: unknown field{hint(names[-1], list(known))}")
    return known[names[-1]].metadata["rule"]
