"""Several policies trained on the same worlds, equal work done once.

All policies of a seed go through each global round together. Training does not depend on seconds or
joules, so as long as two policies have used the same links, steps and devices their models are the
same to the bit: the learners know by keys (`learning.learner`), and the second takes the first's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedrt.files import write_json
from fedrt.policies import Policy, make_policy
from fedrt.runs.account import Account, Summary
from fedrt.runs.directory import RunDirectory, open_folder
from fedrt.runs.estimate import comparison
from fedrt.runs.loop import run_rounds
from fedrt.runs.training import RunOptions
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
    made = {name: make_policy(name) for name in policies}
    what = {"policies": list(policies), "seeds": list(seeds), "command": command}
    open_folder(out, scenario, what)
    results: dict[str, list[Summary]] = {name: [] for name in made}
    for seed in seeds:
        for name, summary in _compare_on(seed, scenario, made, out, options, command, progress):
            results[name].append(summary)
    write_json(out / "comparison.json", comparison(scenario.name, results))
    return results


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
    from fedrt.learning.setup import make_setup

    world = World(scenario, seed)
    data_dir = Path(options.data_dir) if options.data_dir else None
    setup = make_setup(world, engine=options.engine, device=options.device, data_dir=data_dir)
    shared: dict[bytes, Any] = {}
    runners = {}
    for name, policy in policies.items():
        folder = out / f"{name.replace(':', '.')}-{seed}"
        directory = RunDirectory.create(folder, scenario, name, seed, command, asdict(options))
        learner = Trainer(setup, shared)
        runners[name] = _Runner(policy, world, directory, learner, options.device_rows)
    for _ in range(scenario.rounds.global_rounds):
        for name, runner in runners.items():
            done = runner.step()
            if progress is not None:
                progress(name, seed, done)
        # What the next round starts from, the learners hold themselves.
        shared.clear()
    return [(name, runner.finish(options.targets)) for name, runner in runners.items()]
