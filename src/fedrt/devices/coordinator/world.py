"""The world of real devices: the scenario's laws, who is connected, and what has been learned."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.devices.coordinator.fleet import RealFleet
from fedrt.devices.coordinator.learned import Learned
from fedrt.errors import FedrtError
from fedrt.scenario import Scenario
from fedrt.units import linear_from_db
from fedrt.world.fleet import FleetArrays
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]

LOOK_S = 0.5
"""Between two looks for devices that are awaited."""


class MeasuredWorld:
    """A world in which who is there is asked, and what the scenario expects is corrected."""

    def __init__(self, scenario: Scenario, seed: int, fleet: RealFleet, learned: Learned) -> None:
        self._expected = SimulatedWorld(scenario, seed)
        self._fleet, self._learned = fleet, learned
        self.scenario, self.seed = scenario, seed
        self.faults = None
        self._begun = False
        """Whether a first round had all devices and links, or was tired of waiting for them."""

    @property
    def fleet(self) -> FleetArrays:
        return self._expected.fleet

    @property
    def model_bits(self) -> float:
        return self._expected.model_bits

    @property
    def gossip_bits(self) -> float:
        return self._expected.gossip_bits

    @property
    def gossip_latency_s(self) -> float:
        return self._expected.gossip_latency_s + self._learned.gossip_latency_s

    @property
    def cycles(self) -> FloatArray:
        return self._expected.cycles

    @property
    def participation(self) -> FloatArray:
        return self._expected.participation

    @property
    def base_graph(self) -> NDArray[np.bool_]:
        return self._expected.base_graph

    @property
    def base_graph_words(self) -> str | None:
        return self._expected.base_graph_words

    def observe(self, t: int, r: int) -> Observation:
        """The devices that are to train and connected, as the scenario and reports describe them.

        Waits until enough of them are there.
        """
        drawn = self._expected.taking_part(t, r)
        there = self._await(drawn)
        seen = self._expected.observe(t, r, there)
        who = seen.device
        cycles = seen.cycles * self._learned.cycles_of(who)
        return slower_radio(replace(seen, cycles=cycles), self._learned.upload_of(who))

    def _await(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """The drawn devices that are connected, once there are enough of them."""
        began, told = time.monotonic(), False
        least = min(self._fleet.settings.least_devices, len(drawn))
        while True:
            seats = self._fleet.connected()
            there = drawn[np.isin(drawn, list(seats))]
            late = time.monotonic() - began > self._fleet.settings.wait_s
            linked = self._begun or bool((self._fleet.reachable() == self.base_graph).all())
            whole = len(there) == len(drawn) and linked
            if whole or (len(there) >= least and (late or self._begun)):
                self._begun = True
                return there
            if late:
                rule = f"{least} devices have to be connected"
                raise FedrtError(f"{len(there)} of {len(drawn)} devices are connected: {rule}")
            if not told:
                count = f"{len(there)} of {len(drawn)} connected"
                links = "" if linked else "; not all edge servers reach each other yet"
                self._fleet.tell(f"waiting for devices: {count}{links}")
                told = True
            time.sleep(LOOK_S)

    def backhaul_bps(self, t: int) -> FloatArray:
        """The link speeds in global round t; 0 between servers that do not reach each other now.

        Asked for just before the last edge round is observed, which may be the first of all.
        """
        self._await(self._expected.taking_part(t, self.scenario.rounds.edge_rounds - 1))
        bps = self._expected.backhaul_bps(t) / self._learned.backhaul_factor()
        return np.where(self._fleet.reachable(), bps, 0.0)


def slower_radio(seen: Observation, factor: FloatArray) -> Observation:
    """The same edge round with radios by which an upload takes `factor` times as long.

    Exact where the rate is in proportion to the bandwidth, up to the greatest SNR that a scenario
    may have. Where noise is spread over it, the carrier over the noise falls by the factor: less
    than exact, and corrected by later reports.
    """
    cn0_hz = seen.laws.cn0_hz
    if cn0_hz is not None:
        found = np.clip(cn0_hz / factor, q.CN0_HZ.least, q.CN0_HZ.most)
        laws = replace(seen.laws, cn0_hz=found)
        return replace(seen, laws=laws, snr=seen.snr * (found / cn0_hz))
    ends = linear_from_db(np.array([q.SNR_DB.least, q.SNR_DB.most]))
    return replace(seen, snr=np.expm1(np.clip(np.log1p(seen.snr) / factor, *np.log1p(ends))))
