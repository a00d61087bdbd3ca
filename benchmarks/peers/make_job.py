"""Write the job file: data, first weights, batches, and the averages FedRT's plain engine gets.

    python benchmarks/peers/make_job.py JOB.npz [--dataset random|fmnist] [--devices 72] ...

Random data need no download; `fmnist` is looked for under FEDRT_DATA.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from training import SEED, Task, random_dataset, split_evenly

from fedrt.data.catalogue import Dataset, channel_stats, load_dataset
from fedrt.errors import FedrtError
from fedrt.learning.models.flat import FlatModel


def load_task(path: Path, dtype: str) -> Task:
    """The job of a file, as FedRT's own engines take it."""
    with np.load(path) as file:
        images, labels = file["images"], file["labels"]
        return Task(
            dataset=Dataset("job", images, labels, images[:10], labels[:10], 10),
            parts=list(file["parts"]),
            model="lenet5",
            steps=len(file["chosen"]),
            batch_size=file["chosen"].shape[2],
            learning_rate=float(file["learning_rate"]),
            momentum=float(file["momentum"]),
            dtype=dtype,
            seed=int(file["seed"]),
        )


def named(model: FlatModel, state: torch.Tensor) -> dict[str, np.ndarray]:
    """A flat state as arrays by the module's names."""
    model.load(state)
    return {name: held.numpy().copy() for name, held in model.module.state_dict().items()}


def make(task: Task) -> dict[str, np.ndarray]:
    """All that the file holds."""
    order = task.order()
    mean, deviation = channel_stats(task.dataset.train_images)
    _, model = task.engine("sequential")
    first, held = model.state(), {}
    for dtype in ("float32", "float64"):
        engine, scratch = replace(task, dtype=dtype).engine("sequential")
        average = engine.train(first[None].to(scratch.held.dtype), order).models[0]
        for name, value in named(scratch, average).items():
            held[f"average {dtype}/{name}"] = value
    return {
        "images": task.dataset.train_images,
        "labels": task.dataset.train_labels,
        "parts": np.stack(task.parts),
        "chosen": task.batches().draw(order.t, order.r, task.steps, order.devices),
        "mean": np.reshape(mean, (-1, 1, 1)),
        "deviation": np.reshape(deviation, (-1, 1, 1)),
        "learning_rate": np.array(task.learning_rate),
        "momentum": np.array(task.momentum),
        "seed": np.array(task.seed),
        **{f"first/{name}": value for name, value in named(model, first).items()},
        **held,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--dataset", choices=("random", "fmnist"), default="random")
    parser.add_argument("--devices", type=int, default=72)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    if args.dataset == "random":
        dataset = random_dataset((28, 28, 1), 60_000, SEED)
    else:
        try:
            dataset = load_dataset("fmnist")
        except FedrtError as error:
            raise SystemExit(str(error)) from error
    count = len(dataset.train_labels) // args.devices * args.devices
    task = Task(
        dataset=dataset,
        parts=split_evenly(count, args.devices, SEED),
        model="lenet5",
        steps=args.steps,
        batch_size=args.batch,
    )
    np.savez(args.file, **make(task))


if __name__ == "__main__":
    main()
