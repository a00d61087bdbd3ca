"""What a round costs as devices grow, and what part of it is the controller's.

    python benchmarks/rounds.py devices [--counts 1000,10000] [--repeats 3] [--save FILE]
    python benchmarks/rounds.py controller --data-dir DIR [--scenario paper/fmnist-iid] [--rounds 3]

`devices`: one edge round of one local step of LeNet-5 devices. Each count trains in processes of
its own, a few devices first to warm up; counts take turns. Memory is the sum of all processes' own
peaks. `controller`: a preset is run with its training. All of a round that is not the learner's
(observing, planning, pricing, charging) is the controller's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parent / "peers"))

from control import summary
from memory import tree_memory_mb
from provenance import save
from run import take_priority
from training import (
    RATES,
    SEED,
    SHAPES,
    Task,
    close,
    random_dataset,
    seconds_of_round,
    split_evenly,
)

from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.plan import Gossip, Plan
from fedrt.policies import make_policy
from fedrt.rounds import Outcome
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.scenario.load import load_scenario
from fedrt.world.observation import Observation

IMAGES, WARM_UP = 60_000, 64


def one_count(count: int) -> dict[str, Any]:
    """Seconds of one round of so many devices, and the memory of all processes in MB."""
    data = random_dataset(SHAPES["lenet5"], IMAGES, SEED)
    parts = split_evenly(IMAGES, count, SEED)
    task = Task(data, parts, "lenet5", steps=1, learning_rate=RATES["lenet5"])
    engine, model = task.engine("stacked")
    try:
        first = model.state()[None]
        seconds_of_round(engine, first, replace(task, parts=parts[:WARM_UP]).order())
        seconds = seconds_of_round(engine, first, task.order(r=1))
        return {"seconds": seconds, **tree_memory_mb()}
    finally:
        close(engine)


def devices(args: argparse.Namespace) -> dict[str, Any]:
    """Every count in turn, in fresh processes; the greatest over the least."""
    counts = [int(count) for count in args.counts.split(",")]
    found: dict[int, list[dict[str, Any]]] = {count: [] for count in counts}
    for _ in range(args.repeats):
        for count in counts:
            command = [sys.executable, __file__, "one", "--count", str(count)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{count} devices: {done.stderr[-500:]}")
            found[count].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"{count} devices: {found[count][-1]}", flush=True)
    rows = {
        count: {
            **summary([report["seconds"] for report in reports]),
            "peak_rss_mb": max(report["peak_rss"] for report in reports),
        }
        for count, reports in found.items()
    }
    times = rows[max(counts)]["median_s"] / rows[min(counts)]["median_s"]
    return {"rows": rows, "devices_ratio": max(counts) / min(counts), "time_ratio": times}


class TimedModels:
    """Models that are trained, and how long that takes in all."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.wall_s = trainer, 0.0
        self.start = trainer.start

    def _timed(self, call: Callable[..., Any], *args: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*args)
        finally:
            self.wall_s += time.perf_counter() - began

    def distances(self, t: int) -> Any:
        return self._timed(self.trainer.distances, t)

    def train(self, seen: Observation, plan: Plan, outcome: Outcome) -> Any:
        return self._timed(self.trainer.train, seen, plan, outcome)

    def mix(self, t: int, gossip: Gossip) -> Any:
        return self._timed(self.trainer.mix, t, gossip)


def controller(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of whole rounds and of the controller in them; the first round is a warm-up."""
    scenario = load_scenario(args.scenario, ["learning.evaluate_every=1000"])
    world = make_world(scenario, SEED, args.data_dir)
    setup = make_setup(
        world, engine="stacked", data_dir=args.data_dir, chunk=args.chunk, workers=args.workers
    )
    whole, own = [], []
    try:
        models = TimedModels(Trainer(setup))
        rounds = simulate_rounds(world, make_policy(args.policy), models)
        for _ in range(args.rounds + 1):
            began, models.wall_s = time.perf_counter(), 0.0
            next(rounds)
            whole.append(time.perf_counter() - began)
            own.append(whole[-1] - models.wall_s)
    finally:
        setup.close()
    share = sum(own[1:]) / sum(whole[1:])
    return {
        "global_round": summary(whole[1:]),
        "controller": summary(own[1:]),
        "controller_share": share,
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("devices", "controller", "one"))
    parser.add_argument("--counts", default="1000,10000")
    parser.add_argument("--count", type=int, default=1000, help="of `one`, which `devices` starts")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scenario", default="paper/fmnist-iid")
    parser.add_argument("--policy", default="fedrt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunk", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--nice", type=int, help="-20 to 19, for a shared machine")
    parser.add_argument("--save", type=Path, help="write the results to this JSON file")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.what == "one":
        print(json.dumps(one_count(args.count)))
        return
    if args.nice is not None:
        take_priority(args.nice)
    kept = {key: value for key, value in vars(args).items() if key not in ("save", "data_dir")}
    results = {
        "command": "python benchmarks/rounds.py " + " ".join(sys.argv[1:]),
        "config": kept,
    }
    results |= {"devices": devices, "controller": controller}[args.what](args)
    print(json.dumps(results, indent=1))
    save(args.save, results)


if __name__ == "__main__":
    main()
