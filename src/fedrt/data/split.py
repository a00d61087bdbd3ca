"""One file of samples for each device and one for the server, written once and read by each.

A device's samples stand in the order of its part of the training set, so that the mini-batches
that a run draws for it are the same in its own file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.data.catalogue import Dataset
from fedrt.data.formats import check_samples, read_npz_file
from fedrt.errors import FedrtError, InputError, reason

FORMAT = 1
"""The version of the files."""
TEST_FILE = "server.npz"


def device_file(number: int) -> str:
    """The name of a device's file."""
    return f"device-{number}.npz"


@dataclass(frozen=True, eq=False)
class OwnSamples:
    """The samples of one party: a device's training samples, or the server's test samples."""

    images: NDArray[Any]
    labels: NDArray[Any]
    num_classes: int
    device: int
    """The device's number; -1 of the server."""
    seed: int
    """The seed of the partition, which is that of the run."""
    data_digest: str
    """Of the whole data set."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample as models take it, the channels of images first."""
        shape = self.images.shape[1:]
        return (shape[2], *shape[:2]) if len(shape) == 3 else shape

    @property
    def integers(self) -> bool:
        """Whether samples are of whole numbers, such as tokens."""
        return self.images.dtype.kind == "i"

    def dataset(self, *, training: bool) -> Dataset:
        """A data set with these samples for training, or for testing, and no others."""
        own, none = (self.images, self.labels), (self.images[:0], self.labels[:0])
        train, test = (own, none) if training else (none, own)
        return Dataset("own samples", *train, *test, self.num_classes)


def write_files(
    folder: Path, dataset: Dataset, parts: Iterable[NDArray[np.int64]], seed: int, digest: str
) -> None:
    """Write the files of all devices and of the server into a folder that is there."""
    about = {
        "format": np.array(FORMAT),
        "num_classes": np.array(dataset.num_classes),
        "seed": np.array(seed),
        "data_digest": np.array(digest),
    }
    test = {"x": dataset.test_images, "y": dataset.test_labels, "device": np.array(-1)}
    _write(folder / TEST_FILE, test | about | _layout(dataset.test_images))
    about |= _layout(dataset.train_images)
    for number, part in enumerate(parts):
        own = {"x": dataset.train_images[part], "y": dataset.train_labels[part]}
        _write(folder / device_file(number), own | {"device": np.array(number)} | about)


def _layout(images: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Whether the channel axis of grey images was added to them: its stride is 0 then.

    By the strides torch chooses how it computes convolutions, which round differently: where
    devices are to train as a simulated run does, their arrays must have the same.
    """
    return {"added_axis": np.array(int(images.ndim == 4 and images.strides[-1] == 0))}


def _write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    try:
        # For its owner's eyes alone.
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            np.savez(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise FedrtError(f"{path}: cannot be written: {reason(error)}") from error


def read_own(path: Path, device: int | None = None) -> OwnSamples:
    """The samples in the file of a device, or of the server if no device is given, checked."""
    keys = ("x", "y", "format", "num_classes", "device", "seed", "added_axis", "data_digest")
    found = read_npz_file(path, keys)
    numbers = {key: _whole(path, key, found[key]) for key in keys[2:7]}
    if numbers["format"] != FORMAT:
        raise InputError(f"{path}: has format {numbers['format']}: must be {FORMAT}")
    wanted = -1 if device is None else device
    if numbers["device"] != wanted:
        has = "the server" if numbers["device"] < 0 else f"device {numbers['device']}"
        rule = "the server's, server.npz" if device is None else f"that of device {device}"
        raise InputError(f"{path}: is the file of {has}: must be {rule}")
    if numbers["num_classes"] < 1:
        raise InputError(f"{path}: num_classes must be at least 1")
    digest = found["data_digest"]
    if digest.ndim or digest.dtype.kind != "U":
        raise InputError(f"{path}: data_digest must be a text")
    classes = numbers["num_classes"] if found["y"].ndim == 1 else None
    samples = check_samples(path, found["x"], found["y"], classes)
    about = (numbers["num_classes"], wanted, numbers["seed"], str(digest))
    images = samples.images
    if numbers["added_axis"] and images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0][..., None]
    return OwnSamples(images, samples.labels, *about)


def _whole(path: Path, key: str, value: NDArray[Any]) -> int:
    if value.ndim or value.dtype.kind not in "iu":
        raise InputError(f"{path}: {key} must be a whole number")
    return int(value)
