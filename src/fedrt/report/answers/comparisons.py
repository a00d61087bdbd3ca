"""What a comparison found: the quickest policy within budgets, and who overspends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedrt.report.answers.found import Found, devices_words, listed, quickest
from fedrt.studies.labels import BASELINES
from fedrt.units import readable_time


def compared(policies: Mapping[str, Any]) -> list[Found]:
    """The policies of a comparison in its JSON form, by label."""
    return [
        Found(
            policy=name,
            time_s=of["total_time_s"]["mean"],
            energy_j=of["energy_j_mean"]["mean"],
            over_devices=of["over_budget_devices"]["mean"],
            over_j=of["over_budget_j"]["mean"],
        )
        for name, of in policies.items()
    ]


def comparison_answer(found: Sequence[Found]) -> str:
    """The quickest policy within every device's budget, its lead, and who is over budget.

    Empty for fewer than two policies, which leave nothing to compare.
    """
    if len(found) < 2:
        return ""
    first, within = quickest(found), [each for each in found if each.within]
    if not within:
        return (
            f"Under every policy some device is over its budget; the quickest is {first.policy}:"
            f" {readable_time(first.time_s)}, with {devices_words(first)}."
        )
    best = quickest(within)
    words = (
        f"Quickest with every device within its budget is {best.policy}:"
        f" {readable_time(best.time_s)}{_lead(best, found)}."
    )
    if first.time_s < best.time_s:
        words += (
            f" {first.policy} takes {readable_time(first.time_s)}, but with {devices_words(first)}."
        )
    over = [each.policy for each in found if not each.within and each is not first]
    also = "Also over" if first.time_s < best.time_s else "Over"
    return words + (f" {also} budget: {listed(over)}." if over else "")


def _lead(best: Found, found: Sequence[Found]) -> str:
    """A phrase that compares the best time with the usual baseline, if that is another policy."""
    baselines = [each for name in BASELINES for each in found if each.policy == name]
    others = [each for each in baselines if each is not best and each.time_s > 0]
    if not others:
        return ""
    saved = 1 - best.time_s / others[0].time_s
    return f", {abs(saved):.1%} {'less' if saved >= 0 else 'more'} than {others[0].policy}"
