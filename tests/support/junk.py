"""Wrong values for fuzzing: valid data with one spot replaced, removed or added to."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 1, 10**400, -(10**400), 1e308, -1e308, 5e-324, 1e-300, 0.5]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=8),
    st.sampled_from(["complete", "uniform", "\x00", "NaN", "a\nb"]),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def spots(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value inside nested tables and lists."""
    items: list[tuple[Any, Any]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    found = [path] if path else []
    for key, value in items:
        found += spots(value, (*path, key))
    return found


@st.composite
def broken(draw: st.DrawFn, valid: Any, values: st.SearchStrategy[Any] = ANYTHING) -> Any:
    """The valid data with one to three spots changed; sometimes it stays valid."""
    data = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(spots(data)))
        holder = data
        for key in way:
            holder = holder[key]
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                holder[last] = draw(values)
            case "remove":
                del holder[last]
            case "add" if isinstance(holder, dict):
                holder[draw(st.text(max_size=8))] = draw(values)
            case _:
                holder.append(draw(values))
        if not spots(data):
            break
    return data
