"""The interface of an aggregator, and how edge servers use one."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.registry import AGGREGATORS, make_part
from fedrt.scenario.entries import OwnEntry, make_own, refuse
from fedrt.scenario.model import Custom, Learning

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Aggregator(Protocol):
    """How an edge server makes its new model from those that its devices have sent.

    Two attributes are optional. `weigh(samples)` gives the weight of each device from its number of
    samples, in any unit; without it that number is the weight. `linear = True` says that the result
    is the sum of the models, each times its share: engines may then add models as they arrive.
    """

    def aggregate(self, model: Tensor, rows: Tensor, share: FloatArray) -> Tensor:
        """The edge server's new model, best in float64.

        `model` is the one its devices started from, `rows` has one accepted model in each row, and
        the shares of their devices add up to 1.
        """
        ...


def is_linear(aggregator: Aggregator) -> bool:
    """Whether the result is the sum of the models times their shares."""
    return bool(getattr(aggregator, "linear", False))


MOST_SAMPLES = 2
"""Where updates are screened, a device counts for at most this many times the samples of the
cluster's median device."""


def capped_samples(edge_of_device: IntArray, samples: IntArray) -> IntArray:
    """The numbers of samples, none above `MOST_SAMPLES` times the lower median of its cluster."""
    found = samples.copy()
    for edge in np.unique(edge_of_device).tolist():
        mine = np.flatnonzero(edge_of_device == edge)
        middle = np.sort(samples[mine])[(len(mine) - 1) // 2]
        found[mine] = np.minimum(samples[mine], MOST_SAMPLES * middle)
    return found


def averaging_weights(
    edge_of_device: IntArray, aggregator: Aggregator, samples: IntArray, *, capped: bool = False
) -> FloatArray:
    """Each device's share in its edge server's average; the shares of a server add up to 1."""
    if capped:
        samples = capped_samples(edge_of_device, samples)
    weigh: Any = getattr(aggregator, "weigh", None)
    amount = samples.astype(np.float64) if weigh is None else weigh(samples)
    if isinstance(aggregator, OwnEntry):
        amount = _checked_amount(aggregator, amount, len(samples))
    totals = np.bincount(edge_of_device, weights=amount)
    if isinstance(aggregator, OwnEntry) and not (totals[edge_of_device] > 0).all():
        raise refuse(aggregator, "weigh must let some device of each edge server count")
    shares: FloatArray = amount / totals[edge_of_device]
    return shares


def _checked_amount(aggregator: OwnEntry, amount: Any, count: int) -> FloatArray:
    try:
        found = np.asarray(amount, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.full(0, np.nan)
    if found.shape != (count,) or not (np.isfinite(found) & (found >= 0)).all():
        raise refuse(aggregator, "weigh must return a number >= 0 for each device")
    return found


def aggregated(aggregator: Aggregator, model: Tensor, rows: Tensor, share: FloatArray) -> Tensor:
    """The edge server's new model in float64; the result of a user's own aggregator is checked."""
    found: Any = aggregator.aggregate(model, rows, share)
    if isinstance(aggregator, OwnEntry):
        if not isinstance(found, Tensor) or found.shape != model.shape:
            raise refuse(aggregator, f"aggregate must return a tensor of {len(model)} numbers")
        if not bool(torch.isfinite(found).all()):
            raise refuse(aggregator, "aggregate must return finite numbers")
    result: Tensor = found.to(device=model.device, dtype=torch.float64)
    return result


def make_aggregator(learning: Learning) -> Aggregator:
    """The aggregator that a scenario names; a user's own gets its options."""
    choice = learning.averaging
    made: Aggregator
    if isinstance(choice, Custom):
        made = make_own(choice, "averaging", ("aggregate",))
    else:
        made = make_part(AGGREGATORS, choice, learning)
    return made
