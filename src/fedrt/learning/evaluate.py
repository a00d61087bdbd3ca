"""Accuracy on the test set."""

from __future__ import annotations

import torch
from torch import Tensor

from fedrt.learning.flat import FlatModel
from fedrt.learning.samples import Samples

BATCH = 1000


@torch.no_grad()
def accuracy(model: FlatModel, state: Tensor, samples: Samples) -> float:
    """The share of test samples that a model state classifies right."""
    model.load(state)
    model.module.eval()
    right = torch.zeros((), dtype=torch.int64, device=state.device)
    for start in range(0, len(samples.test), BATCH):
        inputs = samples.normalise(samples.test[start : start + BATCH])
        guess = model.module(inputs).argmax(1)
        right += (guess == samples.test_labels[start : start + BATCH]).sum()
    return float(right) / len(samples.test)
