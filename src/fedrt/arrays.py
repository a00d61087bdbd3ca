"""Read-only arrays, which code that receives them cannot change."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def read_only(array: Array) -> Array:
    """The same values as an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def freeze_arrays(state: Any) -> None:
    """Make every array of a frozen dataclass read-only; for its `__post_init__`."""
    for name, value in list(vars(state).items()):
        if isinstance(value, np.ndarray) and value.flags.writeable:
            object.__setattr__(state, name, read_only(value))
