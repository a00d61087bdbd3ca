"""Aggregators: how an edge server makes one model of those that its devices send.

`learning.averaging` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

from collections.abc import Callable

from fedrt.learning.aggregators.base import Aggregator, aggregated, averaging_weights, is_linear
from fedrt.learning.aggregators.mean import Mean
from fedrt.learning.aggregators.median import Median
from fedrt.learning.aggregators.trimmed_mean import TrimmedMean
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Learning

__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "Mean",
    "Median",
    "TrimmedMean",
    "aggregated",
    "averaging_weights",
    "is_linear",
    "make_aggregator",
]

AGGREGATORS: dict[str, Callable[[Learning], Aggregator]] = {
    "uniform": Mean.uniform,
    "samples": Mean.samples,
    "median": Median.from_settings,
    "trimmed-mean": TrimmedMean.from_settings,
}
"""Every shipped aggregator by its name, made from the settings of a scenario."""


def make_aggregator(learning: Learning) -> Aggregator:
    """The aggregator that a scenario names; a user's own gets its options."""
    chosen = learning.averaging
    if isinstance(chosen, str):
        return AGGREGATORS[chosen](learning)
    made: Aggregator = make_own(chosen, "averaging", ("aggregate",))
    return made
