"""The scores of the bench, from the outcomes of all policies on all worlds.

Policies that did the same work as the bound's plans on every seed of a world are scored by their
time above the bound, or, where a world has no bound to hold them against, above the quickest of
them that kept every energy limit. Policies that did other work have no score there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedrt.bench.bounds import Bounds, kept_bound
from fedrt.bench.outcomes import WORDS, other_work
from fedrt.bench.worlds import load_world, why_no_bound, world_digest
from fedrt.scenario import Scenario
from fedrt.studies.bound import REFERENCE
from fedrt.studies.estimates import over_seeds

Outcomes = Mapping[str, Sequence[Mapping[str, Any]]]
"""By policy, its outcome on every seed."""

BOUND, BEST = "bound", "best"
"""What a world's policies are scored against."""
OURS = "fedrt-plus"
NEAR = 0.01
"""How near the first `fedrt-plus` has to be to count as level with it."""
NUMBERS = ("time_s", "energy_j_mean", "over_budget_devices", "over_budget_j")


def bench_data(
    outcomes: Mapping[str, Outcomes], seeds: Sequence[int], bounds: Bounds
) -> dict[str, Any]:
    """All scores as JSON data; `outcomes` by world."""
    worlds = {}
    for name, found in outcomes.items():
        scenario = load_world(name)
        worlds[name] = world_data(name, scenario, found, seeds, bounds)
    first = next(iter(outcomes.values()))
    return {
        "seeds": list(seeds),
        "policies": {policy: runs[0]["name"] for policy, runs in first.items()},
        "worlds": worlds,
        "summary": {policy: summary(policy, worlds) for policy in first},
        "standing": standing(worlds),
    }


def world_data(
    name: str, scenario: Scenario, found: Outcomes, seeds: Sequence[int], bounds: Bounds
) -> dict[str, Any]:
    """The scores of all policies on one world."""
    against, why = scored_against(name, scenario, found, seeds, bounds)
    policies = {policy: _policy_data(runs, against) for policy, runs in found.items()}
    for place, policy in enumerate(ranking(policies), 1):
        policies[policy]["rank"] = place
    scored = [each for each in policies.values() if each["same_work"]]
    return {
        "description": scenario.description,
        "edges": scenario.fleet.num_edges,
        "devices": scenario.fleet.num_devices,
        "edge_rounds": scenario.rounds.global_rounds * scenario.rounds.edge_rounds,
        "digest": {str(seed): world_digest(scenario, seed) for seed in seeds},
        "against": BOUND if why is None else BEST,
        "why_no_bound": why,
        "reference_s": against,
        "policies": policies,
        "overspends": any(max(each["over_budget_devices"]["per_seed"]) > 0 for each in scored),
    }


def scored_against(
    name: str, scenario: Scenario, found: Outcomes, seeds: Sequence[int], bounds: Bounds
) -> tuple[list[float] | None, str | None]:
    """The seconds that times are held against on each seed, and why they are not the bound's."""
    why = why_no_bound(scenario)
    if why is None:
        kept = [kept_bound(bounds, name, seed, scenario) for seed in seeds]
        if None not in kept:
            return [each for each in kept if each is not None], None
        lacking = ", ".join(str(s) for s, each in zip(seeds, kept, strict=True) if each is None)
        why = f"no bound was made for seed {lacking}"
    same = [runs for runs in found.values() if not any(map(other_work, runs))]
    within = [runs for runs in same if not any(run["over_limit_devices"] for run in runs)]
    if not same:
        return None, why
    return [min(runs[i]["time_s"] for runs in within or same) for i in range(len(seeds))], why


def _policy_data(
    runs: Sequence[Mapping[str, Any]], against: Sequence[float] | None
) -> dict[str, Any]:
    """The score of a policy on a world, and what it is made of; None where it has no score."""
    done = list(dict.fromkeys(words for run in runs for words in other_work(run)))
    above = None
    if not done and against is not None:
        times = [run["time_s"] for run in runs]
        above = over_seeds([t / least - 1 for t, least in zip(times, against, strict=True)])
    return {
        "same_work": not done,
        "other_work": done,
        "above": above,
        "rank": None,
        "over_limit_devices": [run["over_limit_devices"] for run in runs],
        **{name: over_seeds([run[name] for run in runs]) for name in NUMBERS},
        "counts": {name: [run[name] for run in runs] for name in WORDS},
    }


def ranking(policies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The policies with a score, best first; those over an energy limit come after all others."""
    scored = [policy for policy, each in policies.items() if each["above"] is not None]

    def order(policy: str) -> tuple[bool, float]:
        each = policies[policy]
        return any(each["over_limit_devices"]), each["above"]["mean"]

    return sorted(scored, key=order)


def summary(policy: str, worlds: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """How a policy did over all worlds: where it has a score, and what it did elsewhere."""
    own = {name: world["policies"][policy] for name, world in worlds.items()}
    scored = {name: each for name, each in own.items() if each["above"] is not None}
    bounded = {
        name: each["above"]["mean"]
        for name, each in scored.items()
        if worlds[name]["against"] == BOUND
    }
    energy = [
        each["energy_j_mean"]["mean"] / worlds[name]["policies"][REFERENCE]["energy_j_mean"]["mean"]
        for name, each in scored.items()
        if REFERENCE in worlds[name]["policies"]
    ]
    return {
        "worlds": len(scored),
        "above_bound_mean": sum(bounded.values()) / len(bounded) if bounded else None,
        "above_bound_most": max(bounded.values()) if bounded else None,
        "most_on": max(bounded, key=bounded.__getitem__) if bounded else None,
        "first": sum(each["rank"] == 1 for each in scored.values()),
        "over_budget_worlds": sum(each["over_budget_j"]["mean"] > 0 for each in scored.values()),
        "over_limit_worlds": sum(any(each["over_limit_devices"]) for each in scored.values()),
        "energy_ratio": sum(energy) / len(energy) if energy else None,
        "other_work": {
            words: [name for name, each in own.items() if words in each["other_work"]]
            for words in dict.fromkeys(w for each in own.values() for w in each["other_work"])
        },
    }


def standing(worlds: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """How far `fedrt-plus` is behind the first policy on each world, and whether that is near.

    First is the quickest of the same work, also one that spends over its limits.
    """
    found = {}
    for name, world in worlds.items():
        means = {
            policy: 1 + each["above"]["mean"]
            for policy, each in world["policies"].items()
            if each["above"] is not None
        }
        if OURS not in means:
            continue
        first = min(means, key=means.__getitem__)
        behind = means[OURS] / means[first] - 1
        found[name] = {
            "first": first,
            "behind": behind,
            "near": behind <= NEAR,
            "overspends": world["overspends"],
        }
    return found
