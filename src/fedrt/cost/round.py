"""What a plan costs by the cost model: seconds and joules of each device and each edge server."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.backhaul import backhaul_time_s
from fedrt.cost.compute import compute_time_s, training_energy_j
from fedrt.cost.uplink import seconds_to_send, upload_energy_j
from fedrt.plan import Plan, gossip_bits, upload_bits
from fedrt.rounds import RoundCost
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Devices that finish within this part of each other finish together: rounding in the allocation.
TOGETHER = 1e-9


def price(plan: Plan, seen: Observation) -> RoundCost:
    """The seconds, joules and bytes of a plan if nothing fails. A pure function.

    A device that the plan leaves out takes no time, sends nothing and spends nothing.
    """
    trains = plan.trains
    steps, cpu_hz, bandwidth_hz = plan.local_steps, plan.cpu_hz, plan.bandwidth_hz
    power_w = seen.tx_power_w if plan.tx_power_w is None else plan.tx_power_w
    if trains is not None:
        # What stands there for others means nothing and may be zero.
        steps = np.where(trains, steps, seen.local_steps)
        cpu_hz = np.where(trains, cpu_hz, seen.cpu_max_hz)
        bandwidth_hz = np.where(trains, bandwidth_hz, 1.0)
        power_w = np.where(trains, power_w, seen.tx_power_w)
    cycles = seen.cycles * (steps / seen.local_steps)
    compute_s = compute_time_s(cycles, cpu_hz)
    bits = upload_bits(plan, seen)
    given_w = None if plan.tx_power_w is None else power_w
    upload_s = seconds_to_send(seen, bits, bandwidth_hz, given_w)
    compute_j = training_energy_j(seen, cycles, cpu_hz)
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
        latency_s = backhaul.latency_s
        backhaul_s = backhaul_time_s(message, gossip.steps, backhaul.bps, gossip.links, latency_s)
    download_s = broadcast_s(seen, trains)
    busy_s = download_s + compute_s + upload_s
    edge_time_s = end_of_edge_round_s(seen, busy_s, trains)
    return RoundCost(
        compute_s=compute_s,
        upload_s=upload_s,
        compute_j=compute_j,
        upload_j=upload_energy_j(upload_s, power_w),
        edge_time_s=edge_time_s,
        backhaul_s=backhaul_s,
        upload_bytes=upload_bytes,
        download_s=download_s,
        download_j=listening_energy_j(seen, download_s),
        idle_j=idle_energy_j(seen, busy_s, edge_time_s, trains),
    )


def broadcast_s(seen: Observation, trains: BoolArray | None = None) -> FloatArray:
    """For each device, the seconds of the broadcast it listens to: those of the slowest listener.

    0 where downloads are free, and for devices that do not train.
    """
    listen_s = seen.laws.listen_s
    if listen_s is None:
        return np.zeros(seen.num_devices)
    if trains is None:
        return seen.max_by_edge(listen_s)[seen.edge_of_device]
    slowest_s = seen.max_by_edge(np.where(trains, listen_s, 0.0))
    return np.where(trains, slowest_s[seen.edge_of_device], 0.0)


def end_of_edge_round_s(
    seen: Observation, busy_s: FloatArray, trains: BoolArray | None = None
) -> FloatArray:
    """Each cluster's time: its slowest device's, and the overheads where any device trains."""
    slowest_s = seen.max_by_edge(busy_s)
    if seen.laws.overhead_s == 0.0:
        return slowest_s
    takes_part = np.ones(seen.num_devices) if trains is None else trains.astype(np.float64)
    return slowest_s + np.where(seen.sum_by_edge(takes_part) > 0, seen.laws.overhead_s, 0.0)


def listening_energy_j(seen: Observation, download_s: FloatArray) -> FloatArray:
    """The joules that each device spends on listening to the broadcast."""
    power_w = seen.laws.rx_power_w
    return np.zeros(seen.num_devices) if power_w is None else power_w * download_s


def idle_energy_j(
    seen: Observation,
    busy_s: FloatArray,
    edge_time_s: FloatArray,
    trains: BoolArray | None = None,
) -> FloatArray:
    """The joules that each device spends from its upload until its server has averaged."""
    power_w = seen.laws.idle_power_w
    if power_w is None:
        return np.zeros(seen.num_devices)
    idle_s = np.maximum(edge_time_s[seen.edge_of_device] - busy_s, 0.0)
    return power_w * (idle_s if trains is None else np.where(trains, idle_s, 0.0))


def fixed_time_s(seen: Observation) -> FloatArray:
    """For each cluster, the seconds of an edge round that no allocation changes.

    Those of the broadcast and the overheads, if all devices train; 0 without devices.
    """
    return end_of_edge_round_s(seen, broadcast_s(seen))


def fixed_energy_j(seen: Observation) -> FloatArray:
    """For each device, the joules of an edge round that no allocation changes.

    Those of listening to the broadcast, and of idling while the server averages.
    """
    energy_j, idle_w = listening_energy_j(seen, broadcast_s(seen)), seen.laws.idle_power_w
    return energy_j if idle_w is None else energy_j + idle_w * seen.laws.overhead_s


def global_round_time_s(elapsed_s: FloatArray, cost: RoundCost) -> float:
    """The seconds of a global round: the greatest over servers of edge rounds plus backhaul.

    `elapsed_s` is each edge's time in the round's earlier edge rounds. Before the last edge round
    backhaul is 0 and this is the time until the slowest cluster has finished.
    """
    return float(np.max(elapsed_s + cost.edge_time_s + cost.backhaul_s))


def finish_last(seen: Observation, cost: RoundCost) -> NDArray[np.bool_]:
    """For each device, whether none of its cluster finishes later."""
    slowest_s = seen.max_by_edge(cost.busy_s)[seen.edge_of_device]
    return cost.busy_s >= slowest_s * (1 - TOGETHER)


def slowest_device_s(seen: Observation, cost: RoundCost) -> dict[str, FloatArray]:
    """For each edge server, the download, computing and upload seconds of its slowest device.

    They are 0 without devices.

    An optimal allocation lets most devices of a cluster finish at the same instant, and which of
    them comes out last is rounding. So the mean over all that do: it does not move with the order
    of devices.
    """
    last = finish_last(seen, cost)
    count = np.maximum(seen.sum_by_edge(last.astype(np.float64)), 1.0)
    return {
        name: seen.sum_by_edge(np.where(last, getattr(cost, name), 0.0)) / count
        for name in ("download_s", "compute_s", "upload_s")
    }
