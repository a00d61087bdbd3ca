"""The job every side does: one round of FedAvg, read from the file that make_job.py wrote.

Needs numpy and torch only, so that it loads in the peers' environments. The data, the first
weights, the batches of every device and the model FedRT gets from them all come from the file.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from memory import tree_memory_mb
from torch import Tensor, nn
from torch.nn import functional as fn

AGREEMENT = {"float64": 1e-7, "float32": 5e-5}
"""How far any number of the averaged model may be from ours.

In float64 all do the same arithmetic; pfl still adds up updates in float32. In float32 rounding
decides near ties of pooling, and one such in one device moves the average by 1e-6 to 1e-5.
"""


class LeNet5(nn.Module):
    """The model as a user of these tools would write it; names as in FedRT's."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.hidden = nn.Linear(800, 500)
        self.head = nn.Linear(500, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = fn.max_pool2d(fn.relu(self.conv1(x)), 2)
        x = fn.max_pool2d(fn.relu(self.conv2(x)), 2)
        return self.head(fn.relu(self.hidden(x.flatten(1))))


class Job:
    """The file's content as tensors of a type."""

    def __init__(self, path: str, dtype: str) -> None:
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.limit = AGREEMENT[dtype]
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        count, height, width, channels = arrays["images"].shape
        # A plain layout: as a mere view of these, one channel would count as channels-last.
        self.images = torch.from_numpy(arrays["images"]).reshape(count, channels, height, width)
        self.labels = torch.from_numpy(arrays["labels"])
        self.chosen = torch.from_numpy(arrays["chosen"])
        self.mean = torch.from_numpy(arrays["mean"]).to(self.dtype)
        self.scale = 1.0 / torch.from_numpy(arrays["deviation"]).to(self.dtype)
        self.learning_rate = float(arrays["learning_rate"])
        self.momentum = float(arrays["momentum"])
        self.steps, self.devices, self.batch_size = self.chosen.shape
        self.first = self._named(arrays, "first/")
        self.average = self._named(arrays, f"average {dtype}/")

    def _named(self, arrays: dict[str, Any], prefix: str) -> dict[str, Tensor]:
        keys = [key for key in arrays if key.startswith(prefix)]
        return {
            key.removeprefix(prefix): torch.from_numpy(arrays[key]).to(self.dtype) for key in keys
        }

    def model(self) -> LeNet5:
        """The model with its first weights."""
        made = LeNet5().to(self.dtype)
        made.load_state_dict(self.first)
        return made

    def samples(self, device: int) -> tuple[Tensor, Tensor]:
        """All that a device trains on in the round, batch after batch: inputs and labels."""
        chosen = self.chosen[:, device].flatten()
        inputs = (self.images[chosen].to(self.dtype) / 255.0 - self.mean) * self.scale
        return inputs, self.labels[chosen]

    def difference(self, state: dict[str, Tensor]) -> float:
        """The worst difference of a number of that model from FedRT's average."""
        if state.keys() != self.average.keys():
            raise SystemExit(f"the model has {sorted(state)}")
        return max(float((state[k] - v).abs().max()) for k, v in self.average.items())

    def check(self, state: dict[str, Tensor]) -> float:
        """The difference, where it is small enough; else the end."""
        found = self.difference(state)
        if not found <= self.limit:
            raise SystemExit(f"the averaged model is {found:.3g} off: nothing is timed")
        return found


@lru_cache(maxsize=1)
def load_job(path: str, dtype: str) -> Job:
    """The job, read once in a process."""
    return Job(path, dtype)


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every side has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--job", required=True, help="the file that make_job.py wrote")
    made.add_argument("--dtype", choices=AGREEMENT, default="float32")
    made.add_argument("--warmup", type=int, default=1, help="rounds before those that count")
    made.add_argument("--rounds", type=int, default=3, help="rounds that count")
    return made


class Rounds:
    """Collects one side's rounds: each is checked, those after the warm-up count."""

    def __init__(self, job: Job, warmup: int) -> None:
        self.job, self.warmup = job, warmup
        self.done = 0
        self.seconds: list[float] = []
        self.differences: list[float] = []

    def add(self, seconds: float, state: dict[str, Tensor]) -> None:
        """Take a round's wall time and the model it gave."""
        self.differences.append(self.job.check(state))
        if self.done >= self.warmup:
            self.seconds.append(seconds)
        self.done += 1

    def report(self, side: str, packages: tuple[str, ...], **more: Any) -> None:
        """Print all of it as one line of JSON; children must still be there."""
        result = {
            "side": side,
            "seconds_per_round": statistics.median(self.seconds) if self.seconds else None,
            "seconds": self.seconds,
            "worst_difference": max(self.differences),
            "memory_mb": tree_memory_mb(),
            "versions": {"python": platform.python_version()} | {p: version(p) for p in packages},
            **more,
        }
        print(json.dumps(result), flush=True)
