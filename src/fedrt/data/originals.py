"""The known data sets: their files, where those are looked for, and how they are read."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from fedrt.data.cifar_pickle import cifar_pickle
from fedrt.data.formats import (
    CIFAR_SHAPE,
    GREY_SHAPE,
    Samples,
    check_samples,
    cifar_binary,
    cifar_npz,
    join,
    read_bytes,
    read_idx_pair,
    read_npz_file,
    reading,
)
from fedrt.data.leaf import leaf_files, read_leaf
from fedrt.errors import FedrtError, InputError, reason
from fedrt.system.files import write_whole
from fedrt.system.inputs import MOST_UNPACKED, refuse_larger

Split = tuple[Samples, Samples | None]
"""Training and test samples; no test samples where each run splits for itself."""
Batch = Callable[[bytes, object], Samples]

LARGEST_BATCH = 100_000_000


@dataclass(frozen=True)
class FoundFiles:
    """Files of a data set found in one folder; `missing` names those that are not there."""

    folder: Path
    form: str
    files: list[str]
    missing: list[str]
    read: Callable[[], Split]


Look = Callable[[Path], FoundFiles | None]


@dataclass(frozen=True)
class Original:
    """A data set that is known by name."""

    name: str
    num_classes: int
    shape: tuple[int, ...]
    wanted: str
    """The files to put into its folder, in words."""
    hub: str
    """Where `fedrt data fetch` gets it from."""
    folders: tuple[str, ...]
    """Sub-folders of the data folder in which it is looked for, before the folder itself."""
    looks: tuple[Look, ...]

    def found(self, data_folder: Path) -> list[FoundFiles]:
        """What is found of the data set under a data folder, best and complete ones first."""
        places = [data_folder / folder for folder in self.folders]
        # idx files have the same names in several data sets: take no folder that names another.
        if data_folder.name not in set(ORIGINALS) - {self.name}:
            places.append(data_folder)
        found = [look(place) for place in places if place.is_dir() for look in self.looks]
        return sorted((one for one in found if one), key=lambda one: bool(one.missing))


def read_original(name: str, data_folder: Path) -> tuple[FoundFiles, Split]:
    """The samples of a known data set and where they were found; an error if it is missing."""
    original = ORIGINALS[name]
    found = original.found(data_folder)
    if not found:
        raise InputError(f"{name}: not found in {data_folder}; {how_to_get(name, data_folder)}")
    if found[0].missing:
        raise InputError(f"{name}: {incomplete(found[0])}")
    return found[0], found[0].read()


def incomplete(found: FoundFiles) -> str:
    """A phrase for a data set of which files are missing."""
    return f"{found.folder} has {', '.join(found.files)} but not {', '.join(found.missing)}"


def what_to_put(name: str, data_folder: Path | None = None) -> str:
    """A phrase that says which files to put where."""
    where = f"{data_folder}/{name}" if data_folder else f"a folder {name} in the data folder"
    return f"put {ORIGINALS[name].wanted} into {where}"


def how_to_get(name: str, data_folder: Path | None = None) -> str:
    """A phrase that says how to get a data set: which files to put where, or a command."""
    fetch = f"fedrt data fetch {name}" if data_folder else f"fedrt data fetch {name} --data-dir DIR"
    return f"{what_to_put(name, data_folder)}, or run: {fetch}"


def save_original(name: str, split: Split, data_folder: Path) -> Path:
    """Write the samples as one npz file, which is the fastest to read; return its path."""
    train, test = split
    if test is None:
        arrays = {"images": train.images, "labels": train.labels, "writer": train.writer}
    else:
        arrays = {"x_train": train.images, "y_train": train.labels}
        arrays |= {"x_test": test.images, "y_test": test.labels}
    path = data_folder / name / f"{name}.npz"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FedrtError(f"{path.parent}: cannot be made: {reason(error)}") from None

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            # Not compressed: pictures gain little, and reading would take ten times as long.
            np.savez(file, allow_pickle=False, **arrays)  # type: ignore[arg-type]

    write_whole(path, write)
    return path


def _whole(name: str, classes: int, shape: tuple[int, ...]) -> Look:
    """The npz file that `fedrt data import` writes, if it is there."""

    def look(folder: Path) -> FoundFiles | None:
        path = folder / f"{name}.npz"
        if not path.is_file():
            return None

        def read() -> Split:
            found = read_npz_file(path, ["x_train", "y_train", "x_test", "y_test"])
            return (
                check_samples(path, found["x_train"], found["y_train"], classes, shape),
                check_samples(path, found["x_test"], found["y_test"], classes, shape),
            )

        return FoundFiles(folder, "npz", [path.name], [], read)

    return look


def _cifar_batches(form: str, suffix: str, batch: Batch) -> Look:
    names = [
        f"{stem}{suffix}" for stem in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
    ]

    def look(folder: Path) -> FoundFiles | None:
        have = [name for name in names if (folder / name).is_file()]

        def read() -> Split:
            parts = [batch(read_bytes(folder / name), folder / name) for name in names]
            return join(parts[:5]), parts[5]

        missing = [name for name in names if name not in have]
        return FoundFiles(folder, form, have, missing, read) if have else None

    return look


def _cifar_archive(file: str, suffix: str, batch: Batch) -> Look:
    names = [
        f"{stem}{suffix}" for stem in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
    ]

    def look(folder: Path) -> FoundFiles | None:
        path = folder / file

        def read() -> Split:
            members = _members(path, names)
            parts = [batch(members[name], f"{path}: {name}") for name in names]
            return join(parts[:5]), parts[5]

        return FoundFiles(folder, file, [file], [], read) if path.is_file() else None

    return look


def _members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The bytes of files in a tar archive by base name; nothing is written to disk."""
    found: dict[str, bytes] = {}
    with reading(path), tarfile.open(path, "r:*") as archive:
        for member in archive:
            refuse_larger(f"{path}, unpacked,", member.offset_data + member.size, MOST_UNPACKED)
            name = PurePosixPath(member.name).name
            file = archive.extractfile(member) if member.isfile() and name in names else None
            if file is not None:
                if member.size > LARGEST_BATCH:
                    size = f"{member.size} bytes"
                    raise InputError(f"{path}: {name} has {size}: no batch is that large")
                found[name] = file.read()
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"{path}: must hold {', '.join(missing)}")
    return found


