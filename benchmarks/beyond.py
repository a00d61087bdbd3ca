"""Where fedrt-plus helps and where not: total time and energy against fedrt over many worlds.

    python benchmarks/beyond.py --save benchmarks/results/beyond.json

Runs without training, on the same worlds for all policies. One line per world as it is done; the
saved file holds every number, and `--table FILE` prints it as Markdown (docs/beyond.md).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from provenance import save, start_environment

from fedrt.errors import FedrtError
from fedrt.scenario import load_scenario
from fedrt.studies.estimates import estimate

PARTS = ("exact_links", "joint_gossip", "slack", "pacing", "gossip_and_slack")
PLUS = ("fedrt", "fedrt-plus")
FEMNIST = ("paper/femnist", "rounds.global_rounds=100", "fleet.energy_j_per_edge_round=1.5")


def graph(kind: str, probability: float | None = None) -> str:
    """The setting of a base graph."""
    more = "" if probability is None else f",probability={probability}"
    return f'base_graph={{kind="{kind}"{more}}}'


def budget(preset: str, joules: float) -> tuple[str, ...]:
    """A preset under another budget, all its rounds."""
    return (preset, f"fleet.energy_j_per_edge_round={joules}")


def size(edges: int, devices: int, rounds: int) -> tuple[str, ...]:
    """FEMNIST's world with more servers on a sparse base graph."""
    links = graph("erdos-renyi", min(1.0, 12 / edges)) if edges > 12 else graph("complete")
    many = (f"fleet.num_edges={edges}", f"fleet.num_devices={devices}", links)
    return (*FEMNIST, *many, f"rounds.global_rounds={rounds}")


def channel(correlation: float) -> str:
    """Channels that move slowly: the same mean and deviation as the paper's, in dB."""
    return f'channel={{kind="gauss-markov",mean_db=7.5,std_db=4.33,correlation={correlation}}}'


WORLDS: dict[str, dict[str, tuple[str, ...]]] = {
    "budget, J per edge round": {
        "FEMNIST 1": budget("paper/femnist", 1.0),
        "FEMNIST 1.25": budget("paper/femnist", 1.25),
        "FEMNIST 1.5": budget("paper/femnist", 1.5),
        "FEMNIST 2": budget("paper/femnist", 2.0),
        "FEMNIST 4": budget("paper/femnist", 4.0),
        "CIFAR-10 IID 1": budget("paper/cifar10-iid", 1.0),
        "CIFAR-10 IID 1.5": budget("paper/cifar10-iid", 1.5),
        "CIFAR-10 IID 2": budget("paper/cifar10-iid", 2.0),
        "FMNIST IID 0.5": budget("paper/fmnist-iid", 0.5),
        "FMNIST IID 1": budget("paper/fmnist-iid", 1.0),
    },
    "base graph, FEMNIST 1.5 J, 100 rounds": {
        "ring": (*FEMNIST, graph("ring")),
        "star": (*FEMNIST, graph("star")),
        "links with p = 0.4": (*FEMNIST, graph("erdos-renyi", 0.4)),
        "links with p = 0.7": (*FEMNIST, graph("erdos-renyi", 0.7)),
        "complete": FEMNIST,
    },
    "channel, FEMNIST 1.5 J, 100 rounds": {
        "independent": FEMNIST,
        "correlation 0.5": (*FEMNIST, channel(0.5)),
        "correlation 0.9": (*FEMNIST, channel(0.9)),
        "never changes": (*FEMNIST, channel(1.0)),
    },
    "edge servers, FEMNIST 1.5 J": {
        "8 servers, 72 devices, 100 rounds": size(8, 72, 100),
        "32 servers, 288 devices, 50 rounds": size(32, 288, 50),
        "100 servers, 900 devices, 20 rounds": size(100, 900, 20),
        "500 servers, 4,500 devices, 6 rounds": size(500, 4500, 6),
    },
    "other, FEMNIST 1.5 J, 100 rounds": {
        "one edge round": (*FEMNIST, "rounds.edge_rounds=1"),
        "four edge rounds": (*FEMNIST, "rounds.edge_rounds=4"),
        "ten global rounds": (*FEMNIST, "rounds.global_rounds=10"),
        "uneven clusters": (*FEMNIST, 'fleet.cluster_sizes="uneven"'),
        "half of the devices a round": (*FEMNIST, "learning.participation=0.5"),
        "one gossip step": (*FEMNIST, "rounds.gossip_steps=1"),
    },
}
ABLATION = {
    "CIFAR-10 IID, 1.5 J": budget("paper/cifar10-iid", 1.5),
    "CIFAR-10 IID, 2 J": budget("paper/cifar10-iid", 2.0),
    "FEMNIST, 1.5 J": budget("paper/femnist", 1.5),
    "FEMNIST, 2 J": budget("paper/femnist", 2.0),
    "FMNIST IID, 1 J": budget("paper/fmnist-iid", 1.0),
}


