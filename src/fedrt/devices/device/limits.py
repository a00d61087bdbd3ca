"""What a device carries out at most of what its edge server orders: its own scenario says it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import SPARE
from fedrt.devices.wire.party import is_label
from fedrt.scenario import Scenario
from fedrt.validation import Real, problem

NUMBERS = {
    "cpu_hz": Real(least=0, most=q.CPU_HZ.most),
    "bandwidth_hz": Real(least=0, most=q.BANDWIDTH_HZ.most),
    "tx_power_w": q.TX_POWER_W,
    "rate_bps": q.LINK_BPS,
}
"""The numbers of an order that are no whole numbers, and their rules."""


@dataclass(frozen=True)
class OrderLimits:
    """The limits of a device's orders."""

    global_rounds: int
    edge_rounds: int
    local_steps: int
    """In one order. Policies that give faster devices more steps share out those of a cluster, so
    that no device gets more than all of them."""
    scaffold: bool

    @staticmethod
    def of(scenario: Scenario, edge_of_device: NDArray[np.int64], number: int) -> OrderLimits:
        """The limits of one device."""
        rounds = scenario.rounds
        cluster = int((edge_of_device == edge_of_device[number]).sum())
        return OrderLimits(
            rounds.global_rounds,
            rounds.edge_rounds,
            rounds.local_steps * cluster,
            bool(scenario.learning.scaffold),
        )

    def payloads(self, model_bytes: int) -> tuple[int, int]:
        """The greatest lengths of an order's model and of its correction."""
        most = model_bytes + SPARE
        return most, most if self.scaffold else 0

    def problem(self, order: pb.Order) -> str | None:
        """What is wrong with an order, in a line; None if it can be carried out."""
        names = (order.key.run, order.label, order.remember or order.label)
        if not all(map(is_label, names)):
            return "order: has names that cannot be used"
        for name, value, most in (
            ("t", order.key.t, self.global_rounds - 1),
            ("r", order.key.r, self.edge_rounds - 1),
            ("local_steps", order.local_steps, self.local_steps),
        ):
            if value > most:
                return problem(f"order.{name}", value, f"at most {most}, by this scenario")
        lines: list[str] = []
        for name, rule in NUMBERS.items():
            rule.read(getattr(order, name), f"order.{name}", lines)
        return lines[0] if lines else None
