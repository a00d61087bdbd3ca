"""Accuracy on the test set."""

from __future__ import annotations

import torch
from torch import Tensor

from fedrt.learning.flat import FlatModel
from fedrt.learning.samples import Samples

BATCH = 2500


@torch.no_grad()
def accuracy(model: FlatModel, state: Tensor, samples: Samples, half: bool = False) -> float:
    """The share of test samples that a model state classifies right; `half` as in training."""
    model.load(state)
    model.module.eval()
    right = torch.zeros((), dtype=torch.int64, device=state.device)
    for start in range(0, len(samples.test), BATCH):
        inputs = samples.normalise(samples.test[start : start + BATCH])
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        with torch.autocast(state.device.type, torch.bfloat16, enabled=half):
            guess = model.module(inputs).argmax(1)
        right += (guess == samples.test_labels[start : start + BATCH]).sum()
    return float(right) / len(samples.test)
