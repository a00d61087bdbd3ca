"""Every file format reads back what was written; nothing in a file is run; damage is one line."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from support import data_files as made

from fedrt.data.catalogue import load_dataset
from fedrt.data.cifar_pickle import cifar_pickle
from fedrt.data.formats import MOST_SAMPLES, _idx_shape, cifar_binary, read_idx
from fedrt.data.leaf import leaf_files, read_leaf
from fedrt.errors import InputError

PICKLES = ["python2", *(f"pickle{protocol}" for protocol in range(6))]
FORMS = [*PICKLES, "bin", "npz", "tar-python2", "tar-bin"]


def one_line(caught) -> str:
    """The single line of an InputError."""
    (line,) = caught.value.lines
    assert "\n" not in line
    return line


@pytest.mark.parametrize("form", FORMS)
def test_cifar_reads_back(tmp_path, form):
    made.write_cifar(tmp_path / "cifar10", form)
    dataset = load_dataset("cifar10", tmp_path)
    batches = [made.cifar_batch(i) for i in range(6)]
    assert dataset.train_images.dtype == np.uint8
    assert dataset.train_labels.dtype == np.int64
    assert_array_equal(dataset.train_images, np.concatenate([images for images, _ in batches[:5]]))
    assert_array_equal(dataset.train_labels, np.concatenate([labels for _, labels in batches[:5]]))
    assert_array_equal(dataset.test_images, batches[5][0])
    assert_array_equal(dataset.test_labels, batches[5][1])
    assert dataset.num_classes == 10


def test_the_python_2_pickle_of_these_tests_is_a_real_one():
    images, labels = made.cifar_batch(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.core has moved
        found = pickle.loads(made.python2_pickle(images, labels), encoding="bytes")
    assert_array_equal(found[b"data"], made.cifar_rows(images))
    assert found[b"labels"] == labels.tolist()


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">i4"])
def test_pickled_label_arrays_and_fortran_order(protocol, dtype):
    images, labels = made.cifar_batch(1)
    rows = np.asfortranarray(made.cifar_rows(images))
    raw = pickle.dumps({"data": rows, "labels": labels.astype(dtype)}, protocol=protocol)
    found = cifar_pickle(raw, "batch")
    assert_array_equal(found.images, images)
    assert_array_equal(found.labels, labels)


class Malicious:
    """Pickles as a call that leaves a file behind."""

    def __init__(self, call, *args):
        self.call, self.args = call, args

    def __reduce__(self):
        return self.call, self.args


@pytest.mark.parametrize("protocol", range(6))
def test_malicious_pickles_are_not_run(tmp_path, protocol):
    import os

    trace = tmp_path / "was-here"
    for attack in (
        Malicious(os.system, f"touch {trace}"),
        Malicious(exec, f"open({str(trace)!r}, 'w')"),
        Malicious(open, str(trace), "w"),
        Malicious(np.ndarray.tofile, np.zeros(3), str(trace)),
        Malicious(np.load, str(trace), None, True),
        Malicious(eval, "1"),
    ):
        images, labels = made.cifar_batch(0)
        rows = made.cifar_rows(images)
        for table in ({"data": rows, "labels": labels.tolist(), "x": attack}, attack, [attack]):
            with pytest.raises(InputError) as caught:
                cifar_pickle(pickle.dumps(table, protocol=protocol), "data_batch_1")
            assert "data_batch_1: refused, nothing in it was run: asks for" in one_line(caught)
            assert not trace.exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"cfedrt.learning.cifar_pickle\n_Reader\n.",
        b"cbuiltins\neval\n(V1\ntR.",
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R.",
        b"cnumpy\nload\n.",
        b"cnumpy\nndarray\n.",  # known, but no batch
        b"cnumpy\ndtype\n(V__class__\ntR}(V__class__\ncnumpy\nndarray\nub.",
        b"cnumpy\ndtype\n}(V__setstate__\nV1\nub.",
        b"cnumpy\ndtype\nN}V__init__\nV1\ns\x86b.",
        b"Pid\n.",
        b"",
        b".",
        b"\x80\x05N.",
        b"(lp0\n.",
        b"\x82\x01.",
    ],
)
def test_odd_pickles_are_one_line(raw):
    with pytest.raises(InputError) as caught:
        cifar_pickle(raw, "file")
    assert one_line(caught).startswith("file: ")
    # None of them left a mark on the reader.
    images, labels = made.cifar_batch(0)
    assert_array_equal(cifar_pickle(made.python2_pickle(images, labels), "file").images, images)


def test_npz_files_with_pickled_objects_are_refused(tmp_path):
    path = tmp_path / "own.npz"
    made.write_own(path, x_train=np.array([Malicious(print, "ran")] * 20, dtype=object))
    with pytest.raises(InputError) as caught:
        load_dataset(str(path))
    assert "allow_pickle=False" in one_line(caught)


@pytest.mark.parametrize("name", ["mnist", "fmnist"])
@pytest.mark.parametrize("gzipped", [True, False])
@pytest.mark.parametrize("dot", [True, False])
def test_idx_reads_back(tmp_path, name, gzipped, dot):
    made.write_idx(tmp_path / name, gzipped, dot)
    dataset = load_dataset(name, tmp_path)
    for part in ("train", "test"):
        images, labels = made.grey_samples(part)
        assert_array_equal(getattr(dataset, f"{part}_images"), images[..., None])
        assert_array_equal(getattr(dataset, f"{part}_labels"), labels)


@pytest.mark.parametrize("layout", ["whole", "split"])
def test_leaf_json_holds_the_same_samples_as_the_npz(tmp_path, layout):
    made.write_leaf(tmp_path / "leaf" / "femnist", layout)
    made.write_femnist_npz(tmp_path / "npz" / "femnist")
    leaf, npz = (load_dataset("femnist", tmp_path / form) for form in ("leaf", "npz"))

    def rows(dataset):
        """Every sample with its label and writer, in an order of their own."""
        images = np.concatenate([dataset.train_images, dataset.test_images])
        labels = np.concatenate([dataset.train_labels, dataset.test_labels])
        writer = np.concatenate([dataset.train_writer, dataset.test_writer])
        return sorted(
            (int(w), int(y), x.tobytes()) for w, y, x in zip(writer, labels, images, strict=True)
        )

    assert rows(leaf) == rows(npz)
    assert leaf.num_classes == 62


def test_idx_files_may_be_as_large_as_said_and_no_larger():
    def shape(*sides: int) -> tuple[int, ...]:
        return _idx_shape(Path("a"), bytes([0, 0, 8, 3]) + np.array(sides, ">u4").tobytes(), 3)

    assert shape(MOST_SAMPLES, 1000, 1000) == (MOST_SAMPLES, 1000, 1000)
    for sides in ((MOST_SAMPLES + 1, 1, 1), (1, 1001, 1), (1, 1, 1001)):
        with pytest.raises(InputError, match="must be at most"):
            shape(*sides)


def test_idx_errors_name_the_file_and_the_rule(tmp_path):
    images, labels = made.grey_samples("train")
    path = tmp_path / "train-images-idx3-ubyte"
    good = made.idx_bytes(images)
    for raw, words in {
        b"": "must be an idx file",
        good[:-1]: "fewer bytes than its head says: must have 9408",
        good + b"x": "more bytes than its head says",
        b"\x00\x00\x0d\x03" + good[4:]: "must be an idx file of bytes with 3 axes",
        made.idx_bytes(labels): "must be an idx file",
        bytes([0, 0, 8, 3]) + b"\xff" * 12: "must be at most",
        gzip.compress(good)[:-20]: "damaged or cut short",
        gzip.compress(good[:-1]): "fewer bytes",
        gzip.compress(good + b"x"): "more bytes",
    }.items():
        path.write_bytes(raw)
        with pytest.raises(InputError) as caught:
            read_idx(path, 3)
        assert one_line(caught).startswith(f"{path}: ")
        assert words in one_line(caught)


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (np.zeros((3, 28, 28)), [0, 1, 10], "label 10 of sample 2: must be from 0 to 9"),
        (np.zeros((3, 28, 28)), [0, 1], "2 labels for the 3 images"),
        (np.zeros((3, 28, 27)), [0, 1, 2], "images are 3 x 28 x 27 x 1: must be n x 28 x 28 x 1"),
        (np.zeros((0, 28, 28)), [], "must not be empty"),
    ],
)
def test_idx_pairs_are_checked(tmp_path, images, labels, words):
    made.write_idx(tmp_path, gzipped=False)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(made.idx_bytes(images))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(made.idx_bytes(np.array(labels)))
    with pytest.raises(InputError) as caught:
        load_dataset("mnist", tmp_path)
    assert words in one_line(caught)
    assert str(tmp_path / "train-") in one_line(caught)


def test_cifar_errors_name_the_file_and_the_rule(tmp_path):
    images, labels = made.cifar_batch(0)
    rows = made.cifar_rows(images)
    for table, words in (
        ({"data": rows}, "must be a dict with arrays data and labels"),
        ({"data": rows[:, :-1], "labels": [1, 2, 3]}, "data is 3 x 3071 of uint8: must be n x"),
        ({"data": rows.astype(float), "labels": [1, 2, 3]}, "must be a dict with arrays"),
        ({"data": rows.astype("i2"), "labels": [1, 2, 3]}, "of int16: must be n x 3072 of uint8"),
        ({"data": rows, "labels": [1, 2]}, "2 labels for 3 samples"),
        ({"data": rows, "labels": [1, 2, 10]}, "label 10 of sample 2: must be from 0 to 9"),
        ({"data": rows, "labels": [1, 2, -1]}, "label -1 of sample 2"),
        ({"data": rows, "labels": ["a", "b", "c"]}, "must be a dict with arrays"),
        ({"data": rows[:0], "labels": []}, "must not be empty"),
    ):
        with pytest.raises(InputError) as caught:
            cifar_pickle(pickle.dumps(table), "data_batch_3")
        assert one_line(caught).startswith("data_batch_3: ")
        assert words in one_line(caught)
    raw = made.cifar_bytes("bin", images, labels)
    for bad in (raw[:-1], b"", b"\x0a" + raw[1:]):
        with pytest.raises(InputError, match=r"data_batch_1\.bin: "):
            cifar_binary(bad, "data_batch_1.bin")
    path = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../data_batch_1"), io.BytesIO())
    with pytest.raises(InputError, match="must hold data_batch_2"):
        load_dataset("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.pop("users"), "must be LEAF's JSON"),
        (lambda table: table["users"].append("nobody"), "users must be the names"),
        (lambda table: table["user_data"]["f0001_14"].pop("y"), "f0001_14: must have x and y"),
        (lambda table: table["user_data"]["f0001_14"]["y"].pop(), "5 labels"),
        (lambda table: table["user_data"]["f0001_14"]["x"][2].pop(), "all of one length"),
        (lambda table: table["user_data"]["f0001_14"]["x"][2].__setitem__(3, 255.0), "0 to 1"),
        (lambda table: table["user_data"]["f0001_14"]["x"][2].__setitem__(3, "0.5"), "numbers"),
        (lambda table: table["user_data"]["f0001_14"]["y"].__setitem__(3, 62), "from 0 to 61"),
        (lambda table: table["user_data"]["f0001_14"]["y"].__setitem__(3, 1.5), "whole numbers"),
        (lambda table: table["user_data"].__setitem__("f0001_14", None), "must have x and y"),
    ],
)
def test_leaf_errors_name_the_file_and_the_rule(tmp_path, change, words):
    table = json.loads(made.leaf_text(*made.femnist_samples()))
    change(table)
    path = tmp_path / "all_data_0.json"
    path.write_text(json.dumps(table))
    with pytest.raises(InputError) as caught:
        read_leaf([path])
    assert one_line(caught).startswith(f"{path}: ")
    assert words in one_line(caught)


def test_leaf_without_any_sample(tmp_path):
    path = tmp_path / "all_data_0.json"
    path.write_text('{"users": ["a"], "user_data": {"a": {"x": [], "y": []}}}')
    with pytest.raises(InputError, match="without any sample"):
        read_leaf([path])
    path.write_text('{"users": ["a"')
    with pytest.raises(InputError, match="is not JSON"):
        read_leaf([path])


def small_files() -> dict[str, tuple[str, str, bytes]]:
    """One small file of each format: the data set it belongs to, its name, its bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made.write_cifar(folder / "tar", "tar-python2", 1)
        made.write_femnist_npz(folder / "npz", writers=2, each=2)
        made.write_own(folder / "own.npz")
        images, labels = made.cifar_batch(0, 1)
        grey, _ = made.grey_samples("train", 2)
        leaf = made.leaf_text(*(array[:2] for array in made.femnist_samples()))
        return {
            "pickle": ("cifar10", "data_batch_1", made.python2_pickle(images, labels)),
            "pickle5": ("cifar10", "data_batch_1", made.cifar_bytes("pickle5", images, labels)),
            "npz batch": ("cifar10", "data_batch_1.npz", made.cifar_bytes("npz", images, labels)),
            "tar": (
                "cifar10",
                "cifar-10-python.tar.gz",
                (folder / "tar" / "cifar-10-python.tar.gz").read_bytes(),
            ),
            "idx": (
                "mnist",
                "train-images-idx3-ubyte.gz",
                gzip.compress(made.idx_bytes(grey), mtime=0),
            ),
            "femnist npz": ("femnist", "femnist.npz", (folder / "npz/femnist.npz").read_bytes()),
            "leaf": ("femnist", "all_data_0.json", leaf.encode()),
            "own": ("own.npz", "own.npz", (folder / "own.npz").read_bytes()),
        }


