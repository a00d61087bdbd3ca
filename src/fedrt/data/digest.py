"""A digest of the samples that a run trains and tests on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.data.catalogue import Dataset
from fedrt.system.machine import cores

PIECE = 2**24
"""Bytes of an array that one thread digests at a time; they are not copied."""


def data_digest(dataset: Dataset) -> str:
    """A digest of a data set: types, shapes and bytes of all its samples and labels.

    It is that of the digests of its pieces, of which every core takes its share.
    """
    arrays = (
        *(dataset.train_images, dataset.train_labels, dataset.test_images, dataset.test_labels),
        *(writer for writer in (dataset.train_writer, dataset.test_writer) if writer is not None),
    )
    whole = sha256(repr([(array.dtype.str, array.shape) for array in arrays]).encode())
    with ThreadPoolExecutor(cores()) as threads:
        for found in threads.map(_digest, (piece for array in arrays for piece in _pieces(array))):
            whole.update(found)
    return whole.hexdigest()[:32]


def _digest(piece: NDArray[Any]) -> bytes:
    return sha256(np.ascontiguousarray(piece).view(np.uint8).data).digest()


def _pieces(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The array in blocks of rows of about equal size."""
    rows = max(1, PIECE // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        yield array[start : start + rows].reshape(-1)
