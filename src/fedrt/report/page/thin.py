"""Downsampling: extremes of curves, bins of rounds, and a choice of rounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def extremes(values: FloatArray, most: int) -> IntArray:
    """The positions of the first, last, and locally least and greatest values.

    At most about `most` of them, in rising order; all places where there are no more. What is kept
    is always a value that was there, and no peak goes missing. No value may be NaN.
    """
    count = len(values)
    if count <= most:
        return np.arange(count)
    stretches = max(1, (most - 2) // 2)
    starts = np.arange(stretches) * count // stretches
    width = int(np.diff(starts, append=count).max())
    ends = np.append(starts[1:], count)
    places = np.minimum(starts[:, None] + np.arange(width), ends[:, None] - 1)
    rows = np.arange(stretches)
    least = places[rows, values[places].argmin(1)]
    greatest = places[rows, values[places].argmax(1)]
    return np.unique(np.concatenate(([0, count - 1], least, greatest)))


def bins(rounds: int, most: int) -> tuple[IntArray, IntArray, IntArray]:
    """For each round its bin, and for each of at most `most` bins its first and last round."""
    count = max(1, min(rounds, most))
    bin_of_round = np.arange(rounds) * count // max(rounds, 1)
    first = np.searchsorted(bin_of_round, np.arange(count))
    last = np.append(first[1:], rounds) - 1
    return bin_of_round, first, last


def some_rounds(rounds: int, most: int) -> IntArray:
    """At most `most` rounds at even distances, including the first and the last."""
    if rounds <= most:
        return np.arange(rounds)
    return np.unique(np.linspace(0, rounds - 1, max(2, most)).round().astype(np.int64))


def mean_by(index: IntArray, values: FloatArray, count: int) -> FloatArray:
    """The mean of the values of each index below `count`; NaN if it has none."""
    number = np.bincount(index, minlength=count)
    total = np.bincount(index, values, minlength=count)
    return np.divide(total, number, out=np.full(count, np.nan), where=number > 0)


def carried_on(rows: FloatArray) -> FloatArray:
    """The rows with every NaN replaced by the last number above it in its column."""
    place = np.where(np.isnan(rows), 0, np.arange(len(rows))[:, None])
    return np.take_along_axis(rows, np.maximum.accumulate(place, axis=0), axis=0)
