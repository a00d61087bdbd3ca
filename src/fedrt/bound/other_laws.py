"""The bound under laws other than the paper's: a run in the paper's form that no plan can beat.

Each law is relaxed to what `duality` knows, so that every plan keeps its time or becomes quicker:

  - noise spread over the bandwidth: the rate lies below any of its tangents (`cost.paper_form`).
    Tangents at the bandwidths of the best plan give nothing away, so after each search they are
    taken anew at the bandwidths that its prices lead to. Every one of these bounds holds;
  - power control: rates are those of full power, and an upload takes at least the joules that it
    would take over any bandwidth at next to no power, p_max B ln 2 / (C/N0);
  - whole blocks: any share of the bandwidth that is in whole blocks;
  - measured computing energy: a cubic law below it;
  - idle power: none;
  - broadcast and overheads: their seconds and joules, which no plan changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.bound.duality import DualPrices, LinkTimes, WholeRun, uploads_s
from fedrt.cost.paper_form import rate_line
from fedrt.cost.round import fixed_energy_j, fixed_time_s
from fedrt.cost.uplink import bandwidth_of_rate_hz, most_rate_bps
from fedrt.world.observation import Menu, Observation

FloatArray = NDArray[np.float64]

LEAST_PART = 1e-9
"""The least part of a cluster's bandwidth at which a tangent is taken, and of a limit that fixed
energies leave."""


@dataclass(frozen=True)
class Fixed:
    """What a run takes whatever the plan."""

    time_s: FloatArray
    """Per global round and server."""
    energy_j: FloatArray
    """Per device of the fleet."""

    @staticmethod
    def of(
        rounds: Sequence[Observation],
        edge_rounds: int,
        per_round_j: FloatArray,
        menu: Menu | None = None,
    ) -> Fixed:
        """Of all edge rounds in order; `per_round_j`: what computing takes beyond its cubic law."""
        energy_j = np.zeros_like(per_round_j)
        for seen in rounds:
            energy_j[seen.device] += fixed_energy_j(seen) + per_round_j[seen.device]
            if seen.laws.power_control:
                assert seen.laws.cn0_hz is not None
                bits = seen.upload_bits if menu is None else menu.bits.min()
                least_s = bits / most_rate_bps(seen.laws.cn0_hz)
                energy_j[seen.device] += seen.tx_power_w * least_s
        time_s = np.array([fixed_time_s(seen) for seen in rounds])
        return Fixed(time_s.reshape(-1, edge_rounds, time_s.shape[1]).sum(axis=1), energy_j)

    def limits_j(self, limit_j: FloatArray) -> FloatArray:
        """What limits leave beyond it; a trace of them at least, so that prices stay finite."""
        return np.maximum(limit_j - self.energy_j, LEAST_PART * limit_j)

    def added_to(self, links: LinkTimes) -> LinkTimes:
        """The backhaul times of all choices with these seconds."""
        rows = np.repeat(self.time_s, np.diff(links.first), axis=0)
        return replace(links, backhaul_s=links.backhaul_s + rows)


@dataclass(frozen=True)
class SpreadNoise:
    """The uploads of a run where noise is spread over the bandwidth."""

    cn0_hz: FloatArray
    """Per upload, in the order of `WholeRun.device`."""
    bandwidth_hz: FloatArray
    """Per row of `WholeRun`: what the cluster has."""

    def even(self, run: WholeRun) -> WholeRun:
        """The run with tangents at an even split of each cluster's bandwidth."""
        return self._at(run, (self.bandwidth_hz / np.maximum(np.diff(run.first), 1))[_rows(run)])

    def again(self, run: WholeRun, prices: DualPrices) -> WholeRun:
        """The run with tangents at the bandwidths of the uploads that prices lead to."""
        row, bits = _rows(run), run.k / run.bit_hz_s
        most = self.bandwidth_hz[row]
        hz = bandwidth_of_rate_hz(bits / uploads_s(run, prices), self.cn0_hz)
        hz = np.clip(hz, LEAST_PART * most, most)
        whole = np.bincount(row, hz, minlength=len(self.bandwidth_hz))
        return self._at(run, hz * (self.bandwidth_hz / np.maximum(whole, 1e-300))[row])

    def _at(self, run: WholeRun, hz: FloatArray) -> WholeRun:
        start, slope = rate_line(hz, self.cn0_hz)
        free = np.bincount(_rows(run), start / slope, minlength=len(self.bandwidth_hz))
        k = run.k / run.bit_hz_s / slope
        return replace(run, k=k, bit_hz_s=1.0 / slope, bandwidth_hz=self.bandwidth_hz + free)


def _rows(run: WholeRun) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(run.bandwidth_hz)), np.diff(run.first))
