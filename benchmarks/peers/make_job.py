"""Write the job file: data, first weights, batches, and the average FedRT's plain engine gets.

    python benchmarks/peers/make_job.py JOB.npz [--dataset random|fmnist] [--devices 72] ...

Random data need no download; `fmnist` is looked for under FEDRT_DATA.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from training import SEED, Task, random_dataset, split_evenly

from fedrt.errors import FedrtError
from fedrt.learning.datasets import Dataset, load_dataset
from fedrt.learning.flat import FlatModel


def load_task(path: Path) -> Task:
    """The job of a file, as FedRT's own engines take it."""
    with np.load(path) as file:
        images = np.moveaxis(file["images"], 1, -1)
        labels = file["labels"]
        return Task(
            dataset=Dataset("job", images, labels, images[:10], labels[:10], 10),
            parts=list(file["parts"]),
            model="lenet5",
            steps=len(file["chosen"]),
            batch_size=file["chosen"].shape[2],
            learning_rate=float(file["learning_rate"]),
            momentum=float(file["momentum"]),
            seed=int(file["seed"]),
        )


def named(model: FlatModel, state: torch.Tensor) -> dict[str, np.ndarray]:
    """A flat state as arrays by the module's names."""
    model.load(state)
    return {name: held.numpy().copy() for name, held in model.module.state_dict().items()}


def make(task: Task) -> dict[str, np.ndarray]:
    """All that the file holds."""
    sequential, model = task.engine("sequential")
    first = model.state()
    order = task.order()
    average = sequential.train(first[None], order).models[0]
    samples, batches = task.samples(), task.batches()
    return {
        "images": np.moveaxis(task.dataset.train_images, -1, 1),
        "labels": task.dataset.train_labels,
        "parts": np.stack(task.parts),
        "chosen": batches.draw(order.t, order.r, task.steps, order.devices),
        "mean": samples.mean.numpy(),
        "scale": samples.scale.numpy(),
        "learning_rate": np.array(task.learning_rate),
        "momentum": np.array(task.momentum),
        "seed": np.array(task.seed),
        **{f"first/{name}": value for name, value in named(model, first).items()},
        **{f"average/{name}": value for name, value in named(model, average).items()},
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
