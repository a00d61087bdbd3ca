"""What a second of each cluster is worth before the last edge round, when the end is not yet known.

A global round ends when its slowest cluster has ended all edge rounds and its gossip. Before the
last edge round the rest is unknown, but earlier global rounds have shown what it may be: sample s
says that cluster c took Y_c^s from here to the end. With x_c the time at which it ends the coming
edge round, the expected end is the mean over s of max over c of (x_c + Y_c^s), and a second of c
is worth the share of samples in which c is the last. As slower clusters can still speed up and
quicker ones slow down later, the last is taken softly, with a width of `SOFT` of the round.

The times x_c depend on these worths and they on the times; a few damped iterations settle both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.priced import PricedFleet
from fedrt.control.allocation.shares import Allocation

FloatArray = NDArray[np.float64]

SOFT = 0.06
TURNS = 6
LEAST_WORTH = 1e-4
SETTLED = 0.02
FEWEST = 8
MOST = 64


def allocate_with_foresight(
    fleet: PricedFleet,
    elapsed_s: FloatArray,
    nominal_s: FloatArray,
    later_s: FloatArray,
    most_s: FloatArray,
) -> Allocation:
    """The allocation at which a second of each cluster costs what it is expected to be worth.

    `nominal_s` are the clusters' times at equal worth; `later_s` holds a row per sample. No cluster
    takes longer than `most_s`, or than its least time where that is more.
    """
    edges = len(nominal_s)
    width_s = SOFT * max(float(nominal_s.mean()), 1e-300)
    time_s, worth = nominal_s, np.full(edges, 1.0 / edges)
    for _ in range(TURNS):
        expected = np.maximum(soft_share_last(elapsed_s + time_s + later_s, width_s), LEAST_WORTH)
        moved = np.sqrt(worth * expected)
        settled = bool(np.abs(np.log(moved / worth)).max() <= SETTLED)
        worth = moved
        time_s = fleet.at_price(worth, time_s)
        if settled:
            break
    if (time_s > most_s).any():
        return fleet.in_time(np.minimum(time_s, most_s))[0]
    return fleet.found(time_s)


def soft_share_last(end_s: FloatArray, width_s: float) -> FloatArray:
    """For each cluster, the mean over samples of a softened indicator that it ends last."""
    scaled = np.exp((end_s - end_s.max(axis=1, keepdims=True)) / width_s)
    return np.asarray((scaled / scaled.sum(axis=1, keepdims=True)).mean(axis=0))


def guessed_later_s(nominal_s: FloatArray, edge_rounds: int) -> FloatArray:
    """A guess of the clusters' remaining times, used until there are enough samples.

    All clusters take the same time: what they take on average.
    """
    return np.full((1, len(nominal_s)), edge_rounds * nominal_s.mean())
