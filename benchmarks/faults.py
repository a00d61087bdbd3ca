"""What failing devices and servers, and devices that send wrong updates, cost in accuracy.

    python benchmarks/faults.py digits
    python benchmarks/faults.py femnist --data-dir DIR

Each line is one run: the mean accuracy of its last five evaluations, the distance to the same seed
undisturbed in points, and what became of the updates.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.records.summary import Account
from fedrt.runs.loop import simulate_rounds
from fedrt.scenario import load_scenario
from fedrt.world.simulated import SimulatedWorld

FLEET = ("fleet.num_edges=8", "fleet.num_devices=72", "fleet.cluster_sizes=even")
SETTINGS = {
    "digits": (
        "quickstart",
        (*FLEET, "rounds.global_rounds=40", "learning.partition={kind='iid'}"),
    ),
    "femnist": (
        "paper/femnist",
        (
            *FLEET,
            "rounds={global_rounds=150,local_steps=5}",
            "learning={model='faults:Perceptron',learning_rate=0.1,batch_size=16}",
            "learning.evaluate_every=5",
        ),
    ),
}
UNRELIABLE = (
    "faults.silent={kind='random',probability=0.1}",
    "faults.server_down={kind='markov',mean_up=4,mean_down=2,only=[0]}",
)
FLIPPED = ("faults.attack={kind='sign-flip',share=0.2223}",)
ROBUST = ("learning.averaging=trimmed-mean",)
CASES = {
    "undisturbed": (),
    "10 % silent, a server down 1/3": UNRELIABLE,
    "2 of 9 flipped, plain mean": FLIPPED,
    "2 of 9 flipped, trimmed mean": (*FLIPPED, *ROBUST),
}


class Perceptron(nn.Module):
    """One hidden layer of 64: 54,270 parameters on FEMNIST, small enough for a processor."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(int(np.prod(shape)), 64)
        self.head = nn.Linear(64, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.hidden(images.flatten(1)).relu())


def run(
    source: str, settings: tuple[str, ...], seed: int, data_dir: Path | None
) -> tuple[float, dict[str, int], float]:
    """The mean of the last five accuracies, what became of the updates, and the seconds it took."""
    world = SimulatedWorld(load_scenario(source, settings), seed)
    setup = make_setup(world, engine="stacked", chunk=24, workers=1, data_dir=data_dir)
    policy, began = make_policy("fedrt"), time.monotonic()
    account = Account(world, policy)
    for done in simulate_rounds(world, policy, Trainer(setup)):
        account.add(done)
    accuracy = float(np.mean([row["accuracy"] for row in account.measured[-5:]]))
    updates = account.summary().get("faults", {}).get("updates", {})
    return accuracy, updates, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description="what faults cost in accuracy")
    parser.add_argument("data", choices=SETTINGS)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    args = parser.parse_args()
    source, settings = SETTINGS[args.data]
    for seed in range(args.seeds):
        undisturbed = 0.0
        for name, more in CASES.items():
            given = (*settings, *args.settings, *more)
            accuracy, updates, wall_s = run(source, given, seed, args.data_dir)
            undisturbed = accuracy if name == "undisturbed" else undisturbed
            counts = ", ".join(f"{count} {word}" for word, count in updates.items() if count)
            print(
                f"{args.data} seed {seed}: {name}: {accuracy:.2%}"
                f" ({100 * (accuracy - undisturbed):+.2f}); {counts or 'all counted'};"
                f" {wall_s:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