SMALL = small_files()


def problems(name: str, folder: Path) -> list[str]:
    """The line that loading gives, if it does not succeed."""
    try:
        load_dataset(name, folder)
    except InputError as error:
        assert len(error.lines) == 1  # noqa: PT017
        return error.lines
    return []


@pytest.mark.parametrize("form", SMALL)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_files_load_or_are_one_line(form, data):
    name, file, raw = SMALL[form]
    damaged = bytearray(raw)
    # Heads and tails hold the structure: half of the damage goes there.
    ends = st.one_of(st.integers(0, min(300, len(raw) - 1)), st.integers(-300, -1))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.one_of(ends, st.integers(0, len(raw) - 1))) % len(raw)
        damaged[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(raw)), st.integers(0, len(raw))))
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        if name == "mnist":
            made.write_idx(folder)
        elif name == "cifar10" and not file.endswith(".gz"):
            made.write_cifar(folder, "npz" if file.endswith("npz") else "python2", 1)
        (folder / file).write_bytes(bytes(damaged[:cut]))
        for line in problems(name, folder):
            assert "\n" not in line
            assert str(folder) in line


def test_leafs_files_are_looked_for_where_leaf_puts_them(tmp_path):
    """In the folder itself only those named so; in its data/ all there are."""
    other, mine = tmp_path / "notes.json", tmp_path / "data" / "some.json"
    other.write_text("{}")
    assert leaf_files(tmp_path) == []
    mine.parent.mkdir()
    mine.write_text("{}")
    assert leaf_files(tmp_path) == [mine]
    here = tmp_path / "all_data_0.json"
    here.write_text("{}")
    assert leaf_files(tmp_path) == [here]
