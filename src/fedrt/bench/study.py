"""The run of the bench: its tasks, each saved as soon as it has ended, and the scores of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedrt.bench.bounds import kept_bound, read_bounds
from fedrt.bench.pool import BenchTask, carry_out_all
from fedrt.bench.scores import bench_data
from fedrt.bench.trained import read_trained
from fedrt.bench.worlds import load_world, why_no_bound
from fedrt.studies.study import Points

Step = Callable[[str, int], None]
"""Is told of every task that has ended: what it was about, and its seed."""


@dataclass(frozen=True)
class Bench:
    """What the bench is asked for."""

    worlds: tuple[str, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]

    def check(self) -> None:
        """Raise an error about worlds that have changed since their bounds were made."""
        bounds = read_bounds()
        for name in self.worlds:
            scenario = load_world(name)
            if why_no_bound(scenario) is None:
                for seed in self.seeds:
                    kept_bound(bounds, name, seed, scenario)

    @property
    def tasks(self) -> list[BenchTask]:
        """Every policy on every world and seed, large worlds first, each world at one go."""
        large = sorted(self.worlds, key=lambda name: -load_world(name).fleet.num_devices)
        return [
            BenchTask(world, policy, seed)
            for world in large
            for seed in self.seeds
            for policy in self.policies
        ]

    @property
    def bound_tasks(self) -> list[BenchTask]:
        """The bounds of all worlds that have one."""
        bounded = [name for name in self.worlds if why_no_bound(load_world(name)) is None]
        return [BenchTask(world, None, seed) for world in bounded for seed in self.seeds]


def finished(
    tasks: Sequence[BenchTask], jobs: int, points: Points, step: Step | None = None
) -> dict[BenchTask, dict[str, Any]]:
    """The results of all tasks; those that were saved earlier are not carried out again."""
    known = {task: points.known_value(task._asdict()) for task in tasks}
    results = {task: value for task, value in known.items() if isinstance(value, dict)}
    if step is not None:
        for task in results:
            step(_about(task), task.seed)
    for task, result in carry_out_all([t for t in tasks if t not in results], jobs):
        results[task] = points.once(task._asdict(), partial(dict, result))
        if step is not None:
            step(_about(task), task.seed)
    return results


def _about(task: BenchTask) -> str:
    return f"{task.world}: {task.policy or 'bound'}"


def run_bench(
    bench: Bench, jobs: int, points: Points, step: Step | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The scores of all policies on all worlds as JSON data, and the real seconds they took."""
    began_s = time.monotonic()
    results = finished(bench.tasks, jobs, points, step)
    wall_s = time.monotonic() - began_s
    outcomes = {
        world: {
            policy: [results[BenchTask(world, policy, seed)] for seed in bench.seeds]
            for policy in bench.policies
        }
        for world in bench.worlds
    }
    cpu_s = {
        world: {policy: max(run["cpu_s"] for run in runs) for policy, runs in found.items()}
        for world, found in outcomes.items()
    }
    data = bench_data(outcomes, bench.seeds, read_bounds()) | read_trained(bench.policies)
    total_s = sum(result["cpu_s"] for result in results.values())
    return data, {"jobs": jobs, "wall_s": wall_s, "cpu_s": total_s, "cpu_s_most": cpu_s}


def make_bounds(
    bench: Bench, jobs: int, points: Points, step: Step | None = None
) -> dict[str, dict[str, Any]]:
    """The bounds of all worlds that have one, by world and seed."""
    made: dict[str, dict[str, Any]] = {}
    for task, found in finished(bench.bound_tasks, jobs, points, step).items():
        made.setdefault(task.world, {})[str(task.seed)] = found
    return made
