"""What a plan costs by the cost model: seconds and joules of each device and each edge server."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.backhaul import backhaul_time_s
from fedrt.cost.compute import compute_energy_j, compute_time_s
from fedrt.cost.uplink import upload_energy_j, upload_time_s
from fedrt.plan import Plan, gossip_bits, upload_bits
from fedrt.rounds import RoundCost
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

# Devices that finish within this part of each other finish together: rounding in the allocation.
TOGETHER = 1e-9


def price(plan: Plan, seen: Observation) -> RoundCost:
    """The seconds, joules and bytes of a plan if nothing fails. A pure function.

    A device that the plan leaves out takes no time, sends nothing and spends nothing.
    """
    trains = plan.trains
    steps, cpu_hz, bandwidth_hz = plan.local_steps, plan.cpu_hz, plan.bandwidth_hz
    if trains is not None:
        # What stands there for others means nothing and may be zero.
        steps = np.where(trains, steps, seen.local_steps)
        cpu_hz = np.where(trains, cpu_hz, seen.cpu_max_hz)
        bandwidth_hz = np.where(trains, bandwidth_hz, 1.0)
    cycles = seen.cycles * (steps / seen.local_steps)
    compute_s = compute_time_s(cycles, cpu_hz)
    bits = upload_bits(plan, seen)
    upload_s = upload_time_s(bits, seen.snr, bandwidth_hz)
    compute_j = compute_energy_j(cycles, cpu_hz, seen.capacitance)
    upload_bytes = bits / 8
    if trains is not None:
        compute_s, upload_s, compute_j, upload_bytes = (
            np.where(trains, values, 0.0)
            for values in (compute_s, upload_s, compute_j, upload_bytes)
        )
    backhaul_s = np.zeros(seen.num_edges)
    if plan.gossip is not None and seen.backhaul is not None:
        backhaul, gossip = seen.backhaul, plan.gossip
        message = gossip_bits(gossip, seen)
        backhaul_s = backhaul_time_s(message, gossip.steps, backhaul.bps, gossip.links)
    return RoundCost(
        compute_s=compute_s,
        upload_s=upload_s,
        compute_j=compute_j,
        upload_j=upload_energy_j(upload_s, seen.tx_power_w),
        edge_time_s=seen.max_by_edge(compute_s + upload_s),
        backhaul_s=backhaul_s,
        upload_bytes=upload_bytes,
    )


def global_round_time_s(elapsed_s: FloatArray, cost: RoundCost) -> float:
    """The seconds of a global round: the greatest over servers of edge rounds plus backhaul.

    `elapsed_s` is each edge's time in the round's earlier edge rounds. Before the last edge round
    backhaul is 0 and this is the time until the slowest cluster has finished.
    """
    return float(np.max(elapsed_s + cost.edge_time_s + cost.backhaul_s))


def slowest_device_s(seen: Observation, cost: RoundCost) -> tuple[FloatArray, FloatArray]:
    """For each edge server, the computing and upload seconds of its slowest device.

    They are 0 without devices.

    An optimal allocation lets most devices of a cluster finish at the same instant, and which of
    them comes out last is rounding. So the mean over all that do: it does not move with the order
    of devices.
    """
    last = cost.compute_s + cost.upload_s >= cost.edge_time_s[seen.edge_of_device] * (1 - TOGETHER)
    count = np.maximum(seen.sum_by_edge(last.astype(np.float64)), 1.0)
    compute_s = seen.sum_by_edge(np.where(last, cost.compute_s, 0.0)) / count
    upload_s = seen.sum_by_edge(np.where(last, cost.upload_s, 0.0)) / count
    return compute_s, upload_s
