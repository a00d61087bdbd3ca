"""Optimisers: how a device changes its model by the gradients of a local step.

`learning.optimiser` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

from collections.abc import Callable

from fedrt.learning.optimisers.base import Optimiser, Step, Tensors, spread, take_step, updated
from fedrt.learning.optimisers.sgd import SGD
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Learning

__all__ = [
    "OPTIMISERS",
    "SGD",
    "Optimiser",
    "Step",
    "Tensors",
    "make_optimiser",
    "spread",
    "take_step",
    "updated",
]

OPTIMISERS: dict[str, Callable[[Learning], Optimiser]] = {"sgd": SGD.from_settings}
"""Every shipped optimiser by its name, made from the settings of a scenario."""


def make_optimiser(learning: Learning) -> Optimiser:
    """The optimiser that a scenario names; a user's own gets the learning rate and its options."""
    chosen = learning.optimiser or "sgd"
    if isinstance(chosen, str):
        return OPTIMISERS[chosen](learning)
    made: Optimiser = make_own(chosen, "optimiser", ("init", "update"), learning.learning_rate)
    return made
