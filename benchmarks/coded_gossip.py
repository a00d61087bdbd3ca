"""What coded gossip adds to the distance between edge models, and how long its steps take.

    python benchmarks/coded_gossip.py [--save FILE]
    python benchmarks/coded_gossip.py --seldom [--save FILE]
    python benchmarks/coded_gossip.py --training [--save FILE]
    python benchmarks/coded_gossip.py --speed [--device cuda] [--save FILE]

Models drift together and apart for 300 rounds, each of which ends in gossip. `left` is their
distance to the average after it, over the last 200 rounds, as a multiple of how far each drifts by
itself in a round; null where it diverges. With `--seldom` most links are used every now and then.
The training is that of `quickstart`, three seeds. The speed is that of a global round's ten steps
between eight servers, all linked; first the device's results must be those of a processor to the
bit.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))

from control import summary
from provenance import save, start_environment

from fedrt.control.mixing.damping import damped
from fedrt.control.mixing.fastest import fastest_weights
from fedrt.control.mixing.weights import metropolis_weights
from fedrt.graph import is_connected
from fedrt.learning import coded_gossip
from fedrt.learning.coded_gossip import KnownModels, mix_coded
from fedrt.learning.gossip import mix
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.messages import distortion
from fedrt.policies import make_policy
from fedrt.records.summary import Account
from fedrt.runs.loop import simulate_rounds
from fedrt.scenario import load_scenario
from fedrt.world.simulated import SimulatedWorld

SERVERS, SIZE, ROUNDS, SETTLED = 8, 1024, 300, 100
CODECS = ("int8", "int6", "int5", "int4", "int3", "int2")
STEPS = (1, 2, 4, 10)
DIVERGED = 1e3
RULES = {"metropolis": metropolis_weights, "fastest": lambda links: fastest_weights(links).mixing}
RESNET20, LENET5 = 269_722, 431_080


def graphs() -> dict[str, list[NDArray[np.bool_]]]:
    """Each kind of links as one graph, or several that take turns."""
    one = np.eye(SERVERS, dtype=bool)
    path = np.eye(SERVERS, k=1, dtype=bool) | np.eye(SERVERS, k=-1, dtype=bool)
    ring, star = path.copy(), np.zeros_like(path)
    ring[0, -1] = ring[-1, 0] = True
    star[0, 1:] = star[1:, 0] = True
    rng, changing = np.random.default_rng(0), []
    while len(changing) < 16:
        links = np.triu(rng.random(path.shape) < 0.45, 1)
        links = links | links.T
        if is_connected(links):
            changing.append(links)
    return {
        "complete": [~one],
        "changing": changing,
        "ring": [ring],
        "path": [path],
        "star": [star],
    }


def left_apart(
    weights: list[NDArray[np.float64]], steps: int, codec: str | None, turns: int = 1
) -> float:
    """The mean distance to the average after gossip; infinite if it diverges.

    All models drift in one direction, twice as far as each by itself; it changes every so many
    rounds.
    """
    rng = np.random.default_rng(1)
    models, first, found = torch.zeros(SERVERS, SIZE), torch.zeros(SIZE), []
    copies, common = KnownModels.none(first), rng.normal(size=SIZE)
    for t in range(ROUNDS):
        if t % turns == 0:
            common = rng.normal(size=SIZE)
        drift = 2 * common + rng.normal(size=(SERVERS, SIZE))
        models = models + torch.from_numpy(drift).float()
        now = weights[t % len(weights)]
        if codec is None:
            models = mix(models, now, steps)
        else:
            models, copies = mix_coded(models, copies, first, now, steps, codec)
        found.append(float((models - models.mean(0)).norm()) / np.sqrt(SERVERS * SIZE))
        if not found[-1] < DIVERGED:
            return float("inf")
    return float(np.mean(found[SETTLED:]))


def seldom() -> dict[str, Any]:
    """What is left over a ring and one other link each round, in a drift of 50 rounds a turn."""
    rng, ring = np.random.default_rng(2), graphs()["ring"][0]
    links = []
    for _ in range(ROUNDS):
        one = ring.copy()
        c, j = rng.choice(SERVERS, 2, replace=False)
        one[c, j] = one[j, c] = True
        links.append(one)
    rows: dict[str, Any] = {}
    for rule, weights_of in RULES.items():
        weights = [weights_of(each) for each in links]
        row: dict[str, Any] = {}
        for codec in (None, *CODECS[:-1]):
            left = {steps: _finite(left_apart(weights, steps, codec, 50)) for steps in (1, 2, 4)}
            row[codec or "exact"] = left
        rows[rule] = row
        print("seldom", rule, json.dumps(row), flush=True)
    return rows


def agreement() -> dict[str, Any]:
    """For each kind of links, weights and codec: the step size, and what gossip leaves."""
    rows: dict[str, Any] = {}
    for name, links in graphs().items():
        for rule, weights_of in RULES.items():
            weights = [weights_of(each) for each in links]
            row: dict[str, Any] = {"exact": {}, "step_size": {}, "left": {}, "undamped": {}}
            for steps in STEPS:
                row["exact"][steps] = left_apart(weights, steps, None)
            for codec in CODECS:
                sizes = [_step_size(each, codec) for each in weights]
                row["step_size"][codec] = min(sizes)
                row["left"][codec] = {
                    steps: _finite(left_apart(weights, steps, codec)) for steps in STEPS
                }
                if min(sizes) < 1:
                    coded_gossip.damped = lambda mixing, loss: mixing  # type: ignore[assignment]
                    row["undamped"][codec] = {
                        steps: _finite(left_apart(weights, steps, codec)) for steps in STEPS
                    }
                    coded_gossip.damped = damped  # type: ignore[assignment]
            rows[f"{name}, {rule}"] = row
            print(name, rule, json.dumps(row), flush=True)
    return rows


def _step_size(weights: NDArray[np.float64], codec: str) -> float:
    one = np.eye(len(weights))
    at = np.unravel_index(np.argmax(np.abs(weights - one)), weights.shape)
    return float((damped(weights, distortion(codec)) - one)[at] / (weights - one)[at])


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def speed(device: str, repeats: int) -> dict[str, Any]:
    """Seconds of ten gossip steps, exact and coded, for two models' sizes."""
    where, rng = torch.device(device), np.random.default_rng(0)
    weights = metropolis_weights(~np.eye(SERVERS, dtype=bool))
    found: dict[str, Any] = {}
    for name, size in (("resnet20", RESNET20), ("lenet5", LENET5)):
        models = torch.from_numpy(rng.normal(size=(SERVERS, size))).float().to(where)
        first = models.mean(0)
        none = KnownModels.none(first)
        ways = {"none": lambda m=models: mix(m, weights, 10)}
        for codec in ("float32", "int8", "int4", "int3"):
            known = mix_coded(models, none, first, weights, 1, codec).copies
            given = (models, known, first, weights, 10, codec)
            ways[codec] = lambda given=given: mix_coded(*given).models
        for codec in ("float16", "int8", "int4", "int3"):
            here = mix_coded(
                models.cpu(), KnownModels.none(first.cpu()), first.cpu(), weights, 3, codec
            )
            there = mix_coded(models, none, first, weights, 3, codec)
            pairs = ((here.models, there.models), (here.copies.held, there.copies.held))
            if not all(torch.equal(one, other.cpu()) for one, other in pairs):
                raise SystemExit(f"{name}, {codec}: {device} and cpu differ")
        took: dict[str, list[float]] = {word: [] for word in ways}
        for number in range(repeats + 1):
            for word, way in ways.items():
                _wait(where)
                began = time.perf_counter()
                way()
                _wait(where)
                if number:
                    took[word].append(time.perf_counter() - began)
        found[name] = {word: summary(times) for word, times in took.items()}
        print(name, {word: f"{1e3 * np.median(times):.2f} ms" for word, times in took.items()})
    return found


