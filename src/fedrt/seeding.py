"""Randomness keyed by what is drawn, never by the order of asking.

Every draw names its subject and the round; element i of a stream belongs to the object with the key
i, whatever else is drawn. So results do not change with batching, worker count or a new consumer,
and all policies see the same world.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
KeyArray = NDArray[np.int64]


def stream(seed: int, name: str, *key: int) -> np.random.Generator:
    """The generator for one subject, e.g. `stream(seed, "snr", t, r)`."""
    text = "\x1f".join([str(seed), name, *map(str, key)])
    digest = blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def uniforms(keys: KeyArray, seed: int, name: str, *key: int) -> FloatArray:
    """One value in [0, 1) for each of the keys, a function of (seed, name, key, its own key)."""
    return stream(seed, name, *key).random(int(keys.max(initial=0)) + 1)[keys]


def normals(keys: KeyArray, seed: int, name: str, *key: int) -> FloatArray:
    """One standard normal value for each of the keys, keyed like `uniforms`."""
    return stream(seed, name, *key).standard_normal(int(keys.max(initial=0)) + 1)[keys]


def pair_uniforms(keys: KeyArray, seed: int, name: str, *key: int) -> FloatArray:
    """A symmetric matrix of values in [0, 1) over pairs of keys; the diagonal is 0."""
    size = int(keys.max(initial=0)) + 1
    # Row i of the lower triangle starts at i (i - 1) / 2: a new server adds values, moves none.
    high, low = np.maximum(keys[:, None], keys[None, :]), np.minimum(keys[:, None], keys[None, :])
    drawn = stream(seed, name, *key).random(size * (size - 1) // 2 + 1)
    matrix = drawn[np.where(high == low, 0, high * (high - 1) // 2 + low)]
    matrix[high == low] = 0.0
    return matrix
