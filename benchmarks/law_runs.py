"""fedrt-plus and fedrt-joint against fedrt on random worlds under every law of the physical layer.

    python benchmarks/law_runs.py --worlds 200 --save benchmarks/results/law_runs.json

The worlds of `random_worlds.py` with up to 8 global rounds, each under every law in turn with
settings over wide ranges (`law_worlds.py`); `several` are two or more at once. fedrt-joint runs
with int4 for everybody, which also sets its distortion limit, as in `joint_worlds.py`. The file is
written every twenty worlds, and what is in it is not run again.

Ends with exit code 1 where what is claimed does not hold under some law: slower than `fedrt` by
more than 1 % in at most 0.5 % of the worlds, by more than 3 % in none, never more overspend.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import joint_worlds
import numpy as np
import random_worlds
from law_worlds import LAWS, in_batches, saved_worlds
from provenance import save, start_environment

REFERENCE, PLUS, JOINT = "fedrt", "fedrt-plus", "fedrt-joint"
CODEC = "int4"

Table = dict[str, Any]


def run_world(law: str, policy: str, seed: int, number: int) -> Table:
    """What a policy does in one world, against `fedrt`."""
    began = time.perf_counter()
    found: Table = {"law": law, "policy": policy, "number": number}
    if policy == JOINT:
        world = joint_worlds.run_world(seed, number, None, law, (CODEC,), (REFERENCE,))
        runs = world["codecs"].get(CODEC)
    else:
        world = random_worlds.run_world(seed, number, (REFERENCE, policy), law)
        runs = world["policies"]
    found["world"] = world["world"]
    if "error" in world:
        return found | {"error": world["error"]}
    ours, its = runs[policy], runs[REFERENCE]
    margin_j = random_worlds.TOLERANCE * world["budget_j"]
    fair = its["delivered"] >= ours["delivered"] and its["over_j"] <= ours["over_j"] + margin_j
    return found | {
        "time_s": ours["time_s"],
        "fedrt_s": its["time_s"],
        "behind": max(0.0, ours["time_s"] / its["time_s"] - 1) if fair else 0.0,
        "overspends": bool(ours["over_j"] > its["over_j"] + margin_j),
        "energy": ours["energy_j"] / its["energy_j"] if its["energy_j"] > 0 else 1.0,
        "wall_s": time.perf_counter() - began,
    }


def summary(worlds: list[Table]) -> Table:
    """What holds for each law and policy."""
    data: Table = {}
    for law, policy in itertools.product(LAWS, (PLUS, JOINT)):
        mine = [found for found in worlds if (found["law"], found["policy"]) == (law, policy)]
        good = [found for found in mine if "error" not in found]
        if not good:
            continue
        behind = {found["number"]: found["behind"] for found in good}
        saved = [1 - found["time_s"] / found["fedrt_s"] for found in good]
        data.setdefault(law, {})[policy] = {
            "worlds": len(good),
            "refused": len(mine) - len(good),
            "behind_by_more_than_1_percent": {
                n: part for n, part in behind.items() if part > random_worlds.OFTEN_BEHIND
            },
            "worst_behind": max(behind.values()),
            "overspends_more": [found["number"] for found in good if found["overspends"]],
            "time_saved_mean": float(np.mean(saved)),
            "time_saved_median": float(np.median(saved)),
            "energy_mean": float(np.mean([found["energy"] for found in good])),
        }
    return data


def broken_claims(data: Table) -> list[str]:
    """What a summary shows not to hold, a line each."""
    lines = []
    for law, policies in data.items():
        for policy, own in policies.items():
            often, worlds = len(own["behind_by_more_than_1_percent"]), own["worlds"]
            where = f"{policy} under {law}"
            if often > random_worlds.MOST_OFTEN * worlds:
                lines.append(f"{where}: more than 1 % behind in {often} of {worlds} worlds")
            if own["worst_behind"] > random_worlds.MOST_BEHIND:
                lines.append(f"{where}: {own['worst_behind']:.2%} behind")
            if own["overspends_more"]:
                lines.append(f"{where}: overspends more in worlds {own['overspends_more']}")
    return lines


def _one(task: tuple[str, str, int, int]) -> Table:
    return run_world(*task)


def _is_bad(found: Table) -> bool:
    return bool(found["behind"] > random_worlds.OFTEN_BEHIND or found["overspends"])


def main() -> int:
    """Run the worlds of every law and say what holds."""
    parser = argparse.ArgumentParser(description="both policies under every law")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--laws", default=",".join(LAWS))
    parser.add_argument("--policies", default=f"{PLUS},{JOINT}")
    parser.add_argument("--only", help="numbers of single worlds, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    pairs = list(itertools.product(args.laws.split(","), args.policies.split(",")))
    batches = [[int(n) for n in args.only.split(",")]] if args.only else in_batches(args.worlds)
    worlds = [] if args.only else saved_worlds(args.save)
    done = {(found["law"], found["policy"], found["number"]) for found in worlds}
    data: Table = {}
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for numbers in batches:
            tasks = [(*pair, args.seed, number) for pair in pairs for number in numbers]
            tasks = [task for task in tasks if (task[0], task[1], task[3]) not in done]
            for found in pool.imap(_one, tasks, chunksize=2):
                worlds.append(found)
                if args.only or "error" in found or _is_bad(found):
                    print(found, flush=True)
            data = summary(worlds)
            if args.save and tasks:
                head = {"command": " ".join(sys.argv), "seed": args.seed}
                head |= {"environment": start_environment(), "summary": data}
                save(args.save, head | {"worlds": worlds})
    for law, value in data.items():
        print(law, value, flush=True)
    lines = broken_claims(data)
    for line in lines:
        print(f"does not hold: {line}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
