"""What Byzantine devices cost in accuracy where edge servers screen updates.

    PYTHONPATH=src python benchmarks/attacks.py --save benchmarks/results/attacks.json
    PYTHONPATH=src python benchmarks/attacks.py --quick

Digits and a perceptron with one hidden layer of 32. One and two devices of a cluster of eight, and
one of each of two clusters of four, send something else than what they trained; each run is
compared with the one of the same seed from which these devices are absent. Runs without a bad
device show whether an honest one is refused: clusters of three, four, eight and nine, several data
sets, seeds and optimisers. `--quick` does one of each kind for a few rounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from provenance import save, start_environment
from torch import Tensor, nn

from fedrt.cli import guarded
from fedrt.learning.engines.engine import DivergedError
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.records.summary import Account
from fedrt.runs.loop import simulate_rounds
from fedrt.scenario import load_scenario
from fedrt.world.simulated import SimulatedWorld

LEARNING = (
    "learning={model='attacks:Perceptron',learning_rate=0.1,screening=true}",
    "fleet.cluster_sizes=even",
)
ATTACKS = {
    "3e38": "kind='huge'",
    "1e6 x noise": "kind='noise',scale=1e6",
    "100 x noise": "kind='noise',scale=100",
    "random model, 1e9 samples": "kind='random-model'",
    "a little is enough": "kind='a-little-is-enough'",
    "inner product": "kind='inner-product'",
    "sign flip": "kind='sign-flip'",
    "sign flip, from round 5": "kind='sign-flip',first_round=5",
    "sign flip x 3": "kind='sign-flip',scale=3",
    "sign flip x 3, from round 5": "kind='sign-flip',scale=3,first_round=5",
}
DATA = {
    "IID": "learning.partition={kind='iid'}",
    "Dirichlet(1)": "learning.partition={kind='dirichlet',concentration=1.0}",
    "Dirichlet(0.3)": "learning.partition={kind='dirichlet',concentration=0.3}",
}
BAD = {
    "one of eight": ("a cluster of 8", (1,)),
    "two of eight": ("a cluster of 8", (1, 5)),
    "one of each four": ("clusters of 4", (1, 5)),
}
FLEETS = {
    "clusters of 3": (3, 9),
    "clusters of 4": (2, 8),
    "a cluster of 8": (1, 8),
    "clusters of 9": (2, 18),
}
OPTIMISERS = {
    "sgd": (),
    "adam": ("learning={optimiser='adam',learning_rate=0.005}",),
}


class Perceptron(nn.Module):
    """One hidden layer of 32."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(int(np.prod(shape)), 32)
        self.head = nn.Linear(32, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.hidden(images.flatten(1)).relu())


def train(settings: Sequence[str], seed: int, rounds: int) -> dict[str, Any]:
    """The mean of the last five accuracies in percent, and how often each device was refused."""
    given = (*LEARNING, f"rounds.global_rounds={rounds}", *settings)
    world = SimulatedWorld(load_scenario("quickstart", given), seed)
    policy = make_policy("fedrt")
    setup = make_setup(world, engine="stacked", chunk=24, workers=1)
    account, refused = Account(world, policy), np.zeros(world.fleet.num_devices, dtype=int)
    try:
        for done in simulate_rounds(world, policy, Trainer(setup)):
            account.add(done)
            for turn in done.edge_rounds:
                refused[turn.outcome.device[turn.outcome.is_refused]] += 1
    except DivergedError:
        return {"accuracy": 0.0, "refused": {}, "diverged": True}
    last = [row["value"] for row in account.measured[-5:]]
    named = {str(n): int(refused[n]) for n in np.flatnonzero(refused).tolist()}
    return {"accuracy": 100 * float(np.mean(last)), "refused": named}


def fleet_of(name: str) -> tuple[str, ...]:
    """The settings of a fleet."""
    edges, devices = FLEETS[name]
    return (f"fleet.num_edges={edges}", f"fleet.num_devices={devices}")


def attacked(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every attack beside the runs from which the attackers are absent."""
    for kind in ["Dirichlet(0.3)"] if args.quick else DATA:
        for count, (fleet, bad) in BAD.items():
            home = (*fleet_of(fleet), DATA[kind])
            away = f"faults.absent={{kind='random',probability=1,only={list(bad)}}}"
            absent: dict[str, list[dict[str, Any]]] = {}
            for name, attack in ATTACKS.items():
                average = "samples" if "samples" in name else "uniform"
                given = (*home, f"learning.averaging={average}")
                if average not in absent:
                    absent[average] = several((*given, away), args)
                sends = f"faults.attack={{{attack},devices={list(bad)}}}"
                result = compared(several((*given, sends), args), absent[average], bad)
                facts = {"data": kind, "bad": count, "attack": name}
                yield f"{kind}, {count}, {name}", facts | result
                if name != "sign flip":
                    continue
                for rule in ("median", "trimmed-mean"):
                    runs = several((*home, sends, f"learning.averaging={rule}"), args)
                    facts = {"data": kind, "bad": count, "attack": f"{name}, {rule}"}
                    result = compared(runs, absent["uniform"], bad)
                    yield f"{kind}, {count}, {name}, {rule}", facts | result


def several(settings: Sequence[str], args: argparse.Namespace) -> list[dict[str, Any]]:
    """A run of each seed."""
    return [train(settings, seed, args.rounds) for seed in range(args.seeds)]


def compared(
    runs: Sequence[dict[str, Any]], absent: Sequence[dict[str, Any]], bad: Sequence[int]
) -> dict[str, Any]:
    """What attackers cost in points at worst, and who was refused."""
    lost = [b["accuracy"] - a["accuracy"] for a, b in zip(runs, absent, strict=True)]
    return {
        "absent": [each["accuracy"] for each in absent],
        "attacked": [each["accuracy"] for each in runs],
        "worst_points": max(lost),
        "refused": [each["refused"] for each in runs],
        "honest_refused": sum(int(n) not in bad for each in runs for n in each["refused"]),
    }


def honest(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs without a bad device."""
    for fleet in list(FLEETS)[:2] if args.quick else FLEETS:
        for kind in list(DATA)[-1:] if args.quick else DATA:
            for optimiser, settings in OPTIMISERS.items():
                given = (*fleet_of(fleet), DATA[kind], *settings)
                runs = several(given, args)
                refused = sum(len(each["refused"]) for each in runs)
                yield (
                    f"{fleet}, {kind}, {optimiser}",
                    {"runs": len(runs), "refused": refused, "fleet": fleet, "data": kind},
                )


def run_all() -> int:
    """All runs; results are saved after each."""
    torch.set_num_threads(1)
    sys.modules.setdefault("attacks", sys.modules["__main__"])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    if args.quick:
        args.seeds, args.rounds = 1, 6
    data: dict[str, Any] = {
        "environment": start_environment(),
        "seeds": args.seeds,
        "rounds": args.rounds,
        "honest": {},
        "attacks": {},
    }
    for part, runs in (("attacks", attacked(args)), ("honest", honest(args))):
        for name, result in runs:
            data[part][name] = result
            save(args.save, data)
            if part == "honest":
                words = f"{result['refused']} devices of {result['runs']} runs refused"
            else:
                words = f"at worst {result['worst_points']:+.2f} points lost,"
                words += f" {result['honest_refused']} honest devices refused"
            print(f"{part}: {name}: {words}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(guarded(run_all))
