"""Accuracy by hand, over several batches of the test set, with the statistics as trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.learning_cases import CPU, noise, state_vector
from torch import nn

from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.evaluate import (
    BATCH,
    COMPILED_BATCH,
    CompiledEvaluation,
    StackedEvaluation,
    accuracy,
)
from fedrt.learning.models.architectures import make_model
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.stacked import compiled
from fedrt.learning.tasks import Classification

pytestmark = pytest.mark.numerical


def test_accuracy_by_hand_with_batch_norm():
    shape = (3, 4, 4)
    data = noise(shape, test=BATCH + 137)
    samples = TensorSamples(data, torch.float32, CPU)
    module = make_model("resnet20", shape, 5, 0)
    with torch.no_grad():
        for _ in range(3):
            module(samples.batch(torch.arange(90))[0])  # So that the statistics are not the first.
        state = state_vector(module)
        flat = data.train_images.reshape(-1, 3) / 255
        images = (data.test_images / 255 - flat.mean(0)) / flat.std(0)
        module.eval()
        guess = module(torch.as_tensor(images.transpose(0, 3, 1, 2)).float()).argmax(1).numpy()
    assert len(set(guess.tolist())) > 1
    model = FlatModel(make_model("resnet20", shape, 5, 1), torch.float32, CPU)
    measured = accuracy(model, state, samples, Classification())
    # A tie or two may fall the other way by rounding.
    assert abs(measured - np.mean(guess == data.test_labels)) <= 2 / len(guess)
    # Measuring leaves the state as it is: no statistic moves.
    assert torch.equal(model.state(), state)


@pytest.mark.parametrize("test", [COMPILED_BATCH + 137, 5])
@pytest.mark.parametrize("way", [StackedEvaluation, CompiledEvaluation])
def test_many_at_once_is_one_after_the_other(test, way, monkeypatch):
    """Several batches and one; dropout sleeps, statistics are as trained."""
    # Written out but not compiled, which takes seconds; the compiled engine has its own test.
    monkeypatch.setattr(torch, "compile", lambda written, **_: written)
    monkeypatch.setattr(compiled, "PROGRAMS", {})
    shape = (3, 8, 8)
    samples = TensorSamples(noise(shape, test=test), torch.float64, CPU)
    with torch.random.fork_rng(devices=[]):
        # Of models drawn at will all three may guess one class.
        torch.manual_seed(3)
        modules = [WithNorm(shape, 5).double() for _ in range(3)]
    with torch.no_grad():
        for module in modules:
            module(samples.batch(torch.arange(90))[0])
    states = torch.stack([state_vector(module) for module in modules])
    model = FlatModel(WithNorm(shape, 5), torch.float64, CPU)
    wanted = [accuracy(model, state, samples, Classification()) for state in states]
    assert test == 5 or len(set(wanted)) > 1
    at_once = way(model, samples, Classification())
    assert at_once(states)[:, 0].tolist() == wanted
    assert at_once(states.flip(0))[:, 0].tolist() == wanted[::-1]


class WithNorm(nn.Module):
    def __init__(self, shape, classes) -> None:
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        x = self.norm(self.conv(x)).relu().mean((2, 3))
        return self.head(nn.functional.dropout(x, 0.5, self.training))
