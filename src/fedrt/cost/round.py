"""The price of a plan: seconds and joules, per device and per edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.backhaul import backhaul_time_s
from fedrt.cost.compute import compute_energy_j, compute_time_s
from fedrt.cost.uplink import upload_energy_j, upload_time_s
from fedrt.plan import Plan
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

# Devices that finish within this part of each other finish together: rounding in the allocation.
TOGETHER = 1e-9


@dataclass(frozen=True)
class RoundCost:
    """What one edge round takes under a plan."""

    compute_s: FloatArray
    upload_s: FloatArray
    compute_j: FloatArray
    upload_j: FloatArray
    edge_time_s: FloatArray
    """Per cluster, its slowest device."""
    backhaul_s: FloatArray
    """Per server; 0 unless this is the last edge round of a global round."""

    @property
    def energy_j(self) -> FloatArray:
        """Joules each device spends."""
        return self.compute_j + self.upload_j


def price(plan: Plan, seen: Observation) -> RoundCost:
    """Seconds and joules of a plan. Pure: the same plan and state always cost the same."""
    cycles = seen.cycles * (plan.local_steps / seen.local_steps)
    compute_s = compute_time_s(cycles, plan.cpu_hz)
    upload_s = upload_time_s(seen.model_bits, seen.snr, plan.bandwidth_hz)
    backhaul_s = np.zeros(seen.num_edges)
    if plan.topology is not None and seen.backhaul is not None:
        backhaul_s = backhaul_time_s(
            seen.model_bits, plan.gossip_steps, seen.backhaul.bps, plan.topology
        )
    return RoundCost(
        compute_s=compute_s,
        upload_s=upload_s,
        compute_j=compute_energy_j(cycles, plan.cpu_hz, seen.capacitance),
        upload_j=upload_energy_j(upload_s, seen.tx_power_w),
        edge_time_s=seen.max_by_edge(compute_s + upload_s),
        backhaul_s=backhaul_s,
    )


def global_round_time_s(elapsed_s: FloatArray, cost: RoundCost) -> float:
    """Seconds of a global round: max over edges of elapsed + last edge round + backhaul.

    `elapsed_s` is each edge's time in the round's earlier edge rounds. Before the last edge round
    backhaul is 0 and this is the time until the slowest cluster is through.
    """
    return float(np.max(elapsed_s + cost.edge_time_s + cost.backhaul_s))


def slowest_device_s(seen: Observation, cost: RoundCost) -> tuple[FloatArray, FloatArray]:
    """Per edge: compute and upload seconds of its slowest device; 0 without devices.

    An optimal allocation lets most devices of a cluster finish at the same instant, and which of
    them comes out last is rounding. So the mean over all that do: it does not move with the order
    of devices.
    """
    last = cost.compute_s + cost.upload_s >= cost.edge_time_s[seen.edge_of_device] * (1 - TOGETHER)
    count = np.maximum(seen.sum_by_edge(last.astype(np.float64)), 1.0)
    compute_s = seen.sum_by_edge(np.where(last, cost.compute_s, 0.0)) / count
    upload_s = seen.sum_by_edge(np.where(last, cost.upload_s, 0.0)) / count
    return compute_s, upload_s
