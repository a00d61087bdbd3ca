"""fedrt-joint against rivals with one codec for all, on random worlds over wide ranges.

    python benchmarks/joint_worlds.py --worlds 300 --save benchmarks/results/joint_worlds.json
    python benchmarks/joint_worlds.py --rivals FILE ...     # runs of the rivals from a saved file

Runs without training, in the worlds of `random_worlds.py`, once for each codec: uploads and gossip
use it, and it sets the distortion limit of fedrt-joint, which thus loses no more than the rivals
do: the even split (`ce-fedavg`), `fedrt` and `fedrt-plus`. Who beats whom is decided as in
`random_worlds.py`, for every rival by itself.

Ends with exit code 1 where what is claimed does not hold: beaten by a rival by more than 1 % in at
most 0.5 % of the worlds, by more than 3 % in none, and never more overspend than `fedrt`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from provenance import save, start_environment
from random_worlds import MOST_BEHIND, MOST_OFTEN, OFTEN_BEHIND, TOLERANCE, random_world, words

from fedrt.errors import FedrtError
from fedrt.policies import make_policy
from fedrt.runs.loop import make_world, simulate_rounds

OURS, REFERENCE = "fedrt-joint", "fedrt"
RIVALS = (REFERENCE, "ce-fedavg", "fedrt-plus")
CODECS = ("int8", "int4")

Table = dict[str, Any]


def run_world(
    seed: int,
    number: int,
    known: Table | None = None,
    law: str | None = None,
    codecs: tuple[str, ...] = CODECS,
    rivals: tuple[str, ...] = RIVALS,
) -> Table:
    """Seconds, joules and overspend of each policy with each codec in one world.

    `known`: what an earlier call has found, of which the rivals' runs are taken. `law`: a law of
    the physical layer other than the paper's.
    """
    found: Table = {"number": number, "codecs": {}}
    with tempfile.TemporaryDirectory() as folder:
        plain = random_world(seed, number, Path(folder), law)
        found["world"] = words(plain)
        for codec in codecs:
            learning = replace(plain.learning, upload=codec, gossip=codec)
            try:
                world = make_world(replace(plain, learning=learning), number)
            except FedrtError as error:
                return found | {"error": str(error)}
            budget_j = world.fleet.energy_budget_j
            found["budget_j"] = float(budget_j[np.isfinite(budget_j)].sum())
            runs = {} if known is None else {name: known["codecs"][codec][name] for name in rivals}
            again = [name for name in (*rivals, OURS) if name not in runs]
            found["codecs"][codec] = runs | {name: _run(world, name) for name in again}
    return found


def _run(world: Any, name: str) -> Table:
    done, delivered = None, 0
    for done in simulate_rounds(world, make_policy(name)):
        delivered += sum(int(turn.outcome.delivered.sum()) for turn in done.edge_rounds)
    assert done is not None
    ledger = done.last.after
    return {
        "time_s": ledger.time_s,
        "energy_j": float(ledger.spent_j.sum()),
        "over_j": float(ledger.overspent_j.sum()),
        "delivered": delivered,
    }


def behind(runs: Table, rival: str, budget_j: float) -> float:
    """By how much a rival that overspends no more and delivers as much is faster; else 0."""
    ours, its = runs[OURS], runs[rival]
    fair = its["delivered"] >= ours["delivered"]
    if not fair or its["over_j"] > ours["over_j"] + TOLERANCE * budget_j or its["time_s"] <= 0:
        return 0.0
    return max(0.0, ours["time_s"] / its["time_s"] - 1)


def summary(worlds: list[Table]) -> Table:
    """What holds over all worlds, for each codec and rival."""
    good = [found for found in worlds if "error" not in found]
    data: Table = {"worlds": len(good), "refused": len(worlds) - len(good)}
    for codec in CODECS:
        for rival in RIVALS:
            parts = {
                found["number"]: behind(found["codecs"][codec], rival, found["budget_j"])
                for found in good
            }
            saved = [
                1 - found["codecs"][codec][OURS]["time_s"] / found["codecs"][codec][rival]["time_s"]
                for found in good
                if found["codecs"][codec][rival]["time_s"] > 0
            ]
            data[f"{rival} {codec}"] = {
                "beaten_by_more_than_1_percent": {
                    number: part for number, part in parts.items() if part > OFTEN_BEHIND
                },
                "worst_beaten": max(parts.values(), default=0.0),
                "time_saved_median": float(np.median(saved)),
                "time_saved_mean": float(np.mean(saved)),
                "time_saved_quantiles_0_5_25_75_95_100": np.quantile(
                    saved, [0, 0.05, 0.25, 0.75, 0.95, 1]
                ).tolist(),
            }
        data[f"overspends more than {REFERENCE} {codec}"] = [
            found["number"]
            for found in good
            if found["codecs"][codec][OURS]["over_j"]
            > found["codecs"][codec][REFERENCE]["over_j"] + TOLERANCE * found["budget_j"]
        ]
    return data


def broken_claims(data: Table) -> list[str]:
    """What a summary shows not to hold, a line each."""
    lines = []
    for name, value in data.items():
        if isinstance(value, list) and value:
            lines.append(f"{name} in worlds {value}")
        if not isinstance(value, dict):
            continue
        often = len(value["beaten_by_more_than_1_percent"])
        if often > MOST_OFTEN * data["worlds"]:
            lines.append(f"beaten by {name} by more than {OFTEN_BEHIND:.0%} in {often} worlds")
        if value["worst_beaten"] > MOST_BEHIND:
            lines.append(f"beaten by {name} by {value['worst_beaten']:.2%}")
    return lines


def _one(task: tuple[int, int, Table | None]) -> Table:
    return run_world(*task)


def main() -> int:
    """Run the worlds and say what holds."""
    parser = argparse.ArgumentParser(description="fedrt-joint on random worlds")
    parser.add_argument("--worlds", type=int, default=300)
    parser.add_argument("--only", help="numbers of single worlds, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rivals", type=Path, help="a saved file to take the rivals' runs from")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    earlier: Table = json.loads(args.rivals.read_text()) if args.rivals else {"worlds": []}
    known = {found["number"]: found for found in earlier["worlds"] if "error" not in found}
    if args.rivals and earlier["seed"] != args.seed:
        parser.error(f"--rivals {args.rivals}: has the worlds of seed {earlier['seed']}")
    numbers = list(range(args.worlds))
    if args.only:
        numbers = [int(number) for number in args.only.split(",")]
    worlds = []
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        tasks = [(args.seed, number, known.get(number)) for number in numbers]
        for found in pool.imap(_one, tasks, chunksize=2):
            worlds.append(found)
            if args.only:
                print(found, flush=True)
    data = summary(worlds)
    for name, value in data.items():
        print(name, value, flush=True)
    if args.save:
        whole = {"seed": args.seed, "environment": start_environment()}
        if args.rivals:
            whole["rivals"] = earlier.get("rivals") or earlier["environment"]
        save(args.save, whole | {"summary": data, "worlds": worlds})
    lines = broken_claims(data)
    for line in lines:
        print(f"does not hold: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
