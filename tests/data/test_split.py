"""The files of real devices: what is in them, and what is refused."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from fedrt.data.catalogue import Dataset
from fedrt.data.split import read_own, write_files
from fedrt.errors import FedrtError, InputError
from fedrt.system import inputs

RNG = np.random.default_rng(1)
KINDS = {
    "images": RNG.integers(0, 256, (12, 4, 5, 3), dtype=np.uint8),
    "numbers": RNG.normal(size=(12, 7)).astype(np.float32),
    "tokens": RNG.integers(0, 9, (12, 6)),
}
PARTS = [np.array([1, 4, 9]), np.array([0, 0, 2, 11])]


def dataset(kind):
    inputs = KINDS[kind]
    labels = inputs if kind == "tokens" else np.arange(12) % 3
    return Dataset("made up", inputs, labels, inputs[:4], labels[:4], 9)


@pytest.mark.parametrize("kind", KINDS)
def test_every_party_reads_its_own_samples_in_their_order(kind, tmp_path):
    whole = dataset(kind)
    write_files(tmp_path, whole, PARTS, 7, "abc")
    for number, part in enumerate(PARTS):
        own = read_own(tmp_path / f"device-{number}.npz", number)
        np.testing.assert_array_equal(own.images, whole.train_images[part])
        np.testing.assert_array_equal(own.labels, whole.train_labels[part])
        assert own.images.dtype == whole.train_images.dtype
        assert (own.device, own.seed, own.data_digest, own.num_classes) == (number, 7, "abc", 9)
        assert own.shape == {"images": (3, 4, 5), "numbers": (7,), "tokens": (6,)}[kind]
        assert own.integers == (kind == "tokens")
        made = own.dataset(training=True)
        assert (len(made.train_labels), len(made.test_labels)) == (len(part), 0)
    server = read_own(tmp_path / "server.npz")
    np.testing.assert_array_equal(server.images, whole.test_images)
    assert len(server.dataset(training=False).test_labels) == 4
    with pytest.raises(FedrtError, match="cannot be written"):
        write_files(tmp_path, whole, PARTS, 7, "abc")


WRONG = {
    "device": (np.array(3), "is the file of device 3: must be that of device 0"),
    "format": (np.array(2), "has format 2: must be 1"),
    "num_classes": (np.array(0), "must be at least 1"),
    "seed": (np.array(0.5), "seed must be a whole number"),
    "data_digest": (np.array(5), "data_digest must be a text"),
    "y": (np.array([0, 1, 9]), "label 9 of sample 2: must be from 0 to 8"),
    "x": (np.full((3, 7), np.nan), "must be finite"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_not_a_devices_own_is_refused(name, tmp_path):
    write_files(tmp_path, dataset("numbers"), PARTS, 7, "abc")
    path = tmp_path / "device-0.npz"
    with np.load(path) as held:
        arrays = dict(held)
    value, message = WRONG[name]
    path.unlink()
    np.savez(path, **(arrays | {name: value}))
    with pytest.raises(InputError, match=message):
        read_own(path, 0)


def test_files_that_would_run_code_or_fill_the_memory_are_refused(tmp_path, monkeypatch):
    write_files(tmp_path, dataset("numbers"), PARTS, 7, "abc")
    path = tmp_path / "device-0.npz"
    raw = path.read_bytes()
    with np.load(path) as held:
        arrays = dict(held)
    np.savez(path, **(arrays | {"x": np.array([print, print, print])}))
    with pytest.raises(InputError, match="cannot be read"):
        read_own(path, 0)
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        read_own(path, 0)
    monkeypatch.setattr(inputs, "MOST_UNPACKED", 1000)
    file = io.BytesIO()
    np.savez_compressed(file, **(arrays | {"x": np.zeros((3, 10_000))}))
    assert zipfile.is_zipfile(file)
    path.write_bytes(file.getvalue())
    with pytest.raises(InputError, match="compressed arrays must have at most 1000"):
        read_own(path, 0)
