"""Readers of single data files: npz, idx and CIFAR's binary, each checked against its rules.

Nothing here executes what it reads: no pickles in npz files, no objects. Whatever is wrong with a
file becomes one line that names it and the rule it breaks.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError, reason
from fedrt.system import inputs
from fedrt.validation import shown

Array = NDArray[Any]
IntArray = NDArray[np.int64]

CIFAR_SHAPE = (32, 32, 3)
GREY_SHAPE = (28, 28, 1)
MOST_CLASSES = 10_000
MOST_SAMPLES = 10_000_000


@dataclass(frozen=True, eq=False)
class Samples:
    """Checked samples: images or other inputs, labels, and writers where they are known."""

    images: Array
    labels: Array
    writer: IntArray | None = None


@contextmanager
def reading(file: object) -> Iterator[None]:
    """Turn any exception from reading a damaged file into one line that names the file.

    The libraries beneath raise errors of a dozen families for damaged bytes, hence all of them.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {reason(error)}"
        raise InputError(f"{file}: cannot be read, damaged or cut short: {what}") from None


def read_bytes(path: Path) -> bytes:
    """All bytes of a file of samples."""
    try:
        return inputs.read_bytes(path, inputs.MOST_DATA)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def check_samples(
    file: object,
    images: Array,
    labels: Array,
    classes: int | None = None,
    shape: tuple[int, ...] | None = None,
    writer: Array | None = None,
    names: tuple[object, object] | None = None,
) -> Samples:
    """The samples in the types used inside: inputs of uint8, float32 or int64, and their labels.

    With a `shape`, every image must have it, but for a missing last axis of one grey channel.
    Without, uint8 inputs of (n, h, w) get that axis and floating point ones stay as they are.
    `names` are what complaints call the labels and the writers, where that is not `file`.
    """
    labels_name, writer_name = names or (file, file)
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim == 3 and images.dtype == np.uint8 and (shape is None or shape[-1] == 1):
        images = images[..., None]
    has = " x ".join(map(str, images.shape)) or "one number"
    if shape is not None and images.shape[1:] != shape:
        rule = " x ".join(map(str, shape))
        raise InputError(f"{file}: images are {has}: must be n x {rule}")
    if images.ndim < 2:
        raise InputError(f"{file}: samples are {has}: must have at least two axes, samples first")
    if 0 in images.shape:
        raise InputError(f"{file}: samples are {has}: must not be empty")
    if images.dtype != np.uint8:
        if shape is not None or images.dtype.kind not in "fiu":
            rule = "uint8" if shape is not None else "uint8, floating point or whole numbers"
            raise InputError(f"{file}: samples are of type {images.dtype}: must be {rule}")
        images = images.astype(np.float32 if images.dtype.kind == "f" else np.int64, copy=False)
        if not np.isfinite(images).all():
            raise InputError(f"{file}: samples must be finite numbers, without NaN")
    if shape is None and (labels.dtype.kind in "fb" or labels.ndim > 1):
        numbers = check_targets(labels_name, labels, len(images))
    else:
        numbers = check_labels(labels_name, labels, len(images), classes)
    if writer is not None:
        writer = _whole_numbers(writer_name, "writer ids", np.asarray(writer), len(images))
    return Samples(images, numbers, writer)


def check_targets(file: object, labels: Array, count: int) -> Array:
    """Labels other than one class per sample: (n, numbers) in float32, or whole numbers >= 0."""
    if labels.dtype.kind not in "fiub" or labels.ndim not in (1, 2) or 0 in labels.shape:
        has = f"{labels.ndim}-dimensional of type {labels.dtype}"
        raise InputError(f"{file}: labels are {has}: must be numbers, (n) or (n, m)")
    if len(labels) != count:
        raise InputError(f"{file}: {len(labels)} labels for {count} samples: must be one for each")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise InputError(f"{file}: labels must be finite numbers, without NaN")
        return labels.reshape(count, -1).astype(np.float32)
    numbers = labels.reshape(count, -1).astype(np.int64)
    if numbers.min() < 0:
        raise InputError(f"{file}: label {numbers.min()}: must be at least 0")
    return numbers


def check_labels(file: object, labels: Array, count: int, classes: int | None = None) -> IntArray:
    """Labels as int64: one per sample, each from 0 to the number of classes less one."""
    numbers = _whole_numbers(file, "labels", labels, count)
    most = (MOST_CLASSES if classes is None else classes) - 1
    bad = (numbers < 0) | (numbers > most)
    if bad.any():
        n = int(np.argmax(bad))
        raise InputError(f"{file}: label {numbers[n]} of sample {n}: must be from 0 to {most}")
    return numbers


