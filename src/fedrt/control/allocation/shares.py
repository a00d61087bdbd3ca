"""Allocations whose bandwidths are given: even splits, whole blocks, and what devices then spend.

What all allocations share is here too: the data they are, and the least energy of a device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.compute import compute_energy_j, compute_time_s, training_energy_j
from fedrt.cost.round import fixed_energy_j
from fedrt.cost.uplink import seconds_to_send, upload_energy_j
from fedrt.errors import InputError
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

# A budget that is met to this relative precision counts as met: rounding, not policy.
FITS = 1e-12
# What the search for a cluster's time may end above its bandwidth by, relative.
RESIDUAL = 1e-9


@dataclass(frozen=True)
class Allocation:
    """The bandwidth and CPU frequency of every device, and the clusters beyond their allowances."""

    bandwidth_hz: FloatArray
    cpu_hz: FloatArray
    relaxed: NDArray[np.bool_]
    """Per cluster: no allocation keeps every allowance, so best-effort allowances were used."""
    tx_power_w: FloatArray | None = None
    """The power of each device's radio; None: its full power."""
    proven: bool = True
    """Whether the allocation of least time is proven to be that; `other_laws` says where not."""

    def with_clusters(
        self, other: Allocation, clusters: NDArray[np.bool_], seen: Observation
    ) -> Allocation:
        """A copy in which the given clusters take their values from another allocation."""
        theirs = clusters[seen.edge_of_device]
        power_w = self.tx_power_w
        if power_w is not None or other.tx_power_w is not None:
            own, given = (
                seen.tx_power_w if each.tx_power_w is None else each.tx_power_w
                for each in (self, other)
            )
            power_w = np.where(theirs, given, own)
        return replace(
            self,
            tx_power_w=power_w,
            bandwidth_hz=np.where(theirs, other.bandwidth_hz, self.bandwidth_hz),
            cpu_hz=np.where(theirs, other.cpu_hz, self.cpu_hz),
        )


def even_split_hz(seen: Observation) -> FloatArray:
    """The bandwidth of each device in Hz if every cluster splits its own evenly.

    In whole blocks the first devices of a cluster get one more where they do not come out even.
    """
    block_hz = seen.laws.block_hz
    if block_hz is None:
        share = seen.edge_bandwidth_hz / np.maximum(seen.cluster_size, 1)
        return share[seen.edge_of_device]
    check_blocks(seen)
    each, more = np.divmod(whole_blocks(seen), np.maximum(seen.cluster_size, 1))
    place = np.arange(seen.num_devices) - seen.first_device[seen.edge_of_device]
    edge = seen.edge_of_device
    return block_hz * (each[edge] + (place < more[edge]))


def whole_blocks(seen: Observation) -> NDArray[np.int64]:
    """The number of whole resource blocks that each edge server's bandwidth has."""
    assert seen.laws.block_hz is not None
    blocks = seen.edge_bandwidth_hz / seen.laws.block_hz
    return np.floor(blocks * (1 + FITS)).astype(np.int64)


def usable_bandwidth_hz(seen: Observation) -> FloatArray:
    """For each edge server, the bandwidth that plans can use: all of it, or its whole blocks."""
    if seen.laws.block_hz is None:
        return seen.edge_bandwidth_hz
    return np.minimum(seen.edge_bandwidth_hz, seen.laws.block_hz * whole_blocks(seen))


def check_blocks(seen: Observation) -> None:
    """Raise an error that names the edge server if one has fewer blocks than devices."""
    if seen.laws.block_hz is None:
        return
    blocks = whole_blocks(seen)
    for c in np.flatnonzero(blocks < seen.cluster_size)[:1].tolist():
        raise InputError(
            f"scenario.bandwidth.block_hz = {seen.laws.block_hz:g}: edge server {c} has"
            f" {blocks[c]} whole blocks for {seen.cluster_size[c]} devices in global round"
            f" {seen.t}: must be one for each; lower block_hz or raise its bandwidth"
        )


def even_upload_energy_j(seen: Observation) -> FloatArray:
    """The joules of each device's upload if its cluster splits the bandwidth evenly."""
    upload_s = seconds_to_send(seen, seen.upload_bits, even_split_hz(seen))
    return upload_energy_j(upload_s, seen.tx_power_w)


def slowest_compute_energy_j(seen: Observation) -> FloatArray:
    """The joules of each device's training at its lowest CPU frequency."""
    energy_j = compute_energy_j(seen.cycles, seen.cpu_min_hz, seen.capacitance)
    tables = seen.laws.cpu
    if tables is None:
        return energy_j
    # The last point of a table is that of the lowest frequency.
    per_cycle_j = tables.j_per_cycle[tables.first[tables.of_device + 1] - 1]
    return np.where(tables.of_device >= 0, seen.cycles * per_cycle_j, energy_j)


def slowest_energy_j(seen: Observation) -> FloatArray:
    """The joules of each device at its lowest CPU frequency, less those of its upload."""
    return slowest_compute_energy_j(seen) + fixed_energy_j(seen)


def even_share_energy_j(seen: Observation) -> FloatArray:
    """The joules of each device's upload over an even share of the bandwidth, and of its wait."""
    return share_energy_j(seen, even_split_hz(seen))


def share_energy_j(seen: Observation, bandwidth_hz: FloatArray) -> FloatArray:
    """The joules of each device's upload over its bandwidth, and of its wait.

    It waits for those that take longer if all compute at their lowest frequency.
    """
    upload_s = seconds_to_send(seen, seen.upload_bits, bandwidth_hz)
    upload_j, idle_w = upload_energy_j(upload_s, seen.tx_power_w), seen.laws.idle_power_w
    if idle_w is None:
        return upload_j
    busy_s = compute_time_s(seen.cycles, seen.cpu_min_hz) + upload_s
    return upload_j + idle_w * (seen.max_by_edge(busy_s)[seen.edge_of_device] - busy_s)


