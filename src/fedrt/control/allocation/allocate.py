"""The bandwidth and CPU frequency of every device: of least time (P2.1), or under an even split.

The problem, per cluster c, because clusters share no bandwidth:

    minimise    tau
    subject to  W_n / f_n + k_n / b_n <= tau                     every device in time
                p_n k_n / b_n + (alpha_n / 2) W_n f_n^2 <= E_n   every device in its allowance
                sum of b_n <= b_c,  f_min <= f_n <= f_max

with k_n the bits over the spectral efficiency. In (1/f, b, tau) all constraints are convex.

Why no solver is needed. For a fixed tau a device wants the longest upload it can afford,

    t_n(tau) = max over f of min(tau - W/f, (E - (alpha/2) W f^2) / p).

The first term rises in f and the second falls, so f is f_max, f_min, or their crossing, the
positive root of a f^3 + (p tau - E) f - p W with a = alpha W / 2. The bandwidth it then needs
is k_n / t_n, and the optimum is the least tau with sum k_n / t_n(tau) <= b_c.

t_n is concave in tau (a partial maximum of jointly concave functions), and 1 / sum(k_n / t_n) is
a concave, increasing function of the t_n, so H(tau) = 1 / sum(k_n / t_n(tau)) is concave and
increasing. Newton's method on H(tau) = 1 / b_c, started at a lower bound, therefore never
oversteps the root and needs no bracket. As tau only grows, every f_n only falls, so each cubic
is warm-started right of its root, where Newton is monotone as well.

Feasible iff every spare_n = E_n - a f_min^2 is > 0 (p = 0: >= 0) and the sum over p > 0 of
p k / spare is <= b_c (< b_c if some device has p = 0 or no limit, which uploads for ever else).

E_n is the allowance less what is the same for every plan, as listening to a broadcast is. Where
another law of the physical layer changes the problem, `other_laws` states and solves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.compute import compute_energy_j, compute_time_s, training_energy_j
from fedrt.cost.round import fixed_energy_j
from fedrt.cost.uplink import hertz_seconds, seconds_to_send, upload_energy_j
from fedrt.errors import FedrtError, InputError
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


def feasible_clusters(seen: Observation, spare_j: FloatArray) -> NDArray[np.bool_]:
    """For each cluster, whether some allocation keeps all allowances (module docstring).

    `spare_j`: what `slowest_energy_j` leaves of each allowance.
    """
    if seen.laws.changes_allocation:
        from fedrt.control.allocation.other_laws import feasible_by_laws

        return feasible_by_laws(seen, spare_j)
    k = hertz_seconds(seen.upload_bits, seen.snr)
    sends, limited = seen.tx_power_w > 0, np.isfinite(spare_j)
    floor_j = slowest_compute_energy_j(seen)
    computes = np.where(
        sends & limited, spare_j > 0, spare_j >= -FITS * floor_j
    )  # p = 0 may spend all of it on computing
    with np.errstate(divide="ignore", invalid="ignore"):
        need_hz = np.where(sends & limited, seen.tx_power_w * k / spare_j, 0.0)
    need = seen.sum_by_edge(np.where(computes, need_hz, np.inf))
    free = seen.sum_by_edge((~(sends & limited)).astype(np.float64)) > 0
    b = seen.edge_bandwidth_hz
    fits: NDArray[np.bool_] = np.where(free, need < b, need <= b * (1 + FITS))
    return fits


def allocate(
    seen: Observation, allowance_j: FloatArray, slowdown: FloatArray | None = None
) -> Allocation:
    """The allocation with the least time in every cluster, for all clusters at once.

    `allowance_j` may be inf (no limit), zero or negative. In a cluster that no allocation keeps
    within it, and only there, every device plans with max(E, the energy of f_min and an upload at
    the even share), which always fits (best-effort). `slowdown`: computing may take that many times
    as long as planned, at no more energy.
    """
    if seen.laws.changes_allocation:
        from fedrt.control.allocation.other_laws import allocate_by_laws

        return allocate_by_laws(seen, allowance_j, slowdown)
    from fedrt.control.allocation.kernel import MOST_TIME_STEPS, Devices, solve_clusters

    k = hertz_seconds(seen.upload_bits, seen.snr)
    spare_j = allowance_j - slowest_energy_j(seen)
    relaxed = ~feasible_clusters(seen, spare_j)
    if relaxed.any():
        raised_j = np.maximum(spare_j, even_upload_energy_j(seen))
        spare_j = np.where(relaxed[seen.edge_of_device], raised_j, spare_j)
    spare_j = np.maximum(spare_j, 0.0)
    bandwidth_hz, cpu_hz = np.empty_like(k), np.empty_like(k)
    steps, residual = solve_clusters(
        Devices(
            first=seen.first_device,
            edge_bandwidth_hz=seen.edge_bandwidth_hz,
            k=k,
            w=seen.cycles if slowdown is None else slowdown * seen.cycles,
            a=seen.capacitance * seen.cycles / 2,
            p=seen.tx_power_w,
            spare_j=spare_j,
            f_min=seen.cpu_min_hz,
            f_max=seen.cpu_max_hz,
            bandwidth_hz=bandwidth_hz,
            cpu_hz=cpu_hz,
        )
    )
    if steps >= MOST_TIME_STEPS or not residual <= RESIDUAL:
        raise FedrtError(
            f"the allocation did not converge: after {steps} steps a cluster still needs"
            f" {residual:.3g} more of its bandwidth than there is"
        )
    return Allocation(bandwidth_hz, cpu_hz, relaxed)


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
