"""Arrays that whoever is shown them cannot change."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def read_only(array: Array) -> Array:
    """The same values as an array that refuses to be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def freeze_arrays(state: Any) -> None:
    """Make every array of a frozen dataclass read-only; for its `__post_init__`."""
    for f in fields(state):
        value = getattr(state, f.name)
        if isinstance(value, np.ndarray) and value.flags.writeable:
            object.__setattr__(state, f.name, read_only(value))
