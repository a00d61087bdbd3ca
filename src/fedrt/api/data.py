"""Data of Python code: arrays, torch's data sets, or the path of a file, as a scenario's data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError, reason
from fedrt.scenario.tables.layers import given_path
from fedrt.system.plugins import GivenPath, Offer
from fedrt.validation import shown

KEYS = ("x_train", "y_train", "x_test", "y_test")
RULE = (
    "(x, y, x_test, y_test), a dict with these as x_train, y_train, x_test and y_test, two data"
    " sets (train, test) of torch, a name, an .npz file, or a function that returns arrays"
)

Data = Any
"""Data of Python code; `data_path` says in which forms."""


def data_path(data: Data) -> str:
    """The text that names the data in a scenario.

    `data` is (x, y, x_test, y_test) as arrays or tensors; a dict of these under `x_train`,
    `y_train`, `x_test` and `y_test` with whatever an .npz file may have beside them; a pair of
    torch's data sets, (train, test), or in a dict as `train` and `test`; a function that returns
    one of these; or what a file has: a name, the path of an .npz file, an import path. Images are
    (n, height, width, channels); tensors, and the items of data sets, are
    (n, channels, height, width), as torch has them.
    """
    if isinstance(data, str):
        return data
    if isinstance(data, os.PathLike):
        return os.fspath(data)
    if callable(data) and not isinstance(data, Mapping):
        path = given_path(data)
        if not isinstance(path, GivenPath):
            return path
        return GivenPath(path.partition(":")[2], Offer(data, partial(_returned, data)))
    return GivenPath("data", Offer(data, partial(dict, _arrays(data))))


def _returned(function: Callable[[], Any]) -> dict[str, NDArray[Any]]:
    return _arrays(function())


def _arrays(data: Any) -> dict[str, NDArray[Any]]:
    if isinstance(data, Mapping):
        whole = dict(data)
        sets = [whole.pop(name) for name in ("train", "test") if _is_set(whole.get(name))]
        found = {str(key): _array(value) for key, value in whole.items()}
        return found | (_arrays(sets) if sets else {})
    if isinstance(data, tuple | list) and len(data) == 2 and all(map(_is_set, data)):
        pairs = [_stacked(each) for each in data]
        return dict(zip(KEYS, (*pairs[0], *pairs[1]), strict=True))
    if isinstance(data, tuple | list) and len(data) == 4:
        return {key: _array(value) for key, value in zip(KEYS, data, strict=True)}
    raise InputError(f"data {shown(type(data).__name__)}: must be {RULE}")


def _is_set(value: Any) -> bool:
    """Whether something is a data set of torch: items by number, each a sample and its label."""
    return hasattr(value, "__getitem__") and hasattr(value, "__len__") and not _is_array(value)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, list | tuple)


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def _array(value: Any) -> NDArray[Any]:
    """An array of samples or labels, images with their channels last."""
    try:
        found = np.asarray(value.detach().cpu() if _is_tensor(value) else value)
    except Exception as error:
        raise InputError(f"data: must be arrays: {reason(error)}") from None
    return np.moveaxis(found, 1, -1) if _is_tensor(value) and found.ndim == 4 else found


def _stacked(samples: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The samples and labels of one data set of torch."""
    inputs, labels = [], []
    for number in range(len(samples)):
        try:
            sample, label = samples[number]
        except Exception as error:
            kind = type(samples).__name__
            why = f"{type(error).__name__}: {reason(error)}"
            raise InputError(
                f"data: item {number} of {kind} is no (sample, label): {why}"
            ) from error
        image = np.asarray(sample)
        inputs.append(
            np.moveaxis(image, 0, -1) if _is_tensor(sample) and image.ndim == 3 else image
        )
        labels.append(np.asarray(label))
    try:
        return np.stack(inputs), np.stack(labels)
    except ValueError as error:
        raise InputError(f"data: samples must be of one shape: {reason(error)}") from None
