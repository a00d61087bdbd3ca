"""The hindsight bound under laws other than the paper's: below every plan of small random worlds.

    python benchmarks/law_bounds.py --worlds 500 --save benchmarks/results/law_bounds.json

In each world two kinds of plans are held against the bound with what they spend as energy limits:
random ones (bandwidths, frequencies, powers and gossip steps all drawn), and random divisions of
`fedrt`'s energy over the run with the least time in each edge round. The policies `fedrt`,
`fedrt-plus` and the even split are held against the bound of `fedrt bound`.

The file is written every twenty worlds, and what is in it is not run again. Ends with exit code 1
where a plan is quicker than its bound by more than rounding.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from law_worlds import LAWS, add_law, in_batches, log_uniform, saved_worlds
from provenance import save, start_environment

from fedrt.bound.distances import stand_in_distances
from fedrt.bound.whole_run import hindsight_bound
from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.shares import whole_blocks
from fedrt.control.topology.consensus import see_backhaul
from fedrt.cost.round import price
from fedrt.errors import FedrtError
from fedrt.ledger import Ledger
from fedrt.plan import Gossip, Plan, plan_problems
from fedrt.rounds import as_planned
from fedrt.scenario.load import read_scenario
from fedrt.scenario.tables.toml_text import toml_text
from fedrt.studies.bound import beyond_limits, bound_world, run_policy
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld

POLICIES = ("fedrt", "fedrt-plus", "ce-fedavg")
PLANS = 1
"""Plans of each random kind in each world."""
ROUNDING = 1e-9

Table = dict[str, Any]


def small_world(law: str, seed: int, number: int) -> SimulatedWorld:
    """World `number` of a seed: 1 to 4 servers, up to 4 devices each, up to 3 global rounds."""
    draw = np.random.default_rng([seed, number])
    edges = int(draw.integers(1, 5))
    cpu_max_hz, hz = log_uniform(draw, 3e8, 4e9), log_uniform(draw, 3e4, 1e8)
    table: Table = {
        "name": f"small-{number}",
        "description": "",
        "fleet": {
            "num_edges": edges,
            "num_devices": edges * int(draw.integers(1, 5)),
            "cycles_per_sample": log_uniform(draw, 1e6, 1e8),
            "capacitance": {"uniform": sorted(log_uniform(draw, 1e-30, 1e-27) for _ in range(2))},
            "tx_power_w": {"uniform": sorted(log_uniform(draw, 3e-3, 3) for _ in range(2))},
            "cpu_min_hz": cpu_max_hz / log_uniform(draw, 1.2, 10),
            "cpu_max_hz": cpu_max_hz,
            "energy_j_per_edge_round": log_uniform(draw, 1e-3, 1e3),
        },
        "rounds": {
            "global_rounds": int(draw.integers(1, 4)),
            "edge_rounds": int(draw.integers(1, 3)),
            "local_steps": int(draw.integers(1, 21)),
            "gossip_steps": int(draw.integers(1, 5)),
        },
        "channel": {"kind": "uniform", "low_db": 0.0, "high_db": float(draw.uniform(1, 25))},
        "bandwidth": {"kind": "uniform", "low_hz": hz, "high_hz": hz * log_uniform(draw, 1, 10)},
        "backhaul": {"kind": "uniform", "low_bps": 1e6, "high_bps": 1e7},
        "base_graph": {"kind": "complete"},
        "learning": {
            "dataset": "digits",
            "model": "small-cnn",
            "model_bits": log_uniform(draw, 1e5, 1e8),
            "learning_rate": 0.1,
            "batch_size": 32,
        },
        "control": {"kappa": 0.5, "mixing": "metropolis"},
    }
    add_law(table, law, seed, number)
    return SimulatedWorld(read_scenario(toml_text(table)), number)


def random_hz(seen: Observation, rng: np.random.Generator) -> np.ndarray:
    """Random parts of each cluster's bandwidth; in whole blocks where they have to be."""
    part = rng.exponential(size=seen.num_devices) + 0.05
    share = part / seen.sum_by_edge(part)[seen.edge_of_device]
    block_hz = seen.laws.block_hz
    if block_hz is None:
        return share * seen.edge_bandwidth_hz[seen.edge_of_device]
    spare = whole_blocks(seen) - seen.cluster_size
    return block_hz * (1 + np.floor(share * spare[seen.edge_of_device]))


def random_plan(seen: Observation, rng: np.random.Generator) -> Plan:
    """A plan of one edge round in which everything is drawn."""
    some = rng.random(seen.num_devices) * rng.random()
    power_w = seen.tx_power_w * rng.uniform(0.05, 1.0, seen.num_devices)
    return Plan(
        status="feasible",
        bandwidth_hz=random_hz(seen, rng),
        cpu_hz=seen.cpu_min_hz + some * (seen.cpu_max_hz - seen.cpu_min_hz),
        local_steps=np.full(seen.num_devices, seen.local_steps),
        tx_power_w=power_w if seen.laws.power_control else None,
    )


def quickest_plan(seen: Observation, cap_j: np.ndarray) -> Plan:
    """The plan of least time for given allowances."""
    found = allocate(seen, cap_j)
    return Plan(
        status="feasible",
        bandwidth_hz=found.bandwidth_hz,
        cpu_hz=found.cpu_hz,
        local_steps=np.full(seen.num_devices, seen.local_steps),
        tx_power_w=found.tx_power_w,
    )


