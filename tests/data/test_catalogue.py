"""Data sets by name: where they are looked for, and what is said when they are not there."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from support import data_files as made

from fedrt.data.catalogue import channel_stats, load_dataset
from fedrt.errors import InputError


def problem(name: str, folder: Path | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_dataset(name, folder)
    (line,) = caught.value.lines
    assert "\n" not in line
    return line


def test_digits_need_nothing_and_are_always_split_the_same_way(no_folder):
    one, two = load_dataset("digits"), load_dataset("digits", None, 5, 99)
    assert_array_equal(one.train_images, two.train_images)
    assert_array_equal(one.test_labels, two.test_labels)
    assert one.train_images.shape[1:] == (8, 8, 1)
    assert one.train_images.dtype == np.float32
    assert one.train_images.min() == 0
    assert one.train_images.max() == 1
    train, test = (np.bincount(labels) for labels in (one.train_labels, one.test_labels))
    assert train.sum() + test.sum() == 1797
    # A fifth of each class, to the nearest sample.
    assert np.abs(test - 0.2 * (train + test)).max() <= 0.5
    rows = np.concatenate([one.train_images, one.test_images]).reshape(1797, -1)
    from sklearn.datasets import load_digits

    assert sorted(map(tuple, rows * 16)) == sorted(map(tuple, load_digits().data))


def test_the_data_folder_is_the_option_or_the_variable(tmp_path, monkeypatch):
    made.write_idx(tmp_path / "a" / "mnist")
    monkeypatch.setenv("FEDRT_DATA", str(tmp_path / "a"))
    assert len(load_dataset("mnist").train_labels) == 12
    (tmp_path / "b").mkdir()
    assert problem("mnist", tmp_path / "b").startswith(f"mnist: not found in {tmp_path / 'b'}; put")
    monkeypatch.setenv("FEDRT_DATA", str(tmp_path / "none"))
    assert problem("mnist").startswith("FEDRT_DATA = ")
    assert problem("mnist", tmp_path / "no\0ne").startswith("`data_dir` = ")


def test_the_folder_itself_and_other_layouts_count(tmp_path):
    made.write_idx(tmp_path / "plain")
    made.write_idx(tmp_path / "torch" / "FashionMNIST" / "raw")
    made.write_cifar(tmp_path / "x" / "cifar-10-batches-py", "python2")
    made.write_cifar(tmp_path / "y" / "cifar10" / "cifar-10-batches-bin", "bin")
    for name, folder in (("fmnist", "plain"), ("fmnist", "torch"), ("cifar10", "x")):
        assert len(load_dataset(name, tmp_path / folder).test_labels)
    assert len(load_dataset("cifar10", tmp_path / "y").test_labels) == 3


def test_one_data_set_is_not_taken_for_another_with_the_same_file_names(tmp_path):
    made.write_idx(tmp_path / "fmnist")
    assert len(load_dataset("fmnist", tmp_path / "fmnist").train_labels)
    assert "not found" in problem("mnist", tmp_path / "fmnist")


def test_missing_data_say_what_to_put_where(tmp_path, no_folder):
    line = problem("cifar10", tmp_path)
    assert "cifar-10-python.tar.gz" in line
    assert f"into {tmp_path}/cifar10" in line
    assert line.endswith("or run: fedrt data fetch cifar10")
    assert "set FEDRT_DATA or give `data_dir`" in problem("femnist")
    made.write_cifar(tmp_path / "cifar10", "python2")
    (tmp_path / "cifar10" / "data_batch_4").unlink()
    assert problem("cifar10", tmp_path).endswith("test_batch but not data_batch_4")


def test_unknown_names(no_folder):
    assert problem("cifar").endswith("did you mean cifar10?")
    assert "no such file" in problem("nothing.npz")
    assert "no such file" in problem("a\0.npz") or "null" in problem("a\0.npz")
    assert "cannot be imported" in problem("no.such.module:data")


def test_own_npz(tmp_path, no_folder):
    path = tmp_path / "own.npz"
    made.write_own(path)
    dataset = load_dataset(str(path))
    assert dataset.name == "own"
    assert dataset.train_images.dtype == np.float32
    assert dataset.train_images.shape == (20, 5)
    assert dataset.num_classes == 4
    assert len(load_dataset("own.npz", tmp_path).test_labels) == 8  # found in the data folder
    made.write_own(
        path,
        x_train=np.zeros((20, 6, 7), np.uint8),
        x_test=np.zeros((8, 6, 7), np.uint8),
        num_classes=np.array(9),
    )
    dataset = load_dataset(str(path))
    assert dataset.train_images.shape == (20, 6, 7, 1)  # bytes are grey images
    assert dataset.num_classes == 9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y_train": np.arange(19) % 4}, "19 labels for 20 samples: must be one for each"),
        ({"y_train": np.zeros(20)}, "y_train holds (1,) of float32, y_test () of int64"),
        ({"y_train": np.zeros((20, 1), int)}, "y_train holds (1,) of int64, y_test ()"),
        ({"y_train": np.zeros((20, 1, 1))}, "must be numbers, (n) or (n, m)"),
        ({"y_train": np.full(20, np.nan)}, "must be finite numbers"),
        ({"y_train": np.full((20, 2), -1)}, "label -1: must be at least 0"),
        ({"y_train": np.full(20, "a")}, "must be one whole number per sample"),
        ({"owner_train": np.zeros(20, int), "writer_train": np.zeros(20, int)}, "give one of them"),
        ({"y_train": np.full(20, -1)}, "label -1 of sample 0: must be from 0 to 9999"),
        ({"y_test": np.full(8, 10**9)}, "must be from 0 to 9999"),
        ({"num_classes": np.array(3)}, "label 3 of sample 3: must be from 0 to 2"),
        ({"num_classes": np.array(0)}, "num_classes must be a whole number"),
        ({"x_train": np.full((20, 5), np.nan)}, "must be finite"),
        ({"x_train": np.zeros((20, 5), int)}, "x_train holds (5,) of int64, x_test"),
        ({"x_train": np.zeros((20, 5), complex)}, "must be uint8, floating point or whole"),
        ({"x_train": np.zeros((20, 4))}, "must be the same"),
        ({"x_train": np.zeros((0, 5)), "y_train": np.zeros(0, int)}, "must not be empty"),
        ({"x_train": np.zeros(20)}, "must have at least two axes"),
        ({"x_train": np.array(1.0)}, "must have at least two axes"),
        ({"x_train": np.array(["a"] * 20)}, "must have at least two axes"),
        ({"writer_train": np.zeros(3, int)}, "3 writer ids for 20 samples"),
    ],
)
def test_own_npz_is_checked(tmp_path, no_folder, changes, words):
    path = tmp_path / "own.npz"
    made.write_own(path, **changes)
    line = problem(str(path))
    assert line.startswith(str(path))
    assert words in line


def test_an_array_without_names_is_no_data_set(tmp_path, no_folder):
    path = tmp_path / "own.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    assert "must be an npz file" in problem(str(path))
    np.savez(path, x_train=np.zeros(3))
    assert "has x_train: must have x_train, y_train, x_test, y_test" in problem(str(path))


def test_own_function(tmp_path, monkeypatch, no_folder):
    (tmp_path / "mydata.py").write_text(
        "import numpy as np\n"
        "x, y = np.ones((6, 3)), np.arange(6) % 2\n"
        "def as_tuple(): return x, y, x[:2], y[:2]\n"
        "def as_dict(): return dict(x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])\n"
        "def short(): return x, y\n"
        "def bad(): raise RuntimeError('disk\\non fire')\n"
        "def ragged(): return [[1], [1, 2]], y, x, y\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("as_tuple", "as_dict"):
        dataset = load_dataset(f"mydata:{name}")
        assert (dataset.name, dataset.num_classes) == (name, 2)
        assert dataset.train_images.shape == (6, 3)
    assert "must return x_train, y_train, x_test, y_test" in problem("mydata:short")
    assert "the function failed: RuntimeError: disk on fire" in problem("mydata:bad")
    assert "must return arrays" in problem("mydata:ragged")
    assert "must be a class or a function" in problem("mydata:number")
    sys.modules.pop("mydata")


def test_channel_stats_by_hand():
    images = np.zeros((2, 1, 2, 2), np.uint8)
    images[..., 0] = [[[0, 255]], [[0, 255]]]  # mean 1/2, deviation 1/2
    images[..., 1] = 51  # 51 / 255 = 1/5, never changes
    mean, deviation = channel_stats(images)
    assert_allclose(mean, [0.5, 0.2], rtol=1e-15)
    assert_allclose(deviation, [0.5, 1.0], rtol=1e-15)


@given(
    hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=4, max_side=5)),
    st.sampled_from([1.0, 1e-3, 1e4]),
)
def test_channel_stats_are_numpys(images, scale):
    axes = tuple(range(images.ndim - 1))
    floats = (images * scale).astype(np.float32)
    for given_images, values in ((images, images / 255.0), (floats, floats.astype(np.float64))):
        mean, deviation = channel_stats(given_images)
        still = values.max(axes) == values.min(axes)
        assert_allclose(mean, values.mean(axes), rtol=1e-12, atol=1e-300)
        assert_allclose(deviation, np.where(still, 1.0, values.std(axes)), rtol=1e-9)


def told(tmp_path, **changes):
    path = tmp_path / "own.npz"
    made.write_own(path, **changes)
    return load_dataset(str(path)).notes


def test_complaints_name_the_array_they_are_about(tmp_path, no_folder):
    path = tmp_path / "own.npz"
    for changes, name in [
        ({"y_train": np.full(20, -1)}, "y_train"),
        ({"y_test": np.arange(7)}, "y_test"),
        ({"x_train": np.full((20, 5), np.nan)}, "x_train"),
        ({"writer_train": np.zeros(20), "writer_test": np.zeros(8, int)}, "writer_train"),
    ]:
        made.write_own(path, **changes)
        assert problem(str(path)).startswith(f"{path}: {name}: ")


def test_labels_with_gaps_and_labels_never_trained_on_are_told(tmp_path, no_folder):
    assert told(tmp_path) == ()
    gaps = np.array([0, 500, 1000])
    (line,) = told(tmp_path, y_train=gaps[np.arange(20) % 3], y_test=gaps[np.arange(8) % 3])
    assert line == (
        f"note: {tmp_path}/own.npz: the labels are 0, 500, 1000: 3 different ones, but the model"
        " gets 1001 classes; number them from 0 to 2, or say num_classes"
    )
    (line,) = told(tmp_path, y_train=np.arange(20) % 3, y_test=np.arange(8) % 4)
    assert line == (
        f"note: {tmp_path}/own.npz: y_test has labels that y_train never has, 3: 25.0% of the test"
        " samples that no model can learn"
    )
    # Said by the user: not all of them need be there.
    assert (
        told(tmp_path, y_train=np.arange(20) % 2, num_classes=np.array(9), y_test=np.zeros(8, int))
        == ()
    )