def _whole_numbers(file: object, what: str, values: Array, count: int) -> IntArray:
    if values.ndim != 1 or values.dtype.kind not in "iu":
        has = f"{values.ndim}-dimensional of type {values.dtype}"
        raise InputError(f"{file}: {what} are {has}: must be one whole number per sample")
    if len(values) != count:
        raise InputError(f"{file}: {len(values)} {what} for {count} samples: must be one for each")
    return values.astype(np.int64)


def read_npz(
    source: BinaryIO, file: object, required: Iterable[str], optional: Iterable[str] = ()
) -> dict[str, Array]:
    """The named arrays of an npz file; other arrays are not read."""
    required = list(required)
    with reading(file):
        inputs.refuse_zip_bomb(source, file)
        archive = np.load(source, allow_pickle=False)
        if not isinstance(archive, Mapping):
            raise InputError(f"{file}: must be an npz file, not a single array")
        if any(name not in archive for name in required):
            has = shown(", ".join(archive))[1:-1] or "nothing"
            raise InputError(f"{file}: has {has}: must have {', '.join(required)}")
        wanted = [*required, *(name for name in optional if name in archive)]
        return {name: np.asarray(archive[name]) for name in wanted}


def read_npz_file(
    path: Path, required: Iterable[str], optional: Iterable[str] = ()
) -> dict[str, Array]:
    """The named arrays of an npz file on disk."""
    with reading(path), path.open("rb") as source:
        return read_npz(source, path, required, optional)


def read_idx(path: Path, ndim: int) -> NDArray[np.uint8]:
    """The array of an idx file of bytes, plain or gzipped (by its first bytes, not its name)."""
    raw = read_bytes(path)
    head_size = 4 + 4 * ndim
    if raw[:2] == b"\x1f\x8b":
        with reading(path), gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            head = file.read(head_size)
            shape = _idx_shape(path, head, ndim)
            inputs.refuse_larger(f"{path}, unpacked,", int(np.prod(shape)), inputs.MOST_UNPACKED)
            # One byte more than the head promises: too long is as wrong as too short.
            body = file.read(int(np.prod(shape)) + 1)
    else:
        shape = _idx_shape(path, raw[:head_size], ndim)
        body = raw[head_size:]
    expected = int(np.prod(shape))
    if len(body) != expected:
        more = "more" if len(body) > expected else "fewer"
        raise InputError(f"{path}: has {more} bytes than its head says: must have {expected}")
    return np.frombuffer(body, np.uint8).reshape(shape)


def _idx_shape(path: Path, head: bytes, ndim: int) -> tuple[int, ...]:
    if head[:4] != bytes([0, 0, 8, ndim]) or len(head) != 4 + 4 * ndim:
        raise InputError(f"{path}: must be an idx file of bytes with {ndim} axes")
    shape = tuple(int(n) for n in np.frombuffer(head[4:], ">u4"))
    if shape[0] > MOST_SAMPLES or any(side > 1000 for side in shape[1:]):
        sides = " x ".join(map(str, shape))
        raise InputError(f"{path}: says it has {sides} bytes: must be at most {MOST_SAMPLES} small")
    return shape


def read_idx_pair(images: Path, labels: Path, classes: int) -> Samples:
    """Grey images and their labels from two idx files."""
    pixels = read_idx(images, 3)
    numbers = read_idx(labels, 1)
    if len(pixels) != len(numbers):
        counts = f"{len(numbers)} labels for the {len(pixels)} images of {images}"
        raise InputError(f"{labels}: {counts}: must be one for each")
    check_samples(images, pixels, np.zeros(len(pixels), np.int64), shape=GREY_SHAPE)
    check_labels(labels, numbers, len(numbers), classes)
    return check_samples(images, pixels, numbers, classes, GREY_SHAPE)


def cifar_binary(raw: bytes, file: object) -> Samples:
    """The samples of a CIFAR-10 binary batch: a label byte, then 3,072 pixels, channels first."""
    record = 1 + int(np.prod(CIFAR_SHAPE))
    if not raw or len(raw) % record:
        raise InputError(f"{file}: has {len(raw)} bytes: must be a multiple of {record}, not 0")
    table = np.frombuffer(raw, np.uint8).reshape(-1, record)
    return check_samples(file, cifar_images(table[:, 1:]), table[:, 0], 10, CIFAR_SHAPE)


def cifar_images(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images with channels last from rows of 3,072 bytes with channels first."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def cifar_npz(raw: bytes, file: object) -> Samples:
    """The samples of a CIFAR-10 batch kept as `images` and `labels` in an npz file."""
    found = read_npz(io.BytesIO(raw), file, ["images", "labels"])
    return check_samples(file, found["images"], found["labels"], 10, CIFAR_SHAPE)


def join(parts: Iterable[Samples]) -> Samples:
    """Several sets of samples as one, in order."""
    parts = list(parts)
    writers = [part.writer for part in parts if part.writer is not None]
    return Samples(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate(writers) if writers else None,
    )
