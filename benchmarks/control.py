"""How long decisions take: the allocation beside CVXPY/Clarabel, link searches, policies whole.

    python benchmarks/control.py [--save FILE] [--repeats N] [--only WORDS]

Both sides run in this process, one after the other in turn, after their answers were compared.
Compiling is not timed on either side: the kernel is warmed up, the CVXPY problem is parametrised
(DPP) and built beforehand. The million-device case runs in a fresh process, so that its peak
memory is its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from provenance import save

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fedrt.control.allocation.allocate import allocate  # noqa: E402
from fedrt.control.coding.menu import MENU, make_menu  # noqa: E402
from fedrt.control.mixing.fastest import simple_weights  # noqa: E402
from fedrt.control.mixing.gossip import choose_gossip  # noqa: E402
from fedrt.control.topology.consensus import consensus_limit  # noqa: E402
from fedrt.control.topology.links import best_links, finish_time_s, prune_greedily  # noqa: E402
from fedrt.cost.round import price  # noqa: E402
from fedrt.cost.uplink import upload_time_s  # noqa: E402
from fedrt.ledger import Ledger, PartOfBooks  # noqa: E402
from fedrt.plan import plan_problems  # noqa: E402
from fedrt.policies.fedrt import FedRT  # noqa: E402
from fedrt.policies.fedrt_joint import FedRTJoint  # noqa: E402
from fedrt.policies.fedrt_plus import FedRTPlus  # noqa: E402
from fedrt.rounds import as_planned  # noqa: E402
from fedrt.runs.reference import reference_round  # noqa: E402
from fedrt.world.observation import Backhaul, Observation  # noqa: E402

AGREEMENT = 1e-6
TOLERANCE = 1e-8  # Clarabel's own default


def fleet(num_edges: int, per_edge: int, seed: int) -> tuple[Observation, np.ndarray]:
    """A fleet like the paper's (FEMNIST, ResNet-20), allowed 1.5 to 2 J: half the budgets bind."""
    rng = np.random.default_rng(seed)
    size = num_edges * per_edge
    seen = Observation(
        model_bits=32 * 272_814.0,
        local_steps=10,
        gossip_steps=10,
        edge_of_device=np.repeat(np.arange(num_edges), per_edge),
        cycles=np.full(size, 10 * 32 * 94.2e6),
        snr=10 ** (rng.uniform(0, 15, size) / 10),
        tx_power_w=np.full(size, 0.01),
        capacitance=2e-28 * rng.uniform(0.01, 0.1, size),
        cpu_min_hz=np.full(size, 2e9),
        cpu_max_hz=np.full(size, 3e9),
        edge_bandwidth_hz=np.full(num_edges, 1e6 * per_edge / 9),
    )
    return seen, rng.uniform(1.5, 2.0, size)


def cluster(seen: Observation, allowance_j: np.ndarray, c: int) -> tuple[Observation, np.ndarray]:
    """One cluster by itself."""
    part = slice(int(seen.first_device[c]), int(seen.first_device[c + 1]))
    columns = ("cycles", "snr", "tx_power_w", "capacitance", "cpu_min_hz", "cpu_max_hz")
    alone = replace(
        seen,
        edge_of_device=np.zeros(part.stop - part.start, dtype=np.int64),
        edge_bandwidth_hz=seen.edge_bandwidth_hz[c : c + 1],
        **{name: getattr(seen, name)[part] for name in columns},
    )
    return alone, allowance_j[part]


def cluster_times_s(seen: Observation, allowance_j: np.ndarray) -> np.ndarray:
    """The time of each cluster under `allocate`."""
    plan = allocate(seen, allowance_j)
    upload_s = upload_time_s(seen.model_bits, seen.snr, plan.bandwidth_hz)
    return seen.max_by_edge(seen.cycles / plan.cpu_hz + upload_s)


