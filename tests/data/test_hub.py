"""Data sets are fetched from the hub and come out as the originals do."""

from __future__ import annotations

import sys

import pytest
from numpy.testing import assert_array_equal
from support import data_files as made

from fedrt.data.hub import fetch_original
from fedrt.errors import InputError


class Table:
    """The little of a hub table that is used."""

    def __init__(self, **columns):
        self.columns = columns

    def with_format(self, form):
        assert form == "numpy"
        return self

    def iter(self, batch_size):
        size = len(next(iter(self.columns.values())))
        for start in range(0, size, batch_size):
            yield {name: col[start : start + batch_size] for name, col in self.columns.items()}


class Hub:
    """A stand-in for the `datasets` library."""

    def __init__(self, tables):
        self.tables = tables

    def load_dataset(self, name):
        if name not in self.tables:
            raise ConnectionError("no\nnetwork")
        return self.tables[name]


def test_fetching(monkeypatch):
    images, labels, writer = made.femnist_samples()
    names = [f"f{w}" for w in writer]
    cifar, numbers = made.cifar_batch(0)
    hub = Hub(
        {
            "flwrlabs/femnist": {
                "train": Table(image=images, character=labels, writer_id=names, hsf_id=labels)
            },
            "uoft-cs/cifar10": {
                "train": Table(img=cifar, label=numbers),
                "test": Table(img=cifar[:1], label=numbers[:1]),
            },
            "zalando-datasets/fashion_mnist": {"train": Table(image=[], label=[])},
        }
    )
    monkeypatch.setitem(sys.modules, "datasets", hub)
    samples, test = fetch_original("femnist")
    assert test is None
    assert_array_equal(samples.images[..., 0], images)
    assert_array_equal(samples.writer, writer)
    samples, test = fetch_original("cifar10")
    assert_array_equal(samples.images, cifar)
    assert_array_equal(test.labels, numbers[:1])
    with pytest.raises(InputError, match="has no rows"):
        fetch_original("fmnist")
    with pytest.raises(InputError) as caught:
        fetch_original("mnist")
    (line,) = caught.value.lines
    assert "huggingface.co/datasets/ylecun/mnist: ConnectionError: no network; or put train" in line
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'fedrt\[datasets\]'; or put train-images"):
        fetch_original("mnist")
