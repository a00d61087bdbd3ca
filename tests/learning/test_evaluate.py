"""Accuracy by hand, over several batches of the test set, with the statistics as trained."""

from __future__ import annotations

import numpy as np
import torch
from learning_cases import CPU, noise, state_vector

from fedrt.learning.evaluate import BATCH, accuracy
from fedrt.learning.flat import FlatModel
from fedrt.learning.models import make_model
from fedrt.learning.samples import Samples


def test_accuracy_by_hand_with_batch_norm():
    shape = (3, 4, 4)
    data = noise(shape, test=BATCH + 137)
    samples = Samples(data, torch.float32, CPU)
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
    measured = accuracy(model, state, samples)
    # A tie or two may fall the other way by rounding.
    assert abs(measured - np.mean(guess == data.test_labels)) <= 2 / len(guess)
    # Measuring leaves the state as it is: no statistic moves.
    assert torch.equal(model.state(), state)
