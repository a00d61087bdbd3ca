"""Data sets by name: digits, the known ones from their files, and users' own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.data.formats import Samples, check_samples, read_npz_file
from fedrt.data.originals import ORIGINALS, how_to_get, read_original
from fedrt.errors import FedrtError, InputError, reason
from fedrt.seeding import stream
from fedrt.system.extras import MissingLibraryError
from fedrt.system.plugins import load_plugin
from fedrt.validation import hint, shown

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FIELD = "scenario.learning.dataset"
KEYS = ("x_train", "y_train", "x_test", "y_test")
WRITER_KEYS = ("writer_train", "writer_test")
OWNER_KEYS = ("owner_train", "owner_test")
"""The same by a name that fits all data."""
MOST_TOKENS = 1_000_000
NAMES = ("digits", *ORIGINALS)
TEST_SHARE = {"digits": 0.2}
WRITER_TEST_SHARE = 0.1
LEAST_PER_WRITER = {"femnist": 100}
"""LEAF cuts some writers short. Elsewhere two samples will do, one to train and one to test."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples with their labels.

    Images are (n, height, width, channels), uint8 or float32; a user's own data may be any
    (n, ...) array of float32, or of int64, such as tokens. Labels are a class each, int64; or
    (n, m) numbers, float32 or int64.
    """

    name: str
    train_images: NDArray[Any]
    train_labels: NDArray[Any]
    test_images: NDArray[Any]
    test_labels: NDArray[Any]
    num_classes: int
    """How many classes, labels or tokens there are, or numbers to predict."""
    train_writer: IntArray | None = None
    test_writer: IntArray | None = None
    notes: tuple[str, ...] = ()
    """Notes on the data that the user should see before training."""

    @property
    def train_classes(self) -> IntArray | None:
        """The class of each training sample; None where samples do not have one each."""
        return self.train_labels if self.train_labels.ndim == 1 else None


def load_dataset(
    name: str, data_dir: Path | None = None, num_writers: int | None = None, seed: int = 0
) -> Dataset:
    """The data set of that name, looked for under `data_dir`, else under FEDRT_DATA.

    A name is one of `NAMES`, a path to an npz file (x_train, y_train, x_test, y_test) or an import
    path, `package.module:function`, of a function that returns those as a dict or tuple. With
    `num_writers` it is reduced to that many writers, drawn by the seed: see `draw_writers`.
    """
    if name == "digits":
        dataset = _digits()
    elif name in ORIGINALS:
        dataset = _original(name, data_dir)
    elif name.endswith(".npz"):
        dataset = _own_file(name, data_dir)
    elif ":" in name:
        dataset = _own_function(name)
    else:
        known = f"one of {', '.join(NAMES)}, a .npz file or an import path, package.module:function"
        raise InputError(f"{FIELD} = {shown(name)}: must be {known}{hint(name, NAMES)}")
    if num_writers is None or dataset.train_writer is None:
        return dataset
    return draw_writers(dataset, num_writers, seed)


def data_folder(data_dir: Path | None) -> Path | None:
    """The folder of data sets: the one given, or that of FEDRT_DATA; None if neither is set."""
    given = os.environ.get("FEDRT_DATA") or None
    name = "FEDRT_DATA" if data_dir is None else "`data_dir`"
    folder = Path(given) if data_dir is None and given else data_dir
    try:
        if folder is not None and not folder.is_dir():
            raise InputError(f"{name} = {shown(str(folder))}: must be a folder that is there")
    except (OSError, ValueError) as error:
        raise InputError(f"{name} = {shown(str(folder))}: {reason(error)}") from None
    return folder


def draw_writers(
    dataset: Dataset, num_writers: int, seed: int, least_samples: int | None = None
) -> Dataset:
    """The data of a number of writers, drawn from those with at least `least_samples`.

    Nine tenths of a writer's samples train, the rest are pooled into the test set; where the test
    samples have no writers, the given split stays. Writers are renumbered, in the order drawn:
    more of them leave the first ones as they were.
    """
    if dataset.train_writer is None:
        raise InputError(f"{dataset.name}: its samples have no writers; use another partition")
    least = LEAST_PER_WRITER.get(dataset.name, 2) if least_samples is None else least_samples
    images, labels, writer = dataset.train_images, dataset.train_labels, dataset.train_writer
    if dataset.test_writer is not None:
        images = np.concatenate([images, dataset.test_images])
        labels = np.concatenate([labels, dataset.test_labels])
        writer = np.concatenate([writer, dataset.test_writer])
    names, place, counts = np.unique(writer, return_inverse=True, return_counts=True)
    eligible = names[counts >= least]
    if len(eligible) < num_writers:
        rule = f"at least one per device ({num_writers})"
        has = f"{len(eligible)} writers with at least {least} samples"
        raise InputError(f"{dataset.name}: has {has}: must be {rule}")
    drawn = stream(seed, "writers").permutation(eligible)[:num_writers]
    share = 0.0 if dataset.test_writer is None else WRITER_TEST_SHARE
    train, test = _split_by_writer(writer, drawn, share, seed)
    number = np.zeros(len(names), dtype=np.int64)
    number[np.searchsorted(names, drawn)] = np.arange(num_writers)
    reduced = replace(
        dataset,
        train_images=images[train],
        train_labels=labels[train],
        train_writer=number[place[train]],
    )
    if dataset.test_writer is None:
        return reduced
    return replace(
        reduced,
        test_images=images[test],
        test_labels=labels[test],
        test_writer=number[place[test]],
    )


def _split_by_writer(
    writer: IntArray, names: IntArray, test_share: float, seed: int
) -> tuple[IntArray, IntArray]:
    """The sorted numbers of the training and test samples, each writer's split drawn by itself."""
    order = np.argsort(writer, kind="stable")
    first = np.searchsorted(writer[order], names, side="left")
    last = np.searchsorted(writer[order], names, side="right")
    train, test = [], []
    for name, a, b in zip(names, first, last, strict=True):
        mixed = stream(seed, "writer split", int(name)).permutation(order[a:b])
        held_out = round(test_share * len(mixed))
        if test_share:
            held_out = min(max(held_out, 1), len(mixed) - 1)
        test.append(mixed[:held_out])
        train.append(mixed[held_out:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def channel_stats(train_images: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """The mean and deviation of each channel (last axis); uint8 is scaled to 0 to 1.

    A channel that never changes gets the deviation 1, so that dividing by it does no harm.
    """
    channels = train_images.shape[-1]
    if train_images.dtype == np.uint8:
        first, second = _byte_sums(train_images, channels)
        # Whole numbers up to the last step: exact, whatever the order of samples.
        count = train_images.size // channels
        mean = np.array([a / (255 * count) for a in first])
        pairs = zip(first, second, strict=True)
        variance = np.array([(count * b - a * a) / (255 * count) ** 2 for a, b in pairs])
    else:
        axes = tuple(range(train_images.ndim - 1))
        mean = train_images.mean(axis=axes, dtype=np.float64)
        variance = np.zeros(channels)
        for start in range(0, len(train_images), 1000):
            part = train_images[start : start + 1000].astype(np.float64) - mean
            variance += (part**2).sum(axis=axes)
        variance /= train_images.size // channels
    still = variance <= 1e-14 * mean**2
    return mean, np.where(still, 1.0, np.sqrt(variance))


def _byte_sums(images: NDArray[Any], channels: int) -> tuple[list[int], list[int]]:
    """The sum of every channel's bytes and of their squares."""
    rows = images.reshape(len(images), -1)
    first = np.zeros(rows.shape[1], dtype=np.uint64)
    second = np.zeros_like(first)
    for start in range(0, len(rows), 256):
        part = rows[start : start + 256].astype(np.uint32)
        first += part.sum(0)
        second += (part * part).sum(0)
    sums = (total.reshape(-1, channels).sum(0) for total in (first, second))
    one, two = ([int(value) for value in total] for total in sums)
    return one, two


def _digits() -> Dataset:
    """scikit-learn's 1,797 digits, 8 x 8 grey, four fifths of each class for training."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError:
        raise MissingLibraryError("digits", "sklearn") from None
    found = load_digits()
    images = (found.images / 16.0).astype(np.float32)[..., None]
    labels = found.target.astype(np.int64)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in range(10):
        # A property of the data set: the same split whatever the seed of a run.
        mixed = stream(0, "digits split", label).permutation(np.flatnonzero(labels == label))
        is_test[mixed[: round(TEST_SHARE["digits"] * len(mixed))]] = True
    return Dataset(
        "digits", images[~is_test], labels[~is_test], images[is_test], labels[is_test], 10
    )


def _original(name: str, data_dir: Path | None) -> Dataset:
    folder = data_folder(data_dir)
    if folder is None:
        raise InputError(f"{name}: set FEDRT_DATA or give `data_dir`; {how_to_get(name)}")
    _, (train, test) = read_original(name, folder)
    return from_samples(name, train, test, ORIGINALS[name].num_classes)


def from_samples(name: str, train: Samples, test: Samples | None, num_classes: int) -> Dataset:
    """The data set of checked samples; without test samples a tenth of each writer's are taken."""
    if test is None:
        assert train.writer is not None
        # Fixed, like every split that comes with its data; runs by writer draw their own.
        names = np.unique(train.writer)
        one, two = _split_by_writer(train.writer, names, WRITER_TEST_SHARE, 0)
        train, test = (
            Samples(train.images[part], train.labels[part], train.writer[part])
            for part in (one, two)
        )
    return Dataset(
        name,
        train.images,
        train.labels,
        test.images,
        test.labels,
        num_classes,
        train.writer,
        test.writer,
    )


def _own_file(name: str, data_dir: Path | None) -> Dataset:
    path = Path(name)
    folder = data_folder(data_dir)
    try:
        if not path.is_file() and folder is not None and (folder / path).is_file():
            path = folder / path
        if not path.is_file():
            also = "" if folder is None or path.is_absolute() else f" or in {folder}"
            raise InputError(f"{FIELD} = {shown(name)}: no such file here{also}")
    except (OSError, ValueError) as error:
        raise InputError(f"{FIELD} = {shown(name)}: {reason(error)}") from None
    return _own(
        path.stem, path, read_npz_file(path, KEYS, (*WRITER_KEYS, *OWNER_KEYS, "num_classes"))
    )


def _own_function(name: str) -> Dataset:
    make = load_plugin(name, FIELD)
    where = f"{FIELD} = {shown(name)}"
    try:
        found = make()
    except FedrtError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {reason(error)}"
        raise InputError(f"{where}: the function failed: {what}") from error
    if isinstance(found, tuple) and len(found) == 4:
        found = dict(zip(KEYS, found, strict=True))
    if not isinstance(found, Mapping) or not all(key in found for key in KEYS):
        raise InputError(f"{where}: must return {', '.join(KEYS)} as a tuple or a dict")
    try:
        arrays = {key: np.asarray(found[key]) for key in found}
    except Exception as error:
        raise InputError(f"{where}: must return arrays: {reason(error)}") from None
    return _own(name.partition(":")[2], where, arrays)


def _own(name: str, where: object, found: Mapping[str, NDArray[Any]]) -> Dataset:
    """A user's own data set, checked."""
    classes = None
    found = _with_owners(where, found)
    if "num_classes" in found:
        given = found["num_classes"]
        most = MOST_TOKENS if found["y_train"].ndim > 1 else 10_000
        if given.ndim or given.dtype.kind not in "iu" or not 1 <= int(given) <= most:
            raise InputError(f"{where}: num_classes must be a whole number from 1 to {most}")
        classes = int(given)
    train, test = (
        check_samples(
            f"{where}: x_{part}",
            found[f"x_{part}"],
            found[f"y_{part}"],
            classes,
            writer=found.get(f"writer_{part}"),
            names=(f"{where}: y_{part}", f"{where}: writer_{part}"),
        )
        for part in ("train", "test")
    )
    if train.images.shape[1:] != test.images.shape[1:] or train.images.dtype != test.images.dtype:
        one, two = (f"{s.images.shape[1:]} of {s.images.dtype}" for s in (train, test))
        raise InputError(f"{where}: x_train holds {one}, x_test {two}: must be the same")
    one, two = (f"{s.labels.shape[1:]} of {s.labels.dtype}" for s in (train, test))
    if one != two:
        raise InputError(f"{where}: y_train holds {one}, y_test {two}: must be the same")
    notes: tuple[str, ...] = ()
    if train.labels.ndim > 1:
        classes = _count_of(where, train, test, classes)
    else:
        notes = tuple(f"note: {where}: {line}" for line in _label_notes(train, test, classes))
    if classes is None:
        classes = int(max(train.labels.max(), test.labels.max())) + 1
    writer = None if train.writer is None else test.writer
    return Dataset(
        name,
        train.images,
        train.labels,
        test.images,
        test.labels,
        classes,
        train.writer,
        writer,
        notes,
    )


def _with_owners(where: object, found: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """The arrays with owners under the names of writers; an error if both are given."""
    for owner, writer in zip(OWNER_KEYS, WRITER_KEYS, strict=True):
        if owner in found and writer in found:
            raise InputError(f"{where}: {owner} and {writer} are the same: give one of them")
    names = dict(zip(OWNER_KEYS, WRITER_KEYS, strict=True))
    return {names.get(name, name): array for name, array in found.items()}


def _count_of(where: object, train: Samples, test: Samples, given: int | None) -> int:
    """The number of tokens of sequences, else of the numbers that each label has."""
    tokens = train.images.dtype.kind == "i" and train.labels.shape == train.images.shape
    if train.labels.dtype.kind == "f" or not tokens:
        count = train.labels.shape[1]
        if given not in (None, count):
            raise InputError(f"{where}: num_classes is {given}, but labels have {count} numbers")
        return count
    most = max(int(array.max()) for s in (train, test) for array in (s.images, s.labels))
    if given is not None and most >= given:
        raise InputError(f"{where}: has token {most}: must be below num_classes = {given}")
    if min(int(s.images.min()) for s in (train, test)) < 0:
        raise InputError(f"{where}: has tokens below 0: must be at least 0")
    return most + 1 if given is None else given


def _label_notes(train: Samples, test: Samples, classes: int | None) -> list[str]:
    """Notes on labels with gaps, and on test labels that have no training samples."""
    notes = []
    known = np.unique(train.labels)
    every = np.union1d(known, test.labels)
    count = int(every[-1]) + 1
    if classes is None and len(every) < count:
        notes.append(
            f"the labels are {_few(every)}: {len(every)} different ones, but the model gets {count}"
            f" classes; number them from 0 to {len(every) - 1}, or say num_classes"
        )
    unseen = np.setdiff1d(test.labels, known)
    if len(unseen):
        share = np.isin(test.labels, unseen).mean()
        notes.append(
            f"y_test has labels that y_train never has, {_few(unseen)}: {share:.1%} of the test"
            " samples that no model can learn"
        )
    return notes


def _few(labels: IntArray) -> str:
    words = [str(label) for label in labels[:5]]
    return ", ".join(words) + (", ..." if len(labels) > len(words) else "")