def _idx_files(classes: int) -> Look:
    stems = ("train-images", "train-labels", "t10k-images", "t10k-labels")

    def look(folder: Path) -> FoundFiles | None:
        paths: list[Path] = []
        missing = []
        for stem in stems:
            axes = 3 if stem.endswith("images") else 1
            plain = [f"{stem}-idx{axes}-ubyte", f"{stem}.idx{axes}-ubyte"]
            names = [f"{name}.gz" for name in plain] + plain
            there = [folder / name for name in names if (folder / name).is_file()]
            paths += there[:1]
            missing += [] if there else names[:1]

        def read() -> Split:
            train = read_idx_pair(paths[0], paths[1], classes)
            return train, read_idx_pair(paths[2], paths[3], classes)

        have = [path.name for path in paths]
        return FoundFiles(folder, "idx", have, missing, read) if have else None

    return look


def _femnist_npz(folder: Path) -> FoundFiles | None:
    path = folder / "femnist.npz"
    if not path.is_file():
        return None

    def read() -> Split:
        found = read_npz_file(path, ["images", "labels", "writer"])
        images, labels, writer = found["images"], found["labels"], found["writer"]
        return check_samples(path, images, labels, 62, GREY_SHAPE, writer), None

    return FoundFiles(folder, "npz", [path.name], [], read)


def _femnist_leaf(folder: Path) -> FoundFiles | None:
    files = leaf_files(folder)
    names = [str(path.relative_to(folder)) for path in files]
    return (
        FoundFiles(folder, "LEAF JSON", names, [], lambda: (read_leaf(files), None))
        if files
        else None
    )


ORIGINALS = {
    original.name: original
    for original in (
        Original(
            "cifar10",
            10,
            CIFAR_SHAPE,
            "cifar-10-python.tar.gz, cifar-10-binary.tar.gz or their data_batch_1 to _5 and"
            " test_batch (plain, .bin or .npz)",
            "uoft-cs/cifar10",
            (
                "cifar10",
                "cifar10/cifar-10-batches-py",
                "cifar10/cifar-10-batches-bin",
                "cifar-10-batches-py",
                "cifar-10-batches-bin",
            ),
            (
                _whole("cifar10", 10, CIFAR_SHAPE),
                _cifar_batches("npz batches", ".npz", cifar_npz),
                _cifar_batches("python pickles", "", cifar_pickle),
                _cifar_batches("binary", ".bin", cifar_binary),
                _cifar_archive("cifar-10-python.tar.gz", "", cifar_pickle),
                _cifar_archive("cifar-10-binary.tar.gz", ".bin", cifar_binary),
            ),
        ),
        *(
            Original(
                name,
                10,
                GREY_SHAPE,
                "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and"
                " t10k-labels-idx1-ubyte (plain or .gz)",
                hub,
                (name, *also),
                (_whole(name, 10, GREY_SHAPE), _idx_files(10)),
            )
            for name, hub, also in (
                ("mnist", "ylecun/mnist", ("MNIST/raw",)),
                ("fmnist", "zalando-datasets/fashion_mnist", ("FashionMNIST/raw",)),
            )
        ),
        Original(
            "femnist",
            62,
            GREY_SHAPE,
            "LEAF's train/*.json and test/*.json, or femnist.npz (images, labels, writer),",
            "flwrlabs/femnist",
            ("femnist",),
            (_femnist_npz, _femnist_leaf),
        ),
    )
}
