"""What a device carries out at most of what its edge server orders: its own scenario says it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import SPARE
from fedrt.devices.wire.party import is_label
from fedrt.devices.wire.rules import PLANNED, above, first_problem, most_local_steps
from fedrt.scenario import Scenario


@dataclass(frozen=True)
class OrderLimits:
    """The limits of a device's orders."""

    global_rounds: int
    edge_rounds: int
    local_steps: int
    scaffold: bool

    @staticmethod
    def of(scenario: Scenario, edge_of_device: NDArray[np.int64], edge: int) -> OrderLimits:
        """The limits of a device of an edge server."""
        rounds, steps = scenario.rounds, most_local_steps(scenario, edge_of_device, edge)
        scaffold = bool(scenario.learning.scaffold)
        return OrderLimits(rounds.global_rounds, rounds.edge_rounds, steps, scaffold)

    def payloads(self, model_bytes: int) -> tuple[int, int]:
        """The greatest lengths of an order's model and of its correction."""
        most = model_bytes + SPARE
        return most, most if self.scaffold else 0

    def problem(self, order: pb.Order) -> str | None:
        """What is wrong with an order, in a line; None if it can be carried out."""
        names = (order.key.run, order.label, order.remember or order.label)
        if not all(map(is_label, names)):
            return "order: has names that cannot be used"
        return (
            above("order.t", order.key.t, self.global_rounds - 1)
            or above("order.r", order.key.r, self.edge_rounds - 1)
            or above("order.local_steps", order.local_steps, self.local_steps)
            or first_problem(order, "order", PLANNED)
        )
