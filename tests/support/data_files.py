"""Small data files of every known format, made by the tests that read them."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np

BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
IDX = {"train": ("train-images", "train-labels"), "test": ("t10k-images", "t10k-labels")}


def cifar_batch(number: int, count: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Images, channels last, and labels of one made-up batch."""
    rng = np.random.default_rng(number)
    images = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    return images, rng.integers(0, 10, count)


def cifar_rows(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), -1)


def python2_pickle(images: np.ndarray, labels: np.ndarray) -> bytes:
    """A batch as the original files have it: protocol 2, strings of Python 2."""

    def word(text: bytes) -> bytes:
        return b"U" + bytes([len(text)]) + text

    rows = cifar_rows(images)
    raw = rows.tobytes()
    dtype = b"cnumpy\ndtype\n" + word(b"u1") + b"K\x00K\x01\x87R"
    dtype += b"(K\x03" + word(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"M" + struct.pack("<H", len(rows)) + b"M" + struct.pack("<H", rows.shape[1]) + b"\x86"
    array = b"cnumpy.core.multiarray\n_reconstruct\n"
    array += b"(cnumpy\nndarray\nK\x00\x85" + word(b"b") + b"tR"
    array += b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([int(label)]) for label in labels) + b"e"
    items = word(b"batch_label") + word(b"training batch 1 of 5")
    items += word(b"labels") + numbers + word(b"data") + array
    return b"\x80\x02}(" + items + b"u."


def cifar_bytes(form: str, images: np.ndarray, labels: np.ndarray) -> bytes:
    rows = cifar_rows(images)
    if form == "bin":
        return np.concatenate([labels[:, None].astype(np.uint8), rows], axis=1).tobytes()
    if form == "npz":
        file = io.BytesIO()
        np.savez(file, images=images, labels=labels.astype(np.uint8))
        return file.getvalue()
    if form == "python2":
        return python2_pickle(images, labels)
    table = {"data": rows, "labels": labels.tolist(), "filenames": ["a.png"]}
    return pickle.dumps(table, protocol=int(form.removeprefix("pickle")))


def write_cifar(folder: Path, form: str, count: int = 3) -> None:
    """All six batches, plain in the folder or (`tar-...`) in their archive."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = form.removeprefix("tar-")
    suffix = {"bin": ".bin", "npz": ".npz"}.get(kind, "")
    files = {
        name + suffix: cifar_bytes(kind, *cifar_batch(i, count)) for i, name in enumerate(BATCHES)
    }
    if not form.startswith("tar-"):
        for name, raw in files.items():
            (folder / name).write_bytes(raw)
        return
    archive = "cifar-10-binary.tar.gz" if kind == "bin" else "cifar-10-python.tar.gz"
    with tarfile.open(folder / archive, "w:gz") as tar:
        for name, raw in files.items():
            info = tarfile.TarInfo(f"cifar-10-batches/{name}")
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))


def idx_bytes(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


def grey_samples(part: str, count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(len(part))
    return rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), np.arange(count) % 10


def write_idx(folder: Path, gzipped: bool = True, dot: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, names in IDX.items():
        for name, array in zip(names, grey_samples(part), strict=True):
            raw = idx_bytes(array)
            file = f"{name}{'.' if dot else '-'}idx{array.ndim}-ubyte"
            (folder / (file + (".gz" if gzipped else ""))).write_bytes(
                gzip.compress(raw) if gzipped else raw
            )


def femnist_samples(writers: int = 5, each: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, labels and writers, sorted by writer."""
    rng = np.random.default_rng(7)
    images = rng.integers(0, 256, (writers * each, 28, 28), dtype=np.uint8)
    return images, rng.integers(0, 62, writers * each), np.repeat(np.arange(writers), each)


def write_femnist_npz(folder: Path, writers: int = 5, each: int = 6) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    images, labels, writer = femnist_samples(writers, each)
    np.savez(
        folder / "femnist.npz",
        images=images,
        labels=labels.astype(np.uint8),
        writer=writer.astype(np.int32),
    )


def leaf_text(images: np.ndarray, labels: np.ndarray, writer: np.ndarray) -> str:
    names = [f"f{number:04d}_14" for number in np.unique(writer)]
    users = {}
    for number, name in zip(np.unique(writer), names, strict=True):
        here = writer == number
        pixels = (images[here].reshape(-1, 784) / 255.0).tolist()
        users[name] = {"x": pixels, "y": labels[here].tolist()}
    counts = [len(user["y"]) for user in users.values()]
    return json.dumps({"users": names, "num_samples": counts, "user_data": users})


def write_leaf(folder: Path, layout: str) -> None:
    """LEAF's files: `split` into train/ and test/, or `whole` in data/all_data/."""
    images, labels, writer = femnist_samples()
    if layout == "whole":
        cut = writer < 3
        for name, part in (("all_data_0.json", cut), ("all_data_1.json", ~cut)):
            path = folder / "data" / "all_data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(leaf_text(images[part], labels[part], writer[part]))
        return
    late = np.arange(len(labels)) % 6 >= 4
    for name, part in (("train", ~late), ("test", late)):
        path = folder / "data" / name / f"all_data_niid_0_{name}_9.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(leaf_text(images[part], labels[part], writer[part]))


def write_own(path: Path, **changes: np.ndarray) -> None:
    """A user's own npz file of 20 training and 8 test samples, 4 classes, 5 features."""
    rng = np.random.default_rng(3)
    arrays = {
        "x_train": rng.normal(size=(20, 5)),
        "y_train": np.arange(20) % 4,
        "x_test": rng.normal(size=(8, 5)),
        "y_test": np.arange(8) % 4,
    }
    np.savez(path, **(arrays | changes))
