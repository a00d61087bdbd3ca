"""Ways to train on the paper's FEMNIST: does any of them end better than plain SGD?

    PYTHONPATH=src python benchmarks/femnist_methods.py --data-dir DIR \
        --save benchmarks/results/femnist_methods.json

Plain SGD overfits after about round 100. Every method trains the same devices with the same policy
and mini-batches, so that only the method differs; what counts is the mean of the last ten
evaluations. Results that the file has already are not trained again. `--quick` trains digits
instead, to see that the script runs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedrt.cli import guarded
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.records.directory import environment
from fedrt.runs.loop import simulate_rounds
from fedrt.scenario import load_scenario
from fedrt.system.files import write_json
from fedrt.world.simulated import SimulatedWorld

LAST = 10
COSINE = 'learning.schedule={kind="cosine",last=0.01}'
DECAY = 'learning.optimiser={kind="sgd",weight_decay=0.0005}'
METHODS: dict[str, tuple[str, ...]] = {
    "plain SGD": (),
    "cosine": (COSINE,),
    "FedProx 0.01": ("learning.proximal=0.01",),
    "FedProx 0.1": ("learning.proximal=0.1",),
    "FedAdam 0.01": ('learning.server_optimiser={kind="fedadam",learning_rate=0.01}',),
    "FedAdam 0.03": ('learning.server_optimiser={kind="fedadam",learning_rate=0.03,tau=0.01}',),
    "FedAvgM 0.5": ('learning.server_optimiser={kind="fedavgm",learning_rate=0.5,momentum=0.5}',),
    "weight decay": (DECAY,),
    "cosine and weight decay": (COSINE, DECAY),
    "clipping 1": ("learning.clip_norm=1.0",),
    "step at 80": ('learning.schedule={kind="step",every=80,factor=0.1}',),
    "AdamW 0.001": ('learning.optimiser={kind="adamw"}', "learning.learning_rate=0.001"),
}
QUICK = ("rounds.global_rounds=12", "learning.evaluate_every=1")


def train(settings: tuple[str, ...], seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """The accuracies and losses of one run, round by round."""
    scenario = load_scenario("quickstart" if args.quick else "paper/femnist", list(settings))
    world = SimulatedWorld(scenario, seed)
    chunk = {} if args.device == "cpu" else {"chunk": args.chunk, "workers": 1}
    setup = make_setup(world, engine="stacked", device=args.device, data_dir=args.data_dir, **chunk)
    began = time.monotonic()
    accuracy, loss = [], []
    try:
        for done in simulate_rounds(world, make_policy("fedrt"), Trainer(setup)):
            loss.append(done.metrics["loss"])
            if not math.isnan(done.metrics["accuracy"]):
                accuracy.append(done.metrics["accuracy"])
    finally:
        setup.close()
    return {
        "settings": list(settings),
        "accuracy": accuracy,
        "loss": loss,
        "last_mean": float(np.mean(accuracy[-LAST:])),
        "best": max(accuracy),
        "wall_s": time.monotonic() - began,
    }


def run_all() -> int:
    """Train every method on every seed, and save after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="0", help="such as 0,1,2")
    parser.add_argument("--only", default="", help="methods whose name has this in it")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--chunk", type=int, default=72, help="devices at a time on a GPU")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    data: dict[str, Any] = {"command": " ".join(sys.argv), "methods": {}}
    if args.save and args.save.exists():
        data["methods"] = json.loads(args.save.read_text())["methods"]
    data["environment"] = environment()
    for seed in args.seeds.split(","):
        for name, settings in METHODS.items():
            own = data["methods"].setdefault(name, {})
            if args.only not in name or seed in own:
                continue
            given = (*settings, *QUICK) if args.quick else settings
            try:
                own[seed] = train(given, int(seed), args)
            except Exception as error:  # one that diverges is a result too
                own[seed] = {"settings": list(given), "failed": str(error)}
            if args.save:
                write_json(args.save, data)
            print(f"seed {seed}: {name}: {_words(own[seed], data, seed)}", flush=True)
    return 0


def _words(found: dict[str, Any], data: dict[str, Any], seed: str) -> str:
    """A line about one run, and how far it is from plain SGD's."""
    if "failed" in found:
        return str(found["failed"])
    plain = data["methods"].get("plain SGD", {}).get(seed, {}).get("last_mean")
    apart = "" if plain is None else f", {100 * (found['last_mean'] - plain):+.2f} points"
    ends = f"last ten {found['last_mean']:.2%}{apart}; best {found['best']:.2%}"
    return f"{ends}; {found['wall_s']:.0f} s"


if __name__ == "__main__":
    sys.exit(guarded(run_all))
