"""How long the allocation takes under each law of the physical layer, on fleets like the paper's.

    python benchmarks/allocation_laws.py [--save FILE] [--repeats N]

Before anything is timed, the times of some clusters are compared with CVXPY/Clarabel's, and those
in whole blocks with the least that any shares allow. Compiling is not timed. The million devices
run in a fresh process, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from control import AGREEMENT, cluster, fleet, seconds_of, show, summary
from provenance import save

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.shares import Allocation
from fedrt.cost.round import price
from fedrt.plan import Plan, plan_problems
from fedrt.world.laws import CpuTables, Laws
from fedrt.world.observation import Observation

BLOCK_HZ = 15e3
CONVEX = ("paper", "noise density", "power control", "tables", "idle power")
TABLES, POINTS = 16, 6
COMPARED = 3
"""States of which the first cluster is compared with CVXPY/Clarabel."""


def under(seen: Observation, law: str) -> Observation:
    """The fleet under a law; with spread noise its SNRs are those over an even share."""
    size, laws = seen.num_devices, Laws()
    if law in ("noise density", "power control", "noise density in blocks"):
        share_hz = (seen.edge_bandwidth_hz / seen.cluster_size)[seen.edge_of_device]
        laws = Laws(cn0_hz=seen.snr * share_hz, power_control=law == "power control")
    if law in ("blocks", "noise density in blocks"):
        laws = replace(laws, block_hz=BLOCK_HZ)
    if law == "idle power":
        laws = Laws(idle_power_w=np.full(size, 1e-3))
    if law == "tables":
        hz = np.linspace(3e9, 2e9, POINTS)
        capacitance = np.quantile(seen.capacitance, (np.arange(TABLES) + 0.5) / TABLES)
        joules = (capacitance[:, None] / 2 * hz**2).ravel()
        first = np.arange(TABLES + 1) * POINTS
        laws = Laws(cpu=CpuTables(np.arange(size) % TABLES, first, np.tile(1 / hz, TABLES), joules))
    return replace(seen, laws=laws)


def plan_of(seen: Observation, found: Allocation) -> Plan:
    """The plan with an allocation."""
    steps = np.full(seen.num_devices, seen.local_steps)
    hz = (found.bandwidth_hz, found.cpu_hz)
    return Plan("feasible", *hz, steps, tx_power_w=found.tx_power_w)


def worst_difference(law: str) -> float:
    """The most that a cluster's time is off CVXPY/Clarabel's, relative."""
    from reference.cvxpy_laws import solve_law, solve_power

    worst = 0.0
    for seed in range(COMPARED):
        seen, allowance_j = cluster(*fleet(8, 9, seed), 0)
        seen = under(seen, law)
        time_s = float(price(plan_of(seen, allocate(seen, allowance_j)), seen).edge_time_s[0])
        if law == "power control":
            verdict, theirs_s = solve_power(seen, allowance_j, time_s)
        else:
            verdict, theirs_s = solve_law(seen, allowance_j)
        if verdict == "infeasible":
            raise SystemExit(f"{law}: CVXPY/Clarabel finds no allocation: nothing is timed")
        if verdict == "solved":
            worst = max(worst, abs(time_s / theirs_s - 1))
    if not worst <= AGREEMENT:
        raise SystemExit(f"{law}: the two sides disagree by {worst:.2g}: nothing is timed")
    return worst


def small(repeats: int) -> dict[str, Any]:
    """8 edges of 9 devices under every convex law, and in whole blocks."""
    found: dict[str, Any] = {}
    for law in (*CONVEX, "blocks", "noise density in blocks"):
        worst = worst_difference(law) if law in CONVEX else None
        samples = []
        for seed in range(repeats):
            seen, allowance_j = fleet(8, 9, seed)
            state = (under(seen, law), allowance_j)
            allocate(*state)
            samples.append(seconds_of(lambda s=state: [allocate(*s) for _ in range(20)]) / 20)
        found[law] = summary(samples)
        if worst is not None:
            found[law]["worst_difference_from_cvxpy"] = worst
    return found


def in_blocks(repeats: int) -> dict[str, Any]:
    """10,000 devices on 100 edges in whole blocks of 15 kHz, at a fixed SNR and with noise."""
    found: dict[str, Any] = {}
    for law in ("blocks", "noise density in blocks"):
        seen, allowance_j = fleet(100, 100, 1)
        seen = under(seen, law)
        divided = price(plan_of(seen, allocate(seen, allowance_j)), seen)
        plan = plan_of(seen, allocate(seen, allowance_j))
        free = replace(seen, laws=replace(seen.laws, block_hz=None))
        least = price(plan_of(free, allocate(free, allowance_j)), free)
        if plan_problems(plan, seen) or (divided.edge_time_s < least.edge_time_s * 0.999999).any():
            raise SystemExit(f"{law}: the plan is not one in whole blocks: nothing is timed")
        samples = [seconds_of(lambda: allocate(seen, allowance_j)) for _ in range(repeats)]  # noqa: B023
        found[law] = summary(samples)
        more = divided.edge_time_s.mean() / least.edge_time_s.mean() - 1
        found[law]["longer_than_with_any_shares"] = float(more)
    return found


def at_scale(repeats: int) -> dict[str, Any]:
    """1,000,000 devices on 10,000 edges with noise density, in fresh processes."""
    runs = []
    for _ in range(repeats):
        command = [sys.executable, __file__, "--worker"]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        runs.append(json.loads(out))
    return {
        **summary([run["median_s"] for run in runs]),
        "first_call_s": float(np.median([run["first_s"] for run in runs])),
        "peak_rss_mb": max(run["peak_rss_mb"] for run in runs),
    }


def worker() -> None:
    """Time the million devices and print it with the peak memory of this process."""
    seen, allowance_j = fleet(2, 9, 0)
    allocate(under(seen, "noise density"), allowance_j)  # load the compiled kernel
    seen, allowance_j = fleet(10_000, 100, 1)
    seen = under(seen, "noise density")
    samples = [seconds_of(lambda: allocate(seen, allowance_j)) for _ in range(4)]
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    median_s = float(np.median(samples[1:]))
    print(json.dumps({"first_s": samples[0], "median_s": median_s, "peak_rss_mb": peak_mb}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, help="write the results to this JSON file")
    parser.add_argument("--repeats", type=int, default=30, help="states per law")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker()
        return
    packages = ("numpy", "numba", "cvxpy", "clarabel")
    results: dict[str, Any] = {
        "command": "python benchmarks/allocation_laws.py " + " ".join(sys.argv[1:]),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "config": {"repeats": args.repeats, "agreement": AGREEMENT, "block_hz": BLOCK_HZ},
        "8 edges x 9 devices": small(args.repeats),
        "10,000 devices on 100 edges, whole blocks": in_blocks(5),
        "1,000,000 devices on 10,000 edges, noise density": at_scale(3),
    }
    for title, value in results.items():
        show(title, value)
    save(args.save, results)


if __name__ == "__main__":
    main()
