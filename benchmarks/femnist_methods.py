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
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from provenance import earlier, save, start_environment

from fedrt.cli import guarded
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.scenario import load_scenario
from fedrt.world.simulated import SimulatedWorld

LAST, DIGITS = 10, 5
COSINE = 'learning.schedule={kind="cosine",last=0.01}'
DECAY = 'learning.optimiser={kind="sgd",weight_decay=0.0005}'
METHODS: dict[str, tuple[str, ...]] = {
    "plain SGD": (),
    "cosine": (COSINE,),
    "FedProx 0.01": ("learning.proximal=0.01",),
    "FedProx 0.1": ("learning.proximal=0.1",),
    "FedAdam 0.003": ('learning.server_optimiser={kind="fedadam",learning_rate=0.003}',),
    "FedAdam 0.01": ('learning.server_optimiser={kind="fedadam",learning_rate=0.01,tau=0.01}',),
    "FedAvgM 0.5": ('learning.server_optimiser={kind="fedavgm",learning_rate=0.5,momentum=0.5}',),
    "weight decay": (DECAY,),
    "cosine and weight decay": (COSINE, DECAY),
    "clipping 1": ("learning.clip_norm=1.0",),
    "step at 80": ('learning.schedule={kind="step",every=80,factor=0.1}',),
    "AdamW 0.001": ('learning.optimiser={kind="adamw"}', "learning.learning_rate=0.001"),
}
QUICK = ("rounds.global_rounds=12", "learning.evaluate_every=1")


def train(
    name: str, settings: tuple[str, ...], policy: str, seed: int, args: argparse.Namespace
) -> dict[str, Any]:
    """The accuracies and losses of one run, round by round; simulated time and energy."""
    settings = (*settings, f"learning.dtype={'float32' if args.quick else args.dtype}")
    world = SimulatedWorld(load_scenario(name, list(settings)), seed)
    chunk = {} if args.device == "cpu" else {"chunk": args.chunk, "workers": 1}
    setup = make_setup(world, engine="stacked", device=args.device, data_dir=args.data_dir, **chunk)
    began = time.monotonic()
    accuracy, loss, ends_at_s = [], [], 0.0
    try:
        for done in simulate_rounds(world, make_policy(policy), Trainer(setup)):
            loss.append(round(done.metrics["loss"], DIGITS))
            ends_at_s = done.ends_at_s
            if not math.isnan(done.metrics["accuracy"]):
                accuracy.append(round(done.metrics["accuracy"], DIGITS))
    except Exception as error:  # one that diverges is a result too
        return {"settings": list(settings), "failed": str(error)}
    finally:
        setup.close()
    return {
        "settings": list(settings),
        "accuracy": accuracy,
        "loss": loss,
        "last_mean": round(float(np.mean(accuracy[-LAST:])), DIGITS + 2),
        "best": max(accuracy),
        "ends_at_s": ends_at_s,
        "device": setup.device_name,
        "wall_s": time.monotonic() - began,
    }


def run_all() -> int:
    """Train every method on every seed, and save after each."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--methods", default=",".join(METHODS), help="as this file names them")
    args = parser.parse_args()
    chosen = args.methods.split(",")
    if unknown := [name for name in chosen if name not in METHODS]:
        parser.error(f"--methods {unknown[0]!r}: must be among {', '.join(METHODS)}")
    data = saved(args.save)
    methods = data.setdefault("methods", {})
    for seed in args.seeds.split(","):
        for name in chosen:
            own = methods.setdefault(name, {})
            if seed in own:
                continue
            source = "quickstart" if args.quick else "paper/femnist"
            given = METHODS[name] + (QUICK if args.quick else ())
            own[seed] = train(source, given, "fedrt", int(seed), args)
            save(args.save, data)
            plain = methods.get("plain SGD", {}).get(seed, {}).get("last_mean")
            print(f"seed {seed}: {name}: {in_words(own[seed], plain)}", flush=True)
    return 0


def options(description: str) -> argparse.ArgumentParser:
    """The options of a script that trains whole runs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", default="0", help="such as 0,1,2")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16", help="as `fedrt reproduce` has it")
    parser.add_argument("--chunk", type=int, default=72, help="devices at a time on a GPU")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--quick", action="store_true", help="a few rounds of digits in float32")
    return parser


def saved(path: Path | None) -> dict[str, Any]:
    """What a file of results holds already; this command and machine."""
    about = {"command": " ".join(sys.argv), "environment": start_environment()}
    return (earlier(path) or {}) | about


def in_words(found: dict[str, Any], plain: float | None = None) -> str:
    """A line about one run, and how far it is from another's mean of the last ten."""
    if "failed" in found:
        return str(found["failed"])
    apart = "" if plain is None else f", {100 * (found['last_mean'] - plain):+.2f} points"
    ends = f"last ten {found['last_mean']:.2%}{apart}; best {found['best']:.2%}"
    return f"{ends}; {found['wall_s']:.0f} s"


if __name__ == "__main__":
    sys.exit(guarded(run_all))
