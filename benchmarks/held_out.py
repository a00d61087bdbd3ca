"""fedrt-plus against fedrt in the paper's settings on seeds that nothing was made with.

    python benchmarks/held_out.py --save benchmarks/results/held_out.json

Without training, under four budgets, seeds 100 to 129. A world that the file has already from the
same source is not run again, so the command goes on where it was stopped. `tools/figures.py` makes
the table of docs/beyond.md from the file.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

from beyond import PLUS, budget, line, run
from provenance import earlier, save, start_environment

from fedrt.cli import guarded

PRESETS = {
    "CIFAR-10 IID": "paper/cifar10-iid",
    "FEMNIST": "paper/femnist",
    "FMNIST IID": "paper/fmnist-iid",
}
BUDGETS_J = (1.0, 1.25, 1.5, 2.0)
SEEDS = tuple(range(100, 130))
TITLE = "budget, J per edge round"


def one_seed(task: tuple[tuple[str, ...], int]) -> dict[str, Any]:
    """Both policies in one world."""
    words, seed = task
    return run(words, PLUS, [seed])


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Results of single seeds as lists over seeds."""
    return {
        policy: {key: [part[policy][key][0] for part in parts] for key in parts[0][policy]}
        for policy in parts[0]
    }


def main() -> int:
    """Run every world and save it; the exit code."""
    return guarded(run_all)


def run_all() -> int:
    """Run every world and save it."""
    parser = argparse.ArgumentParser(description="fedrt-plus against fedrt on held-out seeds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--only", default="", help="worlds whose name has this in it")
    args = parser.parse_args()
    data: dict[str, Any] = {"command": " ".join(sys.argv), "seeds": list(SEEDS)}
    data |= {"environment": start_environment(), "worlds": {TITLE: {}}}
    if before := earlier(args.save):
        data["worlds"] = before["worlds"]
    own = data["worlds"][TITLE]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for title, preset in PRESETS.items():
            for joules in BUDGETS_J:
                name, words = f"{title} {joules:g}", budget(preset, joules)
                if args.only not in name:
                    continue
                if name not in own:
                    own[name] = joined(pool.map(one_seed, [(words, s) for s in SEEDS], 1))
                    save(args.save, data)
                print(f"{name}: {line(own[name], 'fedrt-plus', list(SEEDS))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
