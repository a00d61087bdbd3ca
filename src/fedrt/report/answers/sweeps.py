"""What a sweep or a front found: who is quickest where, which points are efficient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fedrt.policies.spec import policy_labels
from fedrt.report.answers.found import Found, at, found_in, listed, over_words, quickest
from fedrt.units import readable_time


def study_labels(points: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The label of each policy in the JSON of a sweep or front, by the text that names it."""
    names: dict[str, str | None] = {}
    for point in points:
        names |= {str(name): None for name in point["infeasible"] if str(name) not in names}
        for name, numbers in point["policies"].items():
            own = numbers.get("name")
            names[str(name)] = own if isinstance(own, str) else None
    return policy_labels(names)


def sweep_answer(data: Mapping[str, Any]) -> str:
    """Who is quickest within budgets at how many points, from what to what time; who overspends.

    `data` is the JSON of the sweep.
    """
    points = found_in(data["points"], study_labels(data["points"]))
    every = [each for point in points for each in point]
    best = [quickest(within) for point in points if (within := [f for f in point if f.within])]
    if not every:
        return "No policy could run at any point."
    if not best:
        first = quickest(every)
        return f"Some device is over its budget in every result; least time: {_who(first)}."
    names = {each.policy for each in every}
    words = [_winners(best, len(points)) if len(names) > 1 else _range(best, len(points))]
    none = len(points) - len(best)
    if none and len(names) > 1:
        words.append(f"At {plural(none, 'point')} no policy keeps every budget.")
    return " ".join([*words, over_words(every)])


def _who(found: Found) -> str:
    return f"{found.policy}, {at(found)}"


def _winners(best: Sequence[Found], points: int) -> str:
    """A sentence on who is quickest at how many points, and the ends of their times."""
    counts = Counter(each.policy for each in best).most_common()
    if len(counts) == 1 and counts[0][1] == points:
        who = f"{counts[0][0]} at every point" if points > 1 else counts[0][0]
    else:
        who = listed([f"{name} at {count} of {points} points" for name, count in counts])
    ends = quickest(best), max(best, key=lambda each: each.time_s)
    times = f"{_end(ends[0], counts)} to {_end(ends[1], counts)}" if len(best) > 1 else at(ends[0])
    start = "from " if len(best) > 1 else ""
    return f"Quickest with every device within its budget: {who}, {start}{times}."


def _end(found: Found, counts: Sequence[tuple[str, int]]) -> str:
    """A time with its settings, and its policy where several are quickest."""
    return f"{at(found)} under {found.policy}" if len(counts) > 1 else at(found)


def _range(best: Sequence[Found], points: int) -> str:
    """A sentence on the times of the only policy, where it keeps all budgets."""
    low, high = quickest(best), max(best, key=lambda each: each.time_s)
    if len(best) == 1:
        return f"{low.policy} keeps every budget at 1 of {points} points, and takes {at(low)}."
    kept = "" if len(best) == points else f" where it keeps every budget ({len(best)} points)"
    return f"{low.policy} takes from {at(low)} to {at(high)}{kept}."


def front_answer(data: Mapping[str, Any]) -> str:
    """Whose points are efficient, the quickest and the thriftiest of them, and who overspends.

    `data` is the JSON of the front.
    """
    points = found_in(data["points"], study_labels(data["points"]))
    every = [each for point in points for each in point]
    front = [each for each in every if each.efficient]
    if not front:
        return "No point is efficient: under each some device is over its budget."
    counts = Counter(each.policy for each in front).most_common()
    whose = listed([f"{name} ({plural(count, 'point')})" for name, count in counts])
    fast, thrifty = quickest(front), min(front, key=lambda each: each.energy_j)
    words = f"Efficient: {whose}. "
    if (fast.time_s, fast.energy_j) == (thrifty.time_s, thrifty.energy_j):
        words += f"Least time and least energy: {_both(fast)}."
    else:
        words += f"Least time: {_both(fast)}; least energy: {_both(thrifty)}."
    return f"{words} {over_words(every)}"


def _both(found: Found) -> str:
    where = f" ({found.where})" if found.where else ""
    return f"{found.policy}, {readable_time(found.time_s)} and {found.energy_j:.4g} J{where}"


def plural(count: int, word: str) -> str:
    """A number of things in words."""
    return f"{count} {word}{'' if count == 1 else 's'}"
