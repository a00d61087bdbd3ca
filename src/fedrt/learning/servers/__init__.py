"""Server optimisers: how an edge server moves its model by its devices' averaged update.

`learning.server_optimiser` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedrt.learning.servers.adaptive import FedAdam
from fedrt.learning.servers.base import ServerOptimiser, Servers, Tensors
from fedrt.learning.servers.momentum import FedAvgM
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Custom, Learning

__all__ = [
    "SERVER_OPTIMISERS",
    "FedAdam",
    "FedAvgM",
    "ServerOptimiser",
    "Servers",
    "Tensors",
    "make_server_optimiser",
]

SERVER_OPTIMISERS: dict[str, Callable[[Any], ServerOptimiser]] = {
    "fedavgm": FedAvgM.from_options,
    "fedadam": FedAdam.adam,
    "fedyogi": FedAdam.yogi,
}
"""Every shipped server optimiser by its name, made from its options."""


def make_server_optimiser(learning: Learning) -> ServerOptimiser | None:
    """The server optimiser that a scenario names; None: the average is the new model."""
    chosen = learning.server_optimiser
    if chosen is None:
        return None
    if isinstance(chosen, Custom):
        made: ServerOptimiser = make_own(chosen, "server_optimiser", ("init", "update"))
        return made
    return SERVER_OPTIMISERS[chosen.kind](chosen)
