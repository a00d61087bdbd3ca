"""Optimisers: how a device changes its model by the gradients of a local step.

`learning.optimiser` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

from collections.abc import Callable

from fedrt.learning.optimisers.adam import Adam
from fedrt.learning.optimisers.adjusted import Adjusted
from fedrt.learning.optimisers.base import (
    Optimiser,
    Rate,
    Step,
    Tensors,
    spread,
    take_step,
    updated,
)
from fedrt.learning.optimisers.sgd import SGD
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Custom, Learning

__all__ = [
    "OPTIMISERS",
    "SGD",
    "Adam",
    "Adjusted",
    "Optimiser",
    "Rate",
    "Step",
    "Tensors",
    "make_optimiser",
    "spread",
    "take_step",
    "updated",
]

OPTIMISERS: dict[str, Callable[[Learning, Rate], Optimiser]] = {
    "sgd": SGD.from_settings,
    "adam": Adam.adam,
    "adamw": Adam.adamw,
}
"""Every shipped optimiser by its name, made from the settings of a scenario and a learning rate."""


def make_optimiser(learning: Learning, rate: Rate) -> Optimiser:
    """The optimiser that a scenario names; a user's own gets the learning rate and its options.

    With FedProx, clipping or SCAFFOLD, which change the gradients that it gets.
    """
    chosen = learning.optimiser or "sgd"
    made: Optimiser
    if isinstance(chosen, Custom):
        made = make_own(chosen, "optimiser", ("init", "update"), rate)
    else:
        made = OPTIMISERS[chosen if isinstance(chosen, str) else chosen.kind](learning, rate)
    if learning.proximal is None and learning.clip_norm is None and not learning.scaffold:
        return made
    return Adjusted(made, learning.proximal, learning.clip_norm, bool(learning.scaffold))