def seconds_of(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def summary(samples: list[float]) -> dict[str, float]:
    low, middle, high = np.quantile(samples, [0.25, 0.5, 0.75])
    return {"median_s": float(middle), "q1_s": float(low), "q3_s": float(high), "n": len(samples)}


def against_cvxpy(repeats: int) -> dict[str, Any]:
    """8 edges of 9 devices: `allocate` beside the same problem in CVXPY, two ways of posing it."""
    from reference.cvxpy_allocation import AllocationProblem

    problem = AllocationProblem(np.zeros(9, dtype=np.int64))
    joint = AllocationProblem(np.repeat(np.arange(8), 9))
    states = [fleet(8, 9, seed) for seed in range(repeats)]

    def one_by_one(state: tuple[Observation, np.ndarray]) -> np.ndarray:
        answers = [problem.solve(*cluster(*state, c), TOLERANCE) for c in range(8)]
        return np.array([answer.time_s[0] for answer in answers])

    def together(state: tuple[Observation, np.ndarray]) -> np.ndarray:
        return joint.solve(*state, TOLERANCE).time_s

    worst = 0.0
    for state in states:
        ours = cluster_times_s(*state)
        for theirs in (one_by_one(state), together(state)):
            worst = max(worst, float(np.abs(theirs / ours - 1).max()))
    if not worst <= AGREEMENT:
        raise SystemExit(f"the two sides disagree by {worst:.2g}: nothing is timed")

    samples: dict[str, list[float]] = {"fedrt": [], "cvxpy_one_by_one": [], "cvxpy_joint": []}
    for state in states:
        # The kernel takes microseconds: time a batch of calls.
        batch = seconds_of(lambda s=state: [allocate(*s) for _ in range(50)])
        samples["fedrt"].append(batch / 50)
        samples["cvxpy_one_by_one"].append(seconds_of(lambda s=state: one_by_one(s)))
        samples["cvxpy_joint"].append(seconds_of(lambda s=state: together(s)))
    result: dict[str, Any] = {name: summary(values) for name, values in samples.items()}
    ours = result["fedrt"]["median_s"]
    result["worst_relative_difference"] = worst
    result["times_faster_than_one_by_one"] = result["cvxpy_one_by_one"]["median_s"] / ours
    result["times_faster_than_joint"] = result["cvxpy_joint"]["median_s"] / ours
    result["times_faster_than_the_faster"] = min(
        result["times_faster_than_one_by_one"], result["times_faster_than_joint"]
    )
    return result


def at_scale(repeats: int) -> dict[str, Any]:
    """Fresh processes for 100,000 devices on 1,000 edges and ten times as many of both, in turn."""
    found: dict[int, list[dict[str, float]]] = {1_000: [], 10_000: []}
    for _ in range(repeats):
        for edges in found:
            command = [sys.executable, __file__, "--worker", str(edges)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[edges].append(json.loads(out))
    result: dict[str, Any] = {}
    for edges, runs in found.items():
        result[f"{edges * 100}_devices"] = {
            **summary([run["median_s"] for run in runs]),
            "first_call_s": float(np.median([run["first_s"] for run in runs])),
            "peak_rss_mb": max(run["peak_rss_mb"] for run in runs),
        }
    result["ten_times_the_devices_take_times_the_time"] = (
        result["1000000_devices"]["median_s"] / result["100000_devices"]["median_s"]
    )
    return result


def worker(num_edges: int) -> None:
    """Time one size and print it with the peak memory of this process."""
    allocate(*fleet(2, 9, 0))  # load the compiled kernel
    state = fleet(num_edges, 100, 1)
    first_s = seconds_of(lambda: allocate(*state))
    samples = [seconds_of(lambda: allocate(*state)) for _ in range(5)]
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {"first_s": first_s, "median_s": float(np.median(samples)), "peak_rss_mb": peak_mb}
    print(json.dumps(result))


def link_searches(repeats: int) -> dict[str, Any]:
    """Exact and greedy choice of links on complete base graphs."""
    result: dict[str, Any] = {}
    for size, count in ((8, repeats), (100, min(repeats, 10)), (500, min(repeats, 3))):
        samples: dict[str, list[float]] = {"exact": [], "greedy": []}
        gains = []
        for seed in range(count):
            rng = np.random.default_rng(seed)
            link_s = np.triu(rng.uniform(1, 10, (size, size)), 1)
            link_s = np.where(np.eye(size, dtype=bool), np.inf, link_s + link_s.T)
            distance = np.triu(1 + 0.3 * rng.uniform(size=(size, size)), 1)
            distance = distance + distance.T
            finish_s = rng.uniform(20, 30, size)
            limit = consensus_limit(np.isfinite(link_s), distance, 0.5)
            problem = (finish_s, link_s, distance, limit)
            times = [
                finish_time_s(search(*problem), finish_s, link_s)
                for search in (best_links, prune_greedily)
            ]
            if times[0] > times[1]:
                raise SystemExit("the exact search was beaten: nothing is timed")
            gains.append(1 - times[0] / times[1])
            samples["exact"].append(seconds_of(lambda p=problem: best_links(*p)))
            samples["greedy"].append(seconds_of(lambda p=problem: prune_greedily(*p)))
        result[f"{size}_servers"] = {name: summary(values) for name, values in samples.items()}
        result[f"{size}_servers"]["mean_round_time_saved"] = float(np.mean(gains))
    return result


def backhaul(size: int, seed: int) -> Backhaul:
    """A complete base graph near the paper's numbers, with rho as FedRT leaves it there."""
    rng = np.random.default_rng(seed)
    bps = np.triu(rng.uniform(1e6, 1e7, (size, size)), 1)
    distance = np.triu(1 + 0.3 * rng.uniform(size=(size, size)), 1)
    bps, distance = bps + bps.T, distance + distance.T
    return Backhaul(bps, distance, consensus_limit(bps > 0, distance, 0.5), 0.047)


def decisions(num_edges: int, per_edge: int, rounds: int, *, coded: bool = False) -> dict[str, Any]:
    """Whole decisions of a policy in a run of its own, first and last edge rounds apart.

    The policy is fedrt-plus or, `coded`, fedrt-joint with the usual menu of codecs and their usual
    limit. The plan of FedRT beside it is part of the decision and of its time.
    """
    fixed, _ = fleet(num_edges, per_edge, 0)
    if coded:
        fixed = replace(fixed, menu=make_menu(MENU, None, fixed.model_bits, 0.0, "benchmark"))
    policy: FedRTPlus = FedRTJoint() if coded else FedRTPlus()
    who = np.arange(num_edges * per_edge)
    ledger = beside = Ledger.open(np.full(len(who), 1.5 * 400), num_edges, 200, 2)
    wall: dict[str, list[float]] = {"earlier_edge_round": [], "last_edge_round": []}
    cpu: dict[str, list[float]] = {name: [] for name in wall}
    for t in range(rounds):
        for r, name in enumerate(wall):
            channels, _ = fleet(num_edges, per_edge, 2 * t + r + 1)
            links = backhaul(num_edges, t) if r else None
            seen = replace(fixed, snr=channels.snr, backhaul=links)
            start, start_cpu = time.perf_counter(), time.process_time()
            other = FedRT().plan(seen, PartOfBooks(beside, who))
            reference = reference_round(beside, seen, other, "metropolis")
            plan = policy.plan(seen, PartOfBooks(ledger, who, reference))
            wall[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - start_cpu)
            if plan_problems(plan, seen):
                raise SystemExit("a plan cannot be carried out: nothing is timed")
            ledger = ledger.charge(as_planned(plan, seen, price(plan, seen)))
            beside = beside.charge(as_planned(other, seen, price(other, seen)))
    # A machine that other work keeps busy shows less of that in its CPU time.
    return {name: summary(samples[1:]) for name, samples in wall.items()} | {
        f"{name}_cpu": summary(samples[1:]) for name, samples in cpu.items()
    }


def gossip_gaps(repeats: int) -> dict[str, Any]:
    """What simple weights and a bisection over prefixes lose, on complete graphs of 5 servers.

    Against the fastest weights, and against trying every subset with the same simple weights.
    """
    from reference.exhaustive_gossip import least_round_time_s

    lost: dict[str, list[float]] = {"against_fastest_weights": [], "against_exhaustive_search": []}
    for seed in range(repeats):
        links = backhaul(5, seed)
        with np.errstate(divide="ignore"):
            hop_s = 8.7e6 / links.bps
        finish_s = np.random.default_rng(seed).uniform(90, 105, 5)
        limits = (links.consensus_distance, links.consensus_limit, 0.047, 10)
        exact, simple = (
            choose_gossip(finish_s, hop_s, *limits, exact=exact) for exact in (True, False)
        )
        times = [
            finish_time_s(g.gossip.links, finish_s, g.gossip.steps * hop_s) for g in (exact, simple)
        ]
        best = least_round_time_s(finish_s, hop_s, *limits, lambda kept: simple_weights(kept).zeta)
        lost["against_fastest_weights"].append(times[1] / times[0] - 1)
        lost["against_exhaustive_search"].append(times[1] / best - 1)
    return {
        f"simple_weights_lose_{name}": {"mean": float(np.mean(x)), "most": float(np.max(x))}
        for name, x in lost.items()
    }


def show(title: str, value: Any, indent: int = 0) -> None:
    """Print nested results, timings on one line."""
    pad = "  " * indent
    if isinstance(value, dict) and "median_s" in value:
        scale, unit = (1e6, "us") if value["median_s"] < 1e-3 else (1e3, "ms")
        low, mid, high = (value[key] * scale for key in ("q1_s", "median_s", "q3_s"))
        rest = {k: v for k, v in value.items() if not k.endswith("_s") or k == "first_call_s"}
        more = ", ".join(f"{k} {v:.4g}" for k, v in rest.items())
        print(f"{pad}{title}: {mid:.4g} {unit} (quartiles {low:.4g} to {high:.4g}; {more})")
    elif isinstance(value, dict):
        print(f"{pad}{title}")
        for key, inner in value.items():
            show(key, inner, indent + 1)
    elif isinstance(value, float):
        print(f"{pad}{title}: {value:.4g}")
    else:
        print(f"{pad}{title}: {value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, help="write the results to this JSON file")
    parser.add_argument("--repeats", type=int, default=30, help="states per comparison")
    parser.add_argument("--only", metavar="WORDS", help="only the parts that these words name")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.worker)
        return
    packages = ("numpy", "numba", "cvxpy", "clarabel")
    results = {
        "command": "python benchmarks/control.py " + " ".join(sys.argv[1:]),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
        "config": {"repeats": args.repeats, "scale_repeats": 3, "agreement": AGREEMENT},
    }
    for title, value in results.items():
        show(title, value)
    parts = {
        "allocation, 8 edges x 9 devices, against CVXPY/Clarabel": lambda: against_cvxpy(
            args.repeats
        ),
        "allocation at scale, 100 devices an edge": lambda: at_scale(3),
        "links, exact and greedy": lambda: link_searches(args.repeats),
        "fedrt-plus, one decision, 8 edges x 9 devices": lambda: decisions(8, 9, args.repeats),
        "fedrt-plus, one decision, 500 edges x 200 devices": lambda: decisions(500, 200, 5),
        "fedrt-joint, one decision, 8 edges x 9 devices": lambda: decisions(
            8, 9, args.repeats, coded=True
        ),
        "fedrt-joint, one decision, 500 edges x 200 devices": lambda: decisions(
            500, 200, 5, coded=True
        ),
        "links, steps and weights, 5 edges": lambda: gossip_gaps(args.repeats),
    }
    parts = {title: measure for title, measure in parts.items() if (args.only or "") in title}
    for title, measure in parts.items():
        results[title] = measure()
        show(title, results[title])
    save(args.save, results)


if __name__ == "__main__":
    main()
