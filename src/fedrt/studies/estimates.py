"""`fedrt estimate`: whole runs without training, and the comparison of policies over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrt.errors import FedrtError, InfeasibleError, InputError
from fedrt.policies import Policy, make_policy
from fedrt.records.directory import RunDirectory, open_folder, run_name
from fedrt.records.summary import Account, Summary
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.runs.rounds import GlobalRound
from fedrt.scenario import Scenario
from fedrt.scenario.sizes import size_notes
from fedrt.system.files import gone_unless, write_json
from fedrt.world.fleet import fleet_notes
from fedrt.world.simulated import SimulatedWorld

Progress = Callable[[GlobalRound], None]


def estimate_run(
    world: SimulatedWorld,
    policy: Policy,
    directory: RunDirectory | None = None,
    *,
    device_rows: bool | None = None,
    progress: Progress | None = None,
) -> Summary:
    """The summary of one run without training; its history is saved if a folder is given."""
    account = Account(world, policy, device_rows)
    try:
        for done in simulate_rounds(world, policy):
            account.add(done)
            if directory is not None:
                directory.save_sometimes(account.history)
            if progress is not None:
                progress(done)
    except FedrtError:
        if directory is not None and account.last is not None:
            directory.save(account.history)
        raise
    summary = account.summary()
    if directory is not None:
        directory.save(account.history)
        directory.finish(summary)
    return summary


def estimate(
    scenario: Scenario,
    policies: Sequence[str],
    seeds: Sequence[int],
    out: Path | None = None,
    *,
    command: str = "",
    device_rows: bool | None = None,
    progress: Callable[[str, int], Progress] | None = None,
    note: Callable[[str], None] | None = None,
) -> dict[str, list[Summary]]:
    """Estimate every policy on every seed; with `out`, save run folders and the comparison.

    `note` is told what a user may want to know of the fleet and the model's size.
    """
    for name in policies:
        make_policy(name)
    worlds = {seed: make_world(scenario, seed) for seed in seeds}
    if note is not None:
        fleet = worlds[seeds[0]].fleet
        for line in (*size_notes(scenario.learning), *fleet_notes(scenario, fleet)):
            note(line)
    results: dict[str, list[Summary]] = {name: [] for name in policies}

    def run_all() -> None:
        for name in policies:
            for seed, world in worlds.items():
                directory = None
                if out is not None:
                    folder = out / run_name(name, seed)
                    directory = RunDirectory.create(folder, scenario, name, seed, command)
                step = progress(name, seed) if progress is not None else None
                results[name].append(
                    estimate_run(
                        world, make_policy(name), directory, device_rows=device_rows, progress=step
                    )
                )

    if out is None:
        run_all()
        return results
    what = {"policies": list(policies), "seeds": list(seeds), "command": command}
    open_folder(out, scenario, what)
    # Rounds before one that no plan can carry out are worth seeing, those of broken code are not.
    infeasible = gone_unless(out, "*/rounds.parquet", kinds=(InfeasibleError,))
    with infeasible, gone_unless(out, None, kinds=(InputError,)):
        run_all()
    write_json(out / "comparison.json", comparison(scenario.name, results))
    return results


def comparison(scenario: str, results: Mapping[str, Sequence[Summary]]) -> dict[str, Any]:
    """The common JSON form in which commands compare policies.

    By what was typed for each policy; `name` is what it calls itself.
    """
    keys = ("total_time_s", "energy_j_mean", "over_budget_devices", "over_budget_j")
    return {
        "scenario": scenario,
        "policies": {
            name: {"name": runs[0]["policy"]}
            | {key: over_seeds([run[key] for run in runs]) for key in keys}
            | _by_class(runs)
            | _failed(runs)
            for name, runs in results.items()
        },
    }


def _by_class(runs: Sequence[Summary]) -> dict[str, Any]:
    """What devices of each class spent, if the fleet has classes."""
    if not all("classes" in run for run in runs):
        return {}
    return {
        "classes": {
            name: {"devices": first["devices"]}
            | {
                key: over_seeds([run["classes"][name][key] for run in runs])
                for key in first
                if key != "devices"
            }
            for name, first in runs[0]["classes"].items()
        }
    }


def _failed(runs: Sequence[Summary]) -> dict[str, Any]:
    """The failure counts of the runs, if the scenario has faults."""
    if not all("faults" in run for run in runs):
        return {}
    every = [run["faults"] for run in runs]
    sums = {key: over_seeds([each[key] for each in every]) for key in ("wasted_j", "beyond_plan_s")}
    updates = {
        name: over_seeds([each["updates"][name] for each in every]) for name in every[0]["updates"]
    }
    return {"faults": {"updates": updates, **sums}}


def over_seeds(values: Sequence[float | None]) -> dict[str, Any]:
    """The mean, sample deviation (0 for one seed) and values over seeds.

    Where a seed has none there is no mean either.
    """
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return {"mean": None, "std": None, "per_seed": list(values)}
    deviation = float(np.std(known, ddof=1)) if len(known) > 1 else 0.0
    return {"mean": float(np.mean(known)), "std": deviation, "per_seed": list(values)}


def savings(runs: Sequence[Summary], baseline: Sequence[Summary]) -> dict[str, Any]:
    """The time saved against the baseline as a fraction, paired by seed."""
    pairs = zip(runs, baseline, strict=True)
    ratios = [time_ratio(run["total_time_s"], base["total_time_s"]) for run, base in pairs]
    return over_seeds([None if ratio is None else 1 - ratio for ratio in ratios])


def time_ratio(time_s: float, base_s: float) -> float | None:
    """One time divided by another; 1 for two zero times, None against a zero time."""
    if base_s > 0:
        return time_s / base_s
    return 1.0 if time_s == 0 else None
