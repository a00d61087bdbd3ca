"""Edge rounds a second of the Gymnasium environment, on one core.

    python benchmarks/environment.py --save benchmarks/results/environment.json

Random actions in the paper's FEMNIST scenario: 72 devices at 8 edge servers, runs of 400 edge
rounds, worlds and resets included. Seconds are those of the processor, so that other programs do
not count.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from provenance import save, start_environment

from fedrt.cli import guarded
from fedrt.environment import HFELEnv

SCENARIO = "paper/femnist"
STEPS = 2_000
REPEATS = 5


def rounds_per_s(kind: str) -> dict[str, Any]:
    env, rng = HFELEnv(SCENARIO, actions=kind), np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (STEPS, *env.action_space.shape))
    found = []
    for repeat in range(REPEATS + 1):
        env.reset(seed=repeat)
        before = time.process_time()
        for action in actions:
            if env.step(action)[2]:
                env.reset()
        found.append(STEPS / (time.process_time() - before))
    found = sorted(found[1:])  # the first compiles
    quartiles = statistics.quantiles(found, n=4)
    return {"median": statistics.median(found), "quartiles": [quartiles[0], quartiles[2]]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    known = start_environment()
    result = {
        "scenario": SCENARIO,
        "devices": 72,
        "steps": STEPS,
        "repeats": REPEATS,
        "rounds_per_cpu_s": {kind: rounds_per_s(kind) for kind in ("full", "small")},
        "environment": known,
    }
    for kind, each in result["rounds_per_cpu_s"].items():
        low, high = each["quartiles"]
        print(f"{kind}: {each['median']:.0f} edge rounds a second ({low:.0f} to {high:.0f})")
    save(args.save, result)
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
