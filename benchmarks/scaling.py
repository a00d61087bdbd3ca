"""What a cluster brings and costs, and how large a fleet goes through it.

    python benchmarks/scaling.py engines [--repeats 7] [--save FILE]
    python benchmarks/scaling.py fleet --data-dir DIR [--devices 100000] [--edges 500] [--save FILE]

`engines`: one edge round of 72 LeNet-5 devices on 8 edges, 10 steps of 32, in turns: `stacked` with
two processes, the ray engine with two workers and with one, all on one thread each. The models must
agree to float32's rounding first, and those of the two ray engines to the bit.

`fleet`: a whole `fedrt run --engine ray` with devices whose shards are drawn with replacement, one
local step of batch 8, one edge round, three global rounds; its memory is the sum of the peaks of
all its processes in each round, pages that they share counted for each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parent / "peers"))

from memory import tree, tree_memory_mb

ROUNDS = 3


def fleet_settings(devices: int, edges: int) -> list[str]:
    """The scenario of the large fleet."""
    return [
        f"fleet.num_devices={devices}",
        f"fleet.num_edges={edges}",
        "fleet.cycles_per_sample=3.9e6",
        'base_graph={kind="erdos-renyi",probability=0.05}',
        f"rounds={{global_rounds={ROUNDS},edge_rounds=1,local_steps=1,gossip_steps=10}}",
        'learning={dataset="fmnist",model="lenet5",model_bits="measured",learning_rate=0.01}',
        "learning.batch_size=8",
        "learning.evaluate_every=1000",
        'learning.partition={kind="bootstrap",samples_per_device=60}',
    ]


class Watch:
    """The most memory that each process of a run held in each global round, added up.

    The system keeps every process's peak; it is set back when a round is through.
    """

    def __init__(self, process: int, out: Path) -> None:
        self.process, self.out = process, out
        self.peaks: list[float] = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()

    def _look(self) -> None:
        rounds, held = 0, 0.0
        while not self.done.wait(1.0):
            held = max(held, tree_memory_mb(self.process)["peak_rss"])
            if (found := len(list((self.out / "records").glob("*.npz")))) > rounds:
                print(f"peak in round {rounds}: {held:.0f} MB", flush=True)
                self.peaks.append(held)
                rounds, held = found, 0.0
                for process in tree(self.process):
                    with suppress(OSError):
                        Path(f"/proc/{process}/clear_refs").write_text("5")
        if rounds < ROUNDS:
            self.peaks.append(held)

    def stop(self) -> None:
        self.done.set()
        self.thread.join()


def fleet(args: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="fedrt-fleet-") as folder:
        out = Path(folder) / "run"
        settings = fleet_settings(args.devices, args.edges)
        options = ["--workers", str(args.workers), "--chunk", str(args.chunk), "--device", "cpu"]
        words = [sys.executable, "-m", "fedrt", "run", "quickstart", "--engine", "ray", *options]
        words += ["--data-dir", args.data_dir, "--out", str(out)]
        words += [word for text in settings for word in ("--set", text)]
        began = time.monotonic()
        child = subprocess.Popen(words)
        watch = Watch(child.pid, out)
        code = child.wait()
        wall_s = time.monotonic() - began
        watch.stop()
        if code:
            raise SystemExit(f"the run ended with {code}")
        from pyarrow import parquet

        rows = parquet.read_table(out / "rounds.parquet").to_pydict()
        summary = json.loads((out / "summary.json").read_text())
    return {
        "devices": args.devices,
        "edges": args.edges,
        "workers": args.workers,
        "chunk": args.chunk,
        "settings": settings,
        "wall_s": round(wall_s, 1),
        "round_wall_s": [round(value, 1) for value in rows["wall_s"]],
        "loss": rows["loss"],
        "final_accuracy": summary["final_accuracy"],
        "peak_mb_by_round": watch.peaks,
        "growth_of_peak_over_rounds": max(watch.peaks) / watch.peaks[0] - 1,
    }


def engines(args: argparse.Namespace) -> dict[str, Any]:
    import numpy as np
    import torch
    from control import summary
    from training import RATES, SHAPES, random_dataset

    import fedrt.distributed  # noqa: F401
    from fedrt.data.batches import Batches
    from fedrt.distributed.cluster import connect
    from fedrt.distributed.engine_ray import RayEngine
    from fedrt.distributed.pool import Pool
    from fedrt.distributed.worker import Recipe, packed
    from fedrt.learning.engines.engine import TrainingOrder
    from fedrt.learning.engines.samples import TensorSamples
    from fedrt.learning.models.architectures import make_model
    from fedrt.learning.models.flat import FlatModel
    from fedrt.learning.setup import WorkerRecipe
    from fedrt.learning.stacked.workers import WorkerEngine
    from fedrt.scenario import load_scenario

    devices, edges, steps = 72, 8, 10
    cpu = torch.device("cpu")
    samples = TensorSamples(random_dataset(SHAPES["lenet5"], 6000, 0), torch.float32, cpu)
    parts = np.array_split(np.arange(6000), devices)
    batches = Batches(parts, 32, 0)
    given = {"model": "lenet5", "learning_rate": RATES["lenet5"], "batch_size": 32}
    settings = [f"learning.{key}={value}" for key, value in given.items()]
    scenario = load_scenario("quickstart", settings)
    model = FlatModel(make_model("lenet5", samples.shape, 10, 0), torch.float32, cpu)
    models = model.state().repeat(edges, 1)

    def order(r: int) -> TrainingOrder:
        where = np.repeat(np.arange(edges), devices // edges)
        weight = np.full(devices, edges / devices)
        return TrainingOrder(0, r, np.arange(devices), where, np.full(devices, steps), weight)

    def pool(workers: int) -> RayEngine:
        recipe = Recipe(packed(samples), batches, scenario, 10, 0, args.chunk)
        return RayEngine(Pool(recipe, workers, own_cluster=True))

    cluster = connect(None, 3)
    recipe = WorkerRecipe(samples, batches, scenario, 10, 0, args.chunk)
    made: dict[str, Any] = {
        "stacked, 2 processes": WorkerEngine(recipe, models, 2),
        "ray, 2 workers": pool(2),
        "ray, 1 worker": pool(1),
    }
    try:
        results = {name: engine.train(models, order(0)).models for name, engine in made.items()}
        first = results["stacked, 2 processes"]
        moved = (first - models).double().norm(dim=1)
        apart = (results["ray, 2 workers"] - first).double().norm(dim=1)
        agreement = float((apart / moved).max())
        same = torch.equal(results["ray, 2 workers"], results["ray, 1 worker"])
        if agreement > 1e-5 or not same:
            raise SystemExit(f"engines differ: {agreement:.2g}, workers the same: {same}")
        took: dict[str, list[float]] = {name: [] for name in made}
        for r in range(1, args.repeats + 1):
            for name, engine in made.items():
                began = time.perf_counter()
                engine.train(models, order(r))
                took[name].append(time.perf_counter() - began)
    finally:
        for engine in made.values():
            engine.close()
        cluster.end()
    median = {name: float(np.median(values)) for name, values in took.items()}
    return {
        "chunk": args.chunk,
        "repeats": args.repeats,
        "agreement": agreement,
        "seconds": {name: summary(values) for name, values in took.items()},
        "overhead_against_stacked": median["ray, 2 workers"] / median["stacked, 2 processes"] - 1,
        "two_workers_against_one": median["ray, 1 worker"] / median["ray, 2 workers"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["engines", "fleet"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--chunk", type=int, default=16)
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data-dir", default=os.environ.get("FEDRT_DATA", ""))
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    from provenance import save

    does: dict[str, Callable[[argparse.Namespace], dict[str, Any]]]
    does = {"engines": engines, "fleet": fleet}
    result = {
        "command": f"python benchmarks/scaling.py {' '.join(sys.argv[1:])}",
        args.what: does[args.what](args),
    }
    print(json.dumps(result, indent=2))
    save(args.save, result)


if __name__ == "__main__":
    main()