def training() -> dict[str, Any]:
    """Time, bytes over the backhaul and accuracy of whole runs on digits, over three seeds."""
    found: dict[str, Any] = {}
    for policy in ("ce-fedavg", "fedrt-plus"):
        for codec in ("none", "int8", "int4", "int3"):
            runs = [_trained(policy, codec, seed) for seed in range(3)]
            row = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
            found[f"{policy}, {codec}"] = row
            print(policy, codec, json.dumps(row), flush=True)
    return found


def _trained(policy: str, codec: str, seed: int) -> dict[str, float]:
    scenario = load_scenario(
        "quickstart", [f"learning.gossip={codec}", "learning.evaluate_every=1"]
    )
    setup = make_setup(SimulatedWorld(scenario, seed), engine="stacked", chunk=4, workers=1)
    account, late, apart = Account(setup.world, make_policy(policy)), [], []
    for done in simulate_rounds(setup.world, account.policy, Trainer(setup)):
        account.add(done)
        late.append(done.metrics["accuracy"])
        apart.append(done.metrics["consensus"])
    setup.close()
    whole = account.summary()
    return {
        "time_s": whole["total_time_s"],
        "backhaul_s": whole["time_parts"]["backhaul_s"],
        "backhaul_mb": whole["backhaul_bytes"] / 1e6,
        "accuracy": float(np.mean(late[-10:])),
        "consensus": float(np.mean(apart[-10:])),
    }


def _wait(where: torch.device) -> None:
    if where.type == "cuda":
        torch.cuda.synchronize(where)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--seldom", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    part: dict[str, Any]
    if args.speed:
        part = {"speed": speed(args.device, args.repeats)}
    elif args.training:
        part = {"training": training()}
    else:
        part = {"seldom": seldom()} if args.seldom else {"agreement": agreement()}
    if args.save is not None:
        kept = json.loads(args.save.read_text()) if args.save.exists() else {}
        said = start_environment(device=args.device)
        save(args.save, kept | part | {"environment": said, f"{next(iter(part))}_on": said})


if __name__ == "__main__":
    main()
