"""Real data sets, where they are on the machine: their shapes, sizes and writers."""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedrt.data.catalogue import Dataset, channel_stats, load_dataset
from fedrt.errors import InputError

real = pytest.mark.skipif(
    not os.environ.get("FEDRT_DATA"), reason="FEDRT_DATA names no folder with the real data sets"
)


def needs(name: str) -> Dataset:
    """A real data set, or a skip that says why."""
    try:
        return load_dataset(name)
    except InputError as error:
        if "not found" not in str(error):
            raise
        pytest.skip(f"{name} is not in FEDRT_DATA: {error}")


@real
@pytest.mark.parametrize(
    ("name", "shape", "train", "test"),
    [
        ("cifar10", (32, 32, 3), 50_000, 10_000),
        ("mnist", (28, 28, 1), 60_000, 10_000),
        ("fmnist", (28, 28, 1), 60_000, 10_000),
    ],
)
def test_real_data_sets(name, shape, train, test):
    dataset = needs(name)
    assert dataset.train_images.shape == (train, *shape)
    assert dataset.test_images.shape == (test, *shape)
    balanced = name != "mnist"
    for labels in (dataset.train_labels, dataset.test_labels):
        counts = np.bincount(labels, minlength=10)
        assert len(counts) == 10
        assert not balanced or set(counts) == {len(labels) // 10}
    known = {
        # The published means and deviations of the training sets.
        "cifar10": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
        "mnist": ([0.1307], [0.3081]),
        "fmnist": ([0.2860], [0.3530]),
    }
    mean, deviation = channel_stats(dataset.train_images)
    assert_allclose(mean, known[name][0], atol=1e-4)
    assert_allclose(deviation, known[name][1], atol=1e-4)


@real
def test_real_femnist_has_72_writers_of_its_own_for_every_seed():
    needs("femnist")
    seen = []
    for seed in range(2):
        dataset = load_dataset("femnist", None, 72, seed)
        assert dataset.train_images.shape[1:] == (28, 28, 1)
        assert_array_equal(np.unique(dataset.train_writer), np.arange(72))
        train, test = (np.bincount(w) for w in (dataset.train_writer, dataset.test_writer))
        assert (train + test).min() >= 100
        assert np.abs(test - 0.1 * (train + test)).max() <= 0.5
        assert dataset.train_labels.max() < 62
        # White paper, black ink.
        assert np.median(dataset.train_images) > 200
        seen.append(dataset)
    assert seen[0].train_images.tobytes() != seen[1].train_images.tobytes()
