"""Fetches known data sets from the Hugging Face hub, with the optional `datasets` library."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.data.formats import Samples, check_samples, join
from fedrt.data.originals import ORIGINALS, Split, what_to_put
from fedrt.errors import InputError, reason

COLUMNS = {
    "cifar10": ("img", "label", None),
    "mnist": ("image", "label", None),
    "fmnist": ("image", "label", None),
    "femnist": ("image", "character", "writer_id"),
}
"""The hub's names for image, label and writer."""


def fetch_original(name: str) -> Split:
    """The samples of a known data set from the hub; an error without library or network."""
    hub = ORIGINALS[name].hub
    try:
        library = import_module("datasets")
    except ImportError:
        raise InputError(
            f"{name}: fetching needs the datasets library: pip install 'fedrt[datasets]'; or"
            f" {what_to_put(name)}"
        ) from None
    try:
        tables = library.load_dataset(hub)
        train = _samples(name, tables["train"])
        return train, None if train.writer is not None else _samples(name, tables["test"])
    except InputError:
        raise
    except Exception as error:  # the library and those beneath it raise errors of many families
        what = f"{type(error).__name__}: {reason(error)}"
        line = f"{name}: cannot be fetched from huggingface.co/datasets/{hub}: {what[:300]}"
        raise InputError(f"{line}; or {what_to_put(name)}") from None


def _samples(name: str, table: Any) -> Samples:
    """The samples of one split of a hub data set, read a thousand rows at a time."""
    original, (image, label, writer) = ORIGINALS[name], COLUMNS[name]
    parts, writers = [], []
    for rows in table.with_format("numpy").iter(batch_size=1000):
        images = _stacked(rows[image])
        parts.append(
            check_samples(
                original.hub,
                images,
                np.asarray(rows[label]),
                original.num_classes,
                original.shape,
            )
        )
        if writer is not None:
            writers += [str(one) for one in rows[writer]]
    if not parts:
        raise InputError(f"{original.hub}: has no rows")
    samples = join(parts)
    if writer is None:
        return samples
    return Samples(samples.images, samples.labels, np.unique(writers, return_inverse=True)[1])


def _stacked(images: Any) -> NDArray[np.uint8]:
    """Images of equal size as one array."""
    return np.stack([np.asarray(image, dtype=np.uint8) for image in images])