def carry_out(
    world: SimulatedWorld,
    distances: list[np.ndarray],
    rng: np.random.Generator,
    limit_j: np.ndarray | None = None,
) -> tuple[float, np.ndarray]:
    """Seconds of a plan of a whole run, and what its devices spend; all links are used.

    Random throughout, or the quickest plans for random parts of the limits.
    """
    rounds, fleet = world.scenario.rounds, world.fleet
    every = rounds.global_rounds * rounds.edge_rounds
    ledger = Ledger.open(
        fleet.energy_budget_j, fleet.num_edges, rounds.global_rounds, rounds.edge_rounds
    )
    parts = rng.dirichlet(np.full(every, 5.0))
    for t, distance in enumerate(distances):
        for r in range(rounds.edge_rounds):
            seen = world.observe(t, r, world.taking_part(t, r))
            if limit_j is None:
                plan = random_plan(seen, rng)
            else:
                part = parts[t * rounds.edge_rounds + r]
                plan = quickest_plan(seen, part * limit_j[seen.device])
            if r + 1 == rounds.edge_rounds:
                backhaul = see_backhaul(world.scenario, world.backhaul_bps(t), distance)
                seen = replace(seen, backhaul=backhaul)
                steps = int(rng.integers(1, rounds.gossip_steps + 1))
                plan = replace(plan, gossip=Gossip(backhaul.base_graph, steps))
            problems = plan_problems(plan, seen)
            if problems:
                raise FedrtError("; ".join(problems))
            ledger = ledger.charge(as_planned(plan, seen, price(plan, seen)))
    return ledger.time_s, ledger.spent_j


def run_world(law: str, seed: int, number: int) -> Table:
    """How far plans are above the bound in one world, as parts of it: the least of each kind."""
    found: Table = {"law": law, "number": number, "above": {}}
    rng = np.random.default_rng([seed, number, 99])
    try:
        world = small_world(law, seed, number)
        distances = stand_in_distances(world)
        runs = {name: run_policy(world, name, distances) for name in POLICIES}
    except FedrtError as error:
        return found | {"error": str(error)}
    began = time.perf_counter()
    bound = bound_world(world, distances, runs["fedrt"])
    found["wall_s"] = time.perf_counter() - began
    for name, run in runs.items():
        if not any(beyond_limits(bound, run).values()):
            found["above"][name] = run.time_s / bound.time_s - 1
    spent_j = runs["fedrt"].spent_j
    for kind, limit_j in (("random", None), ("quickest", spent_j)):
        above = []
        for _ in range(PLANS):
            time_s, plan_j = carry_out(world, distances, rng, limit_j)
            least_s, _ = hindsight_bound(world, distances, plan_j, None)
            above.append(time_s / least_s - 1)
        found["above"][kind] = min(above)
    return found


def summary(worlds: list[Table]) -> Table:
    """Per law: worlds, plans below their bound, and how near plans come to it."""
    data: Table = {}
    for law in LAWS:
        mine = [found for found in worlds if found["law"] == law]
        good = [found for found in mine if "error" not in found]
        if not mine:
            continue
        kinds = {kind for found in good for kind in found["above"]}
        above = {
            kind: [f["above"][kind] for f in good if kind in f["above"]] for kind in sorted(kinds)
        }
        data[law] = {
            "worlds": len(good),
            "refused": len(mine) - len(good),
            "broken": [f["number"] for f in good if min(f["above"].values()) < -ROUNDING],
            "least_above": {kind: float(min(values)) for kind, values in above.items()},
            "median_above": {kind: float(np.median(values)) for kind, values in above.items()},
        }
    return data


def _one(task: tuple[str, int, int]) -> Table:
    return run_world(*task)


def main() -> int:
    """Search the worlds of every law and say what holds."""
    parser = argparse.ArgumentParser(description="the bound under laws other than the paper's")
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--laws", default=",".join(LAWS))
    parser.add_argument("--only", help="numbers of single worlds, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    laws = args.laws.split(",")
    batches = [[int(n) for n in args.only.split(",")]] if args.only else in_batches(args.worlds)
    worlds = [] if args.only else saved_worlds(args.save)
    done = {(found["law"], found["number"]) for found in worlds}
    data: Table = {}
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for numbers in batches:
            tasks = [(law, args.seed, number) for law in laws for number in numbers]
            tasks = [task for task in tasks if (task[0], task[2]) not in done]
            for found in pool.imap(_one, tasks, chunksize=4):
                worlds.append(found)
                if args.only or "error" in found:
                    print(found, flush=True)
            data = summary(worlds)
            if args.save and tasks:
                head = {"command": " ".join(sys.argv), "seed": args.seed}
                head |= {"environment": start_environment(), "summary": data}
                save(args.save, head | {"worlds": worlds})
    for law, value in data.items():
        print(law, value, flush=True)
    broken = {law: value["broken"] for law, value in data.items() if value["broken"]}
    for law, worlds_of_law in broken.items():
        print(f"does not hold: {law}: plans below the bound in worlds {worlds_of_law}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
