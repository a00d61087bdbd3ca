"""What an edge server carries out of what the coordinator orders: its own scenario says it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatchmethod

import numpy as np

from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.party import is_label
from fedrt.devices.wire.rules import (
    DEADLINE,
    MOST_SAMPLES,
    PLANNED,
    above,
    first_problem,
    most_local_steps,
)
from fedrt.errors import InputError
from fedrt.quantities import GOSSIP_STEPS
from fedrt.scenario import Scenario
from fedrt.world.fleet import edge_of_devices


@dataclass(frozen=True)
class CoordinatorLimits:
    """The limits of a coordinator's orders to one edge server."""

    edge: int
    edges: int
    devices: frozenset[int]
    """The numbers of its own devices."""
    local_steps: int

    @staticmethod
    def of(scenario: Scenario, edge: int) -> CoordinatorLimits:
        """The limits of an edge server's orders."""
        edge_of_device = edge_of_devices(scenario)
        mine = frozenset(np.flatnonzero(edge_of_device == edge).tolist())
        steps = most_local_steps(scenario, edge_of_device, edge)
        return CoordinatorLimits(edge, scenario.fleet.num_edges, mine, steps)

    def check(self, order: object) -> None:
        """Raise an error about an order that no plan of the scenario has."""
        if (why := self.problem(order)) is not None:
            raise InputError(f"edge {self.edge}: {why}")

    @singledispatchmethod
    def problem(self, order: object) -> str | None:
        """What is wrong with an order, in a line; None if nothing is."""
        return None

    @problem.register
    def _(self, question: pb.Question) -> str | None:
        return self._neighbours("question.peers", [each.number for each in question.peers])

    @problem.register
    def _(self, order: pb.TrainOrder) -> str | None:
        numbers = [each.number for each in order.devices]
        if len(set(numbers)) != len(numbers) or not self.devices.issuperset(numbers):
            return "order.devices: must be its own, each once"
        for n, each in enumerate(order.devices):
            path = f"order.devices[{n}]"
            why = (
                above(f"{path}.local_steps", each.local_steps, self.local_steps)
                or above(f"{path}.samples", each.samples, MOST_SAMPLES)
                or first_problem(each, path, PLANNED)
            )
            if why is not None:
                return why
        return first_problem(order, "order", DEADLINE)

    @problem.register
    def _(self, order: pb.MixOrder) -> str | None:
        return (
            self._neighbours("order.neighbours", [each.number for each in order.neighbours])
            or self._neighbours("order.anew", list(order.anew))
            or above("order.steps", order.steps, GOSSIP_STEPS.most)
            or first_problem(order, "order", DEADLINE)
        )

    @problem.register
    def _(self, order: pb.DistanceOrder) -> str | None:
        numbers = [each.number for each in order.neighbours]
        if len(order.labels) != len(numbers) or not all(map(is_label, order.labels)):
            return "order.labels: must be a state of each neighbour"
        return self._neighbours("order.neighbours", numbers)

    def _neighbours(self, path: str, numbers: list[int]) -> str | None:
        others = {c for c in range(self.edges) if c != self.edge}
        if len(set(numbers)) == len(numbers) and others.issuperset(numbers):
            return None
        return f"{path}: must be other edge servers, each once"
