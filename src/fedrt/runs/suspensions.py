"""Devices that are left out of plans because their updates were refused round after round."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.rounds import Outcome
from fedrt.world.observation import Observation
from fedrt.world.world import World

IntArray = NDArray[np.int64]

IN_A_ROW = 3
"""Updates of a device that are refused one after the other before it is left out."""
EDGE_ROUNDS = 10
"""For how many edge rounds it is left out; twice as many each time after the first."""
MOST_DOUBLINGS = 20


@dataclass(frozen=True)
class Suspensions:
    """For each device of a fleet, its refusals in a row, and until when it is left out."""

    in_a_row: IntArray
    times: IntArray
    """How often it was left out; after that one refusal is enough."""
    until: IntArray
    """The edge round, counted from the start of the run, in which it may train again."""
    edge_rounds: int
    """Edge rounds of a global round."""

    @staticmethod
    def first(world: World) -> Suspensions:
        """No device is left out at the start."""
        return Suspensions.of(world.fleet.num_devices, world.scenario.rounds.edge_rounds)

    @staticmethod
    def of(devices: int, edge_rounds: int) -> Suspensions:
        """No device of so many is left out."""
        none = np.zeros(devices, dtype=np.int64)
        return Suspensions(none, none, none, edge_rounds)

    def after(self, seen: Observation, outcome: Outcome) -> Suspensions:
        """The same after an edge round."""
        if outcome.refused is None and not self.in_a_row.any():
            return self
        who, refused = outcome.device, outcome.is_refused
        counted = outcome.delivered & ~refused
        in_a_row, times, until = self.in_a_row.copy(), self.times.copy(), self.until.copy()
        in_a_row[who[counted]] = 0
        in_a_row[who[refused]] += 1
        out = who[refused]
        out = out[(in_a_row[out] >= IN_A_ROW) | (times[out] > 0)]
        rounds = EDGE_ROUNDS * 2 ** np.minimum(times[out], MOST_DOUBLINGS)
        until[out] = seen.t * self.edge_rounds + seen.r + 1 + rounds
        times[out] += 1
        in_a_row[out] = 0
        return replace(self, in_a_row=in_a_row, times=times, until=until)

    def is_left_out(self, t: int, r: int) -> NDArray[np.bool_]:
        """For each device of the fleet, whether it is left out of an edge round."""
        return np.asarray(self.until > t * self.edge_rounds + r)

    def seen(self, seen: Observation) -> Observation:
        """What is observed, without the devices that are left out; with them if nobody else is."""
        chosen = ~self.is_left_out(seen.t, seen.r)[seen.device]
        return seen if chosen.all() or not chosen.any() else seen.only(chosen)
