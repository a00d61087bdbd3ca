"""Several policies trained on the same worlds, equal work done once.

All policies of a seed go through each global round together. Training does not depend on seconds or
joules, so as long as two policies have used the same links, steps and devices their models are the
same to the bit: the learners know by keys (`learning.learner`), and the second takes the first's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedrt.errors import InfeasibleError, InputError
from fedrt.files import write_json
from fedrt.policies import Policy, make_policy
from fedrt.runs.account import Account, Summary
from fedrt.runs.directory import RunDirectory, open_folder
from fedrt.runs.estimate import comparison, over_seeds
from fedrt.runs.loop import make_world, run_rounds
from fedrt.runs.training import RunOptions, make_run_setup
from fedrt.scenario import Scenario
from fedrt.turns import GlobalRound
from fedrt.world.world import World

Progress = Callable[[str, int, GlobalRound], None]


class _Runner:
    """One policy on one seed, a global round at a time."""

    def __init__(
        self, policy: Policy, world: World, directory: RunDirectory, learner: Any, rows: bool | None
    ) -> None:
        self.account = Account(world, policy, rows)
        self.directory = directory
        self.rounds: Iterator[GlobalRound] = run_rounds(world, policy, learner)

    def step(self) -> GlobalRound:
        done = next(self.rounds)
        self.account.add(done)
        self.directory.save_sometimes(self.account.history)
        return done

    def finish(self, targets: Sequence[float]) -> Summary:
        summary = self.account.summary(targets)
        self.directory.finish(self.account.history, summary)
        return summary


def compare(
    scenario: Scenario,
    policies: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    options: RunOptions,
    *,
    command: str = "",
    progress: Progress | None = None,
) -> dict[str, list[Summary]]:
    """Every policy trained on every seed, saved as a folder of run directories."""
    for name in policies:
        make_policy(name)  # complains before anything is made
    what = {"policies": list(policies), "seeds": list(seeds), "command": command}
    open_folder(out, scenario, what)
    results: dict[str, list[Summary]] = {name: [] for name in policies}
    try:
        for seed in seeds:
            # New policies for every seed, as separate runs would have: they may keep a state.
            made = {name: make_policy(name) for name in policies}
            for name, summary in _compare_on(seed, scenario, made, out, options, command, progress):
                results[name].append(summary)
    except (InputError, InfeasibleError):
        if not any(out.glob("*/rounds.parquet")):
            # Not even a round could be run: the command can be given anew.
            shutil.rmtree(out, ignore_errors=True)
        raise
    write_json(out / "comparison.json", training_comparison(scenario.name, results))
    return results


def training_comparison(scenario: str, results: Mapping[str, Sequence[Summary]]) -> dict[str, Any]:
    """The shape of `comparison` with accuracies, and differences to the first policy by seed."""
    whole = comparison(scenario, results)
    first = next(iter(results))
    for name, runs in results.items():
        into = whole["policies"][name]
        for key in ("best_accuracy", "final_accuracy"):
            into[key] = over_seeds([run[key] for run in runs])
        into["targets"] = {
            target: [run["targets"][target] for run in runs] for target in runs[0]["targets"]
        }
        into["minus_first"] = differences(runs, results[first])
    return whole | {"first": first}


def differences(runs: Sequence[Summary], first: Sequence[Summary]) -> dict[str, Any]:
    """Best accuracy less the first policy's, and time over its time less 1, paired by seed."""
    pairs = list(zip(runs, first, strict=True))
    return {
        "best_accuracy": over_seeds([a["best_accuracy"] - b["best_accuracy"] for a, b in pairs]),
        "total_time": over_seeds([a["total_time_s"] / b["total_time_s"] - 1 for a, b in pairs]),
    }


def _compare_on(
    seed: int,
    scenario: Scenario,
    policies: dict[str, Policy],
    out: Path,
    options: RunOptions,
    command: str,
    progress: Progress | None,
) -> list[tuple[str, Summary]]:
    from fedrt.learning.learner import Trainer

    data_dir = Path(options.data_dir) if options.data_dir else None
    world = make_world(scenario, seed, data_dir)
    setup = make_run_setup(world, options, out / "tuning.json")
    shared: dict[bytes, Any] = {}
    runners = {}
    for name, policy in policies.items():
        folder = out / f"{name.replace(':', '.')}-{seed}"
        directory = RunDirectory.create(folder, scenario, name, seed, command, asdict(options))
        directory.save_partition(setup.parts.class_counts(), setup.parts.edge_of_device)
        learner = Trainer(setup, shared)
        runners[name] = _Runner(policy, world, directory, learner, options.device_rows)
    try:
        for _ in range(scenario.rounds.global_rounds):
            for name, runner in runners.items():
                done = runner.step()
                if progress is not None:
                    progress(name, seed, done)
            # What the next round starts from, the learners hold themselves.
            shared.clear()
    finally:
        setup.close()
    return [(name, runner.finish(options.targets)) for name, runner in runners.items()]
