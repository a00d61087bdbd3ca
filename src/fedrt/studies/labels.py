"""Names and numbers of policies in tables, figures and pages: labels, and styles of lines."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fedrt.policies import SHIPPED
from fedrt.policies.spec import policy_labels
from fedrt.records.summary import Summary
from fedrt.studies.sweep import PointResults, Sweep

UNITS = {"hz": "Hz", "bps": "bit/s", "j": "J", "w": "W", "db": "dB", "m": "m", "bits": "bit"}

BASELINES = ("ce-fedavg", "mll-sgd")
"""The baselines with which others are compared, if they ran."""

FIRST_OWN, OWN_STYLES = 100, 36
"""The first number of the styles of users' own policies, and how many of these differ."""

T = TypeVar("T")
Results = Mapping[str, Sequence[Summary]]


def labels_of(results: Iterable[Results], policies: Iterable[str] = ()) -> dict[str, str]:
    """The label of every policy, by the text that names it.

    A policy that never ran is labelled by that text.
    """
    names: dict[str, str | None] = dict.fromkeys(policies)
    for each in results:
        names |= {policy: runs[0]["policy"] for policy, runs in each.items() if runs}
    return policy_labels(names)


def labelled(results: Mapping[str, Sequence[Summary]]) -> dict[str, Sequence[Summary]]:
    """The results of policies, keyed by their labels."""
    labels = labels_of([results])
    return {labels[policy]: runs for policy, runs in results.items()}


def labelled_sweep(
    sweep: Sweep, outcomes: Sequence[PointResults]
) -> tuple[Sweep, list[PointResults]]:
    """A sweep and its results with policies under their labels, for display."""
    labels = labels_of((outcome.results for outcome in outcomes), sweep.policies)

    def renamed(by_policy: Mapping[str, T]) -> dict[str, T]:
        return {labels[policy]: value for policy, value in by_policy.items()}

    return replace(sweep, policies=tuple(labels[policy] for policy in sweep.policies)), [
        replace(each, results=renamed(each.results), infeasible=renamed(each.infeasible))
        for each in outcomes
    ]


def style_numbers(policies: Iterable[str]) -> dict[str, int]:
    """The number of each policy's colour and marker, the same in every figure and page.

    A shipped policy has its place in the list of all. A user's own policy, or a shipped one with
    options, has a number from `FIRST_OWN` on that its name determines; if another has it already,
    the next free one.
    """
    numbers: dict[str, int] = {}
    for policy in policies:
        if policy in numbers:
            continue
        if policy in SHIPPED:
            numbers[policy] = list(SHIPPED).index(policy)
            continue
        start, taken = zlib.crc32(policy.encode("utf-8", "replace")), set(numbers.values())
        places = [FIRST_OWN + (start + i) % OWN_STYLES for i in range(OWN_STYLES)]
        beyond = FIRST_OWN + OWN_STYLES + len(numbers)
        numbers[policy] = next((place for place in places if place not in taken), beyond)
    return numbers


def key_label(key: str) -> str:
    """The name of a setting with its unit."""
    words = key.rpartition(".")[2].split("_")
    units = [UNITS[word] for word in words if word in UNITS]
    return f"{key} ({units[0]})" if units else key
