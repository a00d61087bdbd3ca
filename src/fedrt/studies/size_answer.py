"""The answer of `fedrt size` as a sentence and as data, with the budgets it overspends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedrt.errors import InputError
from fedrt.policies.spec import policy_label
from fedrt.studies.estimates import comparison, over_seeds
from fedrt.studies.sizing import Sizing, Try
from fedrt.system.files import write_csv, write_json
from fedrt.units import precise_time, readable_time


def answer_label(found: Sizing, policy: str) -> str:
    """The label of the policy, by the name it gives itself."""
    runs = (found.answer or found.best).runs
    return policy_label(policy, runs[0].get("policy") if runs else None)


def size_sentence(found: Sizing, policy: str) -> str:
    """The answer as a sentence: value, policy, time, the next value tried, and overspending.

    Where no value will do, how close to the deadline one can get.
    """
    answer = found.answer
    if answer is None:
        return _closest(found)
    slowest = f" on the slowest of {len(answer.times_s)} seeds" if len(answer.times_s) > 1 else ""
    return (
        f"{found.wanted} {found.span.key} for {readable_time(found.deadline_s)} under"
        f" {answer_label(found, policy)}:"
        f" {answer.value:.10g} ({precise_time(answer.worst_s)}{slowest}, {price_words(answer)};"
        f" {_neighbour(found, answer)})"
    )


def _neighbour(found: Sizing, answer: Try) -> str:
    """A phrase about the next value tried beyond the answer."""
    least = found.wanted == "least"
    beyond = [
        t for t in found.tries if (t.value < answer.value if least else t.value > answer.value)
    ]
    if not beyond:
        return f"the {'low' if least else 'high'} end of the range"
    beside = beyond[-1] if least else beyond[0]
    if beside.problem is not None:
        return f"{beside.value:.10g} cannot run"
    price = "" if found.overspend or not beside.over_devices else f", {price_words(beside)}"
    return f"{beside.value:.10g} takes {precise_time(beside.worst_s)}{price}"


def price_words(tried: Try) -> str:
    """A phrase that says whether a value keeps the budgets, and by how much it does not."""
    if not tried.over_devices:
        return "every device within its budget"
    worst = " on the worst seed" if len(tried.runs) > 1 else ""
    return f"{over_words(tried)}{worst}"


def over_words(tried: Try) -> str:
    """A phrase with the number of devices over budget and their joules together."""
    devices = f"{tried.over_devices} device{'s' if tried.over_devices > 1 else ''}"
    return f"{devices} over budget by {tried.over_j:.3g} J in all"


def verdict(found: Sizing, tried: Try) -> str:
    """A phrase that says whether a value will do, and by how much it misses or overspends."""
    if tried.problem is not None:
        return f"cannot run: {tried.problem}"
    if not found.in_time(tried):
        missed = tried.worst_s / found.deadline_s - 1
        text = f"no, {100 * missed:+.3g} %" if missed < 9.99 else f"no, {missed + 1:.4g} times it"
        return text + (f"; {over_words(tried)}" if tried.over_devices else "")
    if tried.over_devices and not found.overspend:
        return f"no: in time, but {over_words(tried)}"
    price = f", but {over_words(tried)}" if tried.over_devices else ""
    return ("yes, the " + found.wanted if tried is found.answer else "yes") + price


def unreachable(found: Sizing) -> InputError:
    """The error that says how close to the deadline one can get."""
    in_time = any(found.in_time(tried) for tried in found.tries)
    rest = "; `allow_overspend` takes such answers" if in_time else ""
    return InputError(_closest(found) + rest)


def _closest(found: Sizing) -> str:
    """A sentence about the best value where none will do."""
    span, best = found.span, found.best
    what = f"no {span.key} from {span.low:.10g} to {span.high:.10g}"
    deadline = f"makes the deadline of {readable_time(found.deadline_s)}"
    slowest = " on the slowest seed" if len(best.times_s) > 1 else ""
    if best.problem is not None:
        return f"{what} can run: {best.problem}"
    within_budgets = [t for t in found.tries if t.problem is None and not t.over_devices]
    least = min(within_budgets, key=lambda tried: tried.worst_s, default=None)
    within = (
        "no value keeps all budgets"
        if least is None
        else f"within budgets the best reachable is {readable_time(least.worst_s)}{slowest}, at"
        f" {span.key} = {least.value:.10g}"
    )
    in_time = [tried for tried in found.tries if found.in_time(tried)]
    if in_time:
        cheapest = min(in_time, key=lambda tried: tried.over_j)
        return (
            f"{what} {deadline} within every device's budget: {cheapest.value:.10g} takes"
            f" {readable_time(cheapest.worst_s)} with {price_words(cheapest)}; {within}"
        )
    price = f", with {price_words(best)}; {within}" if best.over_devices else ""
    return (
        f"{what} {deadline}: the best reachable is {readable_time(best.worst_s)}{slowest}, at"
        f" {span.key} = {best.value:.10g}{price}"
    )


def size_data(found: Sizing, policy: str, scenario: str) -> dict[str, Any]:
    """The answer and all values tried as JSON data.

    Where no value will do, `value` is None, and `policies` has the fastest value's numbers.
    """
    answer = found.answer
    return {
        **comparison(scenario, {policy: (answer or found.best).runs}),
        "key": found.span.key,
        "range": [found.span.low, found.span.high],
        "deadline_s": found.deadline_s,
        "wanted": found.wanted,
        "value": None if answer is None else answer.value,
        "within_budgets": answer is not None and not answer.over_devices,
        "sentence": size_sentence(found, policy),
        "note": found.note,
        "tried": [_tried(found, each) for each in found.tries],
    }


def _tried(found: Sizing, each: Try) -> dict[str, Any]:
    numbers: dict[str, Any] = dict.fromkeys(
        ("total_time_s", "over_budget_devices", "over_budget_j"), None
    )
    if each.problem is None:
        numbers = {name: over_seeds([run[name] for run in each.runs]) for name in numbers}
    return {
        "value": each.value,
        **numbers,
        "makes_deadline": found.in_time(each),
        "within_budgets": each.problem is None and not each.over_devices,
        "verdict": verdict(found, each),
        "problem": each.problem,
    }


def save_size(out: Path, found: Sizing, policy: str, scenario: str, seeds: Sequence[int]) -> None:
    """Write `size.csv` and `size.json` into a folder."""
    rows = []
    for each in found.tries:
        times = each.times_s or ("",) * len(seeds)
        ran = each.problem is None
        rows.append(
            {found.span.key: each.value, "makes_deadline": found.in_time(each)}
            | {f"time_s_seed_{seed}": time for seed, time in zip(seeds, times, strict=True)}
            | {
                "over_budget_devices": each.over_devices if ran else "",
                "over_budget_j": each.over_j if ran else "",
                "problem": each.problem or "",
            }
        )
    write_csv(out / "size.csv", rows)
    write_json(out / "size.json", size_data(found, policy, scenario))