def least_energy_j(seen: Observation) -> FloatArray:
    """The joules of each device at its lowest CPU frequency and an even share of the bandwidth.

    A cluster whose devices are all allowed this much always has a feasible allocation.
    """
    return slowest_energy_j(seen) + even_share_energy_j(seen)


def highest_cpu_hz(seen: Observation, compute_j: FloatArray) -> FloatArray:
    """The highest CPU frequency whose training takes the given joules, within a device's range."""
    squared = compute_j / (seen.capacitance * seen.cycles / 2)
    cpu_hz = np.clip(np.sqrt(squared), seen.cpu_min_hz, seen.cpu_max_hz)
    tables = seen.laws.cpu
    if tables is None:
        return cpu_hz
    per_cycle_j = compute_j / seen.cycles
    for i in np.unique(tables.of_device[tables.of_device >= 0]).tolist():
        who = tables.of_device == i
        part = slice(tables.first[i], tables.first[i + 1])
        # Joules fall with seconds, and `np.interp` wants what it looks up to rise.
        seconds = np.interp(
            per_cycle_j[who], tables.j_per_cycle[part][::-1], tables.s_per_cycle[part][::-1]
        )
        cpu_hz[who] = np.clip(1.0 / seconds, seen.cpu_min_hz[who], seen.cpu_max_hz[who])
    return cpu_hz


def allocate_evenly(seen: Observation, allowance_j: FloatArray) -> Allocation:
    """An even split of the bandwidth, each device at the highest CPU frequency it can afford."""
    return allocate_at(seen, even_split_hz(seen), allowance_j)


def allocate_at(seen: Observation, bandwidth_hz: FloatArray, allowance_j: FloatArray) -> Allocation:
    """Given bandwidths, each device at the highest CPU frequency it can afford.

    With b fixed, f = sqrt((E - p k/b) / a), clipped to the device's range; one that does not fit
    even at f_min runs at f_min, and its cluster counts as relaxed.
    """
    upload_s = seconds_to_send(seen, seen.upload_bits, bandwidth_hz)
    upload_j = upload_energy_j(upload_s, seen.tx_power_w)
    compute_j = np.maximum(allowance_j - upload_j - fixed_energy_j(seen), 0.0)
    cpu_hz = highest_cpu_hz(seen, compute_j)
    if seen.laws.idle_power_w is not None:
        fast = Allocation(bandwidth_hz, cpu_hz, np.zeros(seen.num_edges, dtype=bool))
        return _with_idling(seen, fast, allowance_j)
    least_j = slowest_energy_j(seen) + share_energy_j(seen, bandwidth_hz)
    over = least_j > allowance_j + FITS * least_j
    relaxed = seen.sum_by_edge(over.astype(np.float64)) > 0
    return Allocation(bandwidth_hz, cpu_hz, relaxed)


def _with_idling(seen: Observation, fast: Allocation, allowance_j: FloatArray) -> Allocation:
    """An allocation in which devices also pay for their wait, made from one in which they do not.

    The cluster's time is that of the slowest one. Who then spends more than its allowance computes
    for longer instead of waiting; if it still does at f_min, no frequency keeps it.
    """
    energy_j, wait_s = _energy_and_wait(seen, fast)
    slower_s = compute_time_s(seen.cycles, fast.cpu_hz) + wait_s
    slower_hz = np.clip(seen.cycles / slower_s, seen.cpu_min_hz, fast.cpu_hz)
    found = replace(fast, cpu_hz=np.where(energy_j > allowance_j, slower_hz, fast.cpu_hz))
    return replace(found, relaxed=overspending_clusters(seen, found, allowance_j))


def _energy_and_wait(seen: Observation, found: Allocation) -> tuple[FloatArray, FloatArray]:
    """The joules of each device under an allocation, and the seconds that it waits for others."""
    upload_s = seconds_to_send(seen, seen.upload_bits, found.bandwidth_hz, found.tx_power_w)
    power_w = seen.tx_power_w if found.tx_power_w is None else found.tx_power_w
    busy_s = compute_time_s(seen.cycles, found.cpu_hz) + upload_s
    wait_s = seen.max_by_edge(busy_s)[seen.edge_of_device] - busy_s
    energy_j = training_energy_j(seen, seen.cycles, found.cpu_hz) + power_w * upload_s
    idle_w = seen.laws.idle_power_w
    return energy_j + fixed_energy_j(seen) + (0.0 if idle_w is None else idle_w * wait_s), wait_s


def overspending_clusters(
    seen: Observation, found: Allocation, allowance_j: FloatArray
) -> NDArray[np.bool_]:
    """For each cluster, whether a device spends more than its allowance, its wait included."""
    over = _energy_and_wait(seen, found)[0] > allowance_j + RESIDUAL * np.abs(allowance_j)
    return np.asarray(seen.sum_by_edge(over.astype(np.float64)) > 0)


def evenly_where_it_fits(seen: Observation, cap_j: FloatArray, other: Allocation) -> Allocation:
    """The even split in clusters where it keeps every cap, the given allocation in the others."""
    even = allocate_evenly(seen, cap_j)
    mixed = other.with_clusters(even, ~even.relaxed, seen)
    return replace(mixed, relaxed=other.relaxed & even.relaxed)