def run(words: tuple[str, ...], policies: tuple[str, ...], seeds: list[int]) -> dict[str, Any]:
    """Time, energy and overspend of each policy on each seed."""
    results = estimate(load_scenario(words[0], words[1:]), policies, seeds)
    keys = ("total_time_s", "energy_j_mean", "over_budget_j", "over_budget_devices")
    return {
        name.rpartition(":")[2]: {key: [run[key] for run in runs] for key in keys}
        for name, runs in results.items()
    }


def changes(results: dict[str, Any], policy: str, key: str) -> list[float]:
    """By seed, the policy's value over fedrt's, less 1."""
    pairs = zip(results[policy][key], results["fedrt"][key], strict=True)
    return [a / b - 1 for a, b in pairs]


def change(results: dict[str, Any], policy: str, key: str) -> float:
    """The mean of the changes over seeds."""
    every = changes(results, policy, key)
    return sum(every) / len(every)


def worst(results: dict[str, Any], policy: str, seeds: list[int]) -> str:
    """The greatest change in time of all seeds, with its seed."""
    every = changes(results, policy, "total_time_s")
    most = max(every)
    return f"{most:+.1%}, seed {seeds[every.index(most)]}"


def line(results: dict[str, Any], policy: str, seeds: list[int]) -> str:
    """The change in time, mean and worst seed, and in energy, and overspend beside fedrt's."""
    over = [sum(results[name]["over_budget_j"]) for name in (policy, "fedrt")]
    words = f"{over[0]:.0f} J ({over[1]:.0f})" if any(over) else "none"
    time_, energy = (change(results, policy, k) for k in ("total_time_s", "energy_j_mean"))
    return f"{time_:+.1%} | {worst(results, policy, seeds)} | {energy:+.1%} | {words}"


HEADS = (
    "| | time, mean | worst seed | energy, mean | over budget, sum (fedrt's) |\n" + "|---" * 5 + "|"
)


def worlds_table(data: dict[str, Any]) -> str:
    """Every world of the file as Markdown, the worst seed beside each mean."""
    lines = []
    for title, worlds in data["worlds"].items():
        lines += [f"**{title}**", "", HEADS]
        for name, results in worlds.items():
            blank = " | | | "
            said = f"{results}{blank}" if isinstance(results, str) else ""
            lines.append(f"| {name} | {said or line(results, 'fedrt-plus', data['seeds'])} |")
        lines.append("")
    return "\n".join(lines)


def parts_table(data: dict[str, Any]) -> str:
    """Time of each part of the policy alone, mean and worst seed, as Markdown."""
    first = next(iter(data["ablation"].values()))
    policies = [name for name in first if name != "fedrt"]
    lines = ["| | " + " | ".join(policies) + " |", "|---" * (len(policies) + 1) + "|"]
    for name, results in data["ablation"].items():
        cells = []
        for policy in policies:
            every = changes(results, policy, "total_time_s")
            cells.append(f"{sum(every) / len(every):+.1%} ({max(every):+.1%})")
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines) + "\n"


def table(data: dict[str, Any]) -> str:
    """The whole file as Markdown."""
    title = "**each part alone, time against fedrt, mean over seeds (worst seed)**"
    return f"{worlds_table(data)}\n{title}\n\n{parts_table(data)}"


def main() -> int:
    """Run every world, or print a saved file."""
    parser = argparse.ArgumentParser(description="fedrt-plus against fedrt over many worlds")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--table", type=Path, help="print a saved file as Markdown, run nothing")
    args = parser.parse_args()
    if args.table:
        print(table(json.loads(args.table.read_text())))
        return 0
    seeds = [int(word) for word in args.seeds.split(",")]
    data: dict[str, Any] = {"command": " ".join(sys.argv), "seeds": seeds}
    data |= {"environment": start_environment(), "worlds": {}, "ablation": {}}
    for title, worlds in WORLDS.items():
        own = data["worlds"].setdefault(title, {})
        for name, words in worlds.items():
            began = time.perf_counter()
            try:
                own[name] = run(words, PLUS, seeds)
                said = line(own[name], "fedrt-plus", seeds)
            except FedrtError as error:
                own[name] = said = str(error)
            print(f"{title}: {name}: {said} [{time.perf_counter() - began:.0f} s]", flush=True)
            save(args.save, data)
    parts = tuple(f"fedrt.policies.fedrt_plus:{part}" for part in PARTS)
    for name, words in ABLATION.items():
        results = run(words, ("fedrt", *parts, "fedrt-plus"), seeds)
        true = run((*words, 'control.energy_horizon="exact"'), ("fedrt",), seeds)
        data["ablation"][name] = {"fedrt": results.pop("fedrt"), "true horizon": true["fedrt"]}
        data["ablation"][name] |= results
        print(f"ablation: {name}", flush=True)
        save(args.save, data)
    print(table(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
