"""Plain data as named arrays for a checkpoint, and back: what a run's policy and FedRT remember."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError
from fedrt.validation import shown

Arrays = Mapping[str, NDArray[Any]]

NAME = "run"
"""The array with the text; its numbered ones are `run.0`, `run.1` and so on."""


def is_plain(name: str) -> bool:
    """Whether an array of a checkpoint is one of these."""
    return name.partition(".")[0] == NAME


def packed(data: Any) -> dict[str, NDArray[Any]]:
    """The arrays of some data, and one with a JSON text of what is around them."""
    arrays: list[NDArray[Any]] = []

    def text(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            arrays.append(value)
            return {"array": len(arrays) - 1}
        if is_dataclass(value) and not isinstance(value, type):
            return {"fields": {f.name: text(getattr(value, f.name)) for f in fields(value)}}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [text(each) for each in value]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"table": {key: text(each) for key, each in value.items()}}
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, str | int | float):
            return value
        raise InputError(
            f"a policy's memory has {shown(value)}: must be arrays of numbers, numbers, texts,"
            " None, and lists, tuples, tables with texts as keys and frozen dataclasses of these"
        )

    whole = {NAME: np.array(json.dumps(text(data)))}
    return whole | {f"{NAME}.{i}": array for i, array in enumerate(arrays)}


def unpacked(arrays: Arrays, like: Any, where: str) -> Any:
    """The data in some arrays; `like` has its dataclasses, and arrays of the same shapes.

    `where` names the file in messages.
    """

    def value(part: Any, like: Any) -> Any:
        if not isinstance(part, dict):
            if isinstance(like, dict | np.ndarray) or is_dataclass(like):
                raise ValueError(f"{part!r} is in the place of a {type(like).__name__}")
            return part
        ((kind, inside),) = part.items()
        if kind == "array":
            array = arrays[f"{NAME}.{inside:d}"]
            if isinstance(like, np.ndarray) and (array.shape, array.dtype) != (
                like.shape,
                like.dtype,
            ):
                raise ValueError(f"an array is {array.dtype} of shape {array.shape}")
            return array
        if kind == "fields":
            return replace(like, **{k: value(v, getattr(like, k)) for k, v in inside.items()})
        if kind == "table":
            known = like if isinstance(like, dict) else dict.fromkeys(inside)
            if known.keys() != inside.keys():
                raise ValueError(f"it has {', '.join(inside) or 'nothing'}")
            return {key: value(each, known[key]) for key, each in inside.items()}
        return {"list": list, "tuple": tuple}[kind](value(each, None) for each in inside)

    try:
        return value(json.loads(arrays[NAME].item()), like)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{where}: its state of the run cannot be read: {shown(str(error))}"
        ) from None
