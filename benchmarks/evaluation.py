"""How long the accuracy of a model takes on a processor: the library's layers against the stacked.

    python benchmarks/evaluation.py --data-dir DIR [--threads 1] [--repeats 7] [--save FILE]

Both ways take turns on the same test images and must agree on all but a few of them. The images are
real ones: how long the library takes to pool depends on what it pools.
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

sys.path.insert(0, str(Path(__file__).resolve().parent))

from control import summary
from provenance import save

from fedrt.data.catalogue import load_dataset
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.evaluate import Evaluate, make_evaluation
from fedrt.learning.models.architectures import make_model
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.tasks import Classification

MODELS = {"lenet5": "fmnist", "resnet20": "cifar10", "small-cnn": "digits"}
FORMS = {"lenet5": "direct", "resnet20": "grouped", "small-cnn": "grouped"}
"""What tuning mostly comes to."""
MOST_APART = 5
"""Samples on a border that may fall on either side."""


def compare(name: str, dataset: str, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of both ways for one model."""
    samples = TensorSamples(
        load_dataset(dataset, args.data_dir), torch.float32, torch.device("cpu")
    )
    samples.test = samples.test[: args.images]
    samples.test_labels = samples.test_labels[: args.images]
    images = len(samples.test)
    model = FlatModel(make_model(name, samples.shape, 10, 0), torch.float32, samples.device)
    states = model.state()[None]
    ways: dict[str, Evaluate] = {
        word: make_evaluation(model, samples, Classification(), False, form=form, compiled=False)
        for word, form in (("plain", None), ("stacked", FORMS[name]))
    }
    found = {word: float(way(states)[0, 0]) for word, way in ways.items()}
    if abs(found["plain"] - found["stacked"]) * images > MOST_APART:
        raise SystemExit(f"{name}: the two ways differ: {found}")
    took: dict[str, list[float]] = {word: [] for word in ways}
    for _ in range(args.repeats):
        for word, way in ways.items():
            began = time.perf_counter()
            way(states)
            took[word].append(time.perf_counter() - began)
    share = float(np.median(took["stacked"]) / np.median(took["plain"]))
    seconds = {word: summary(values) for word, values in took.items()}
    return {"data": dataset, "images": images, "seconds": seconds, "stacked_over_plain": share}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--images", type=int, default=2_000)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    result = {
        "command": f"python benchmarks/evaluation.py {' '.join(sys.argv[1:])}",
        "threads": args.threads,
        "models": {name: compare(name, data, args) for name, data in MODELS.items()},
    }
    print(json.dumps(result, indent=2))
    save(args.save, result)


if __name__ == "__main__":
    main()
