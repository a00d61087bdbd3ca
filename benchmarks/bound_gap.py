"""How far the hindsight bound lies below the optimum of worlds that are searched exhaustively.

    python benchmarks/bound_gap.py --save benchmarks/results/bound_gap.json

Random worlds with so few servers, devices and rounds that every choice of links and gossip steps is
tried in every global round; the rest of each is one convex program (tests/reference/whole_run.py).
The worlds are `enumerated` of tests/support/bound_worlds.py. Ten minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from provenance import save, start_environment

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from reference.whole_run import least_total_time_s
from support.bound_worlds import enumerated, limits

from fedrt.bound.whole_run import hindsight_bound

SHAPES = {
    "3 servers with 1 device each, 2 global rounds, up to 3 gossip steps": (3, 3, 2, 3),
    "3 servers, 5 devices, 2 global rounds, up to 3 gossip steps": (3, 5, 2, 3),
    "2 servers, 4 devices, 3 global rounds, up to 3 gossip steps": (2, 4, 3, 3),
    "4 servers with 1 device each, 1 global round, up to 2 gossip steps": (4, 4, 1, 2),
}
"""Servers, devices, global rounds of two edge rounds, and the most gossip steps."""
SOLVER = 1e-5
"""What the convex solver may leave of a run's time."""


def gap(shape: tuple[int, int, int, int], seed: int) -> float:
    """How far the bound is below the least time of a world, as a part of that."""
    world, rho, reach = enumerated(seed, *shape)
    distances, limit_j = limits(world, reach)
    least_s = least_total_time_s(world, distances, limit_j, rho)
    bound_s, _ = hindsight_bound(world, distances, limit_j, rho)
    return 1 - bound_s / least_s


def summary(gaps: Iterable[float]) -> dict[str, Any]:
    """How gaps are spread, in percent, and which world has the greatest."""
    percent = 100 * np.array(list(gaps))
    return {
        "worlds": len(percent),
        "median": float(np.median(percent)),
        "percentile_95": float(np.percentile(percent, 95)),
        "percentile_99": float(np.percentile(percent, 99)),
        "most": float(percent.max()),
        "most_in_seed": int(percent.argmax()),
        "least": float(percent.min()),
        "worlds_above_0.12": int((percent > 0.12).sum()),
        "worlds_above_1": int((percent > 1).sum()),
        "worlds_above_the_optimum": int((percent < -100 * SOLVER).sum()),
    }


def main() -> int:
    """Search the worlds of every shape; 1 if the bound is above the optimum of one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worlds", type=int, default=1000, help="of the first shape")
    parser.add_argument("--others", type=int, default=300, help="of each other shape")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    data: dict[str, Any] = {"command": " ".join(sys.argv), "environment": start_environment()}
    data["shapes"] = {}
    for words, shape in SHAPES.items():
        count = args.others if data["shapes"] else args.worlds
        gaps = [gap(shape, seed) for seed in range(count)]
        found = summary(gaps)
        data["shapes"][words] = found | {"gaps": [round(each, 8) for each in gaps]}
        print(f"{words}: {found}", flush=True)
        save(args.save, data)
    return int(any(row["worlds_above_the_optimum"] for row in data["shapes"].values()))


if __name__ == "__main__":
    sys.exit(main())
