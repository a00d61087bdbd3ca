"""The allocation of least time under laws other than the paper's (docs/cost-model.md).

The problem is that of `allocate` with another rate, another energy of computing, or more to pay:

    minimise    tau
    subject to  c_n + t_n <= tau                                          every device in time
                e_n(c_n) + p_n t_n + i_n (tau - c_n - t_n) <= E_n         in its allowance
                sum of b_n(t_n) <= b_c

with computing time c, upload time t, e(c) the energy of computing and b(t) the bandwidth of an
upload. E_n is the allowance less what is the same for every plan: listening to the broadcast, and
idling while the server averages.

- Rate at a fixed SNR: b(t) = k / t. With noise spread over the bandwidth: the b at which
  b log2(1 + cn0 / b) = bits / t. The rate is concave in b and nears cn0 / ln 2, so b(t) is convex
  and falls, and there is none for t <= bits ln 2 / cn0: a device that cannot afford to send for
  longer than that fits into no bandwidth.
- Energy of computing: (alpha / 2) W (W / c)^2, or a table's: piecewise linear in c, convex, and
  falling, as a device divides its cycles between neighbouring points.
- Idle power i: a device that ends before tau pays for its wait. tau stands on the left side of
  both rows, so the problem is as convex as before.

All functions are convex in (c, t, tau), so the problem is. For a fixed tau each device wants the
longest upload that it can afford, t_n(tau), as b falls with t: at its top frequency if it can
then afford to send until tau; else at the frequency where it just can, one root of the cubic or
on one piece of the table; else at its lowest frequency, ending before tau. t_n is concave in tau
(a partial maximum over a convex set), and rises; only idle power lets it fall again, where a
device can no longer pay for its wait. log b_n is convex in t and falls, so log b_n(t_n(tau)) is
convex in tau, and so is the logarithm of the sum over devices. Newton's method on it, started at a
lower bound of tau, never oversteps the least tau with sum b_n(t_n(tau)) <= b_c. Where the sum
stops falling above b_c, no tau is feasible.

log b(t) is convex in t because log b is convex in log t: in (log b, log t) the upload is
b (2^(bits / (b t)) - 1) <= cn0, whose left side is a sum of products of powers of b and t.

Power control. With a power of q <= p the upload is b (2^(bits / (b t)) - 1) <= cn0 q / p, and takes
q t joules. In logarithms of (b, t, q, f) every constraint, the cubic energy of computing included,
is a sum of products of powers: a (generalised) geometric programme, convex in these logarithms.
With x = b t its energy is (p / cn0) x (2^(bits / x) - 1), which falls with x and is convex. For a
fixed tau sending until tau is best, as waiting costs bandwidth. So a device's least bandwidth is

    min over c of  max(b(tau - c), x(E - e(c)) / (tau - c)),

the first at full power, rising in c; the second with all joules that are left. x(E - e(c)) is
convex, so that over tau - c is quasiconvex (for tables too): it has no other minimum, and the sign
of its slope finds it. The sum over devices falls as tau grows, and its logarithm is convex in tau
with the cubic law; where a step of Newton's method oversteps all the same, the search halves the
bracket. A cluster is feasible iff every device can afford bits ln 2 p / cn0 joules: less power and
more time then fit into any bandwidth.

Whole blocks. A device needs the least whole number of blocks, at least one, that its least
bandwidth fits into; the sum over devices falls in steps as tau grows, so halving a bracket down to
rounding finds the least tau. Then blocks that are left over cannot shorten the cluster's time, and
go one by one to the device that ends last. With idle power the sum may rise again, and
the search takes the first tau that it meets: the allocation keeps every limit but is not proven.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrt.arrays import read_only
from fedrt.control.allocation.shares import (
    FITS,
    RESIDUAL,
    Allocation,
    check_blocks,
    even_share_energy_j,
    even_split_hz,
    overspending_clusters,
    slowest_energy_j,
    whole_blocks,
)
from fedrt.cost.uplink import hertz_seconds
from fedrt.errors import FedrtError
from fedrt.world.laws import CUBIC
from fedrt.world.observation import Observation

if TYPE_CHECKING:
    from fedrt.control.allocation.device_kernel import LawDevices

# With idle power best-effort allowances may leave a single time, which rounding would take away.
ROOM = 1e-10

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def feasible_by_laws(seen: Observation, spare_j: FloatArray) -> BoolArray:
    """For each cluster, whether some allocation keeps all allowances: see `feasible_clusters`."""
    fits = _fits_without_idling(seen, spare_j, slowest_energy_j(seen))
    if seen.laws.idle_power_w is None or not fits.any():
        return fits
    return fits & _solve(seen, np.where(fits[seen.edge_of_device], spare_j, np.inf), None)[1]


def _fits_without_idling(seen: Observation, spare_j: FloatArray, floor_j: FloatArray) -> BoolArray:
    """For each cluster, whether some allocation keeps all allowances if waiting costs nothing."""
    from fedrt.control.allocation.laws_kernel import ever_needed_hz

    limited = (seen.tx_power_w > 0) & np.isfinite(spare_j)
    computes = np.where(limited, spare_j > 0, spare_j >= -FITS * floor_j)
    need_hz = ever_needed_hz(_devices(seen, spare_j, None))
    need_hz = np.where(computes, need_hz, np.inf)
    if seen.laws.block_hz is not None:
        return _fitting_blocks(seen, need_hz, seen.laws.block_hz)
    endless = seen.sum_by_edge((need_hz == 0.0).astype(np.float64)) > 0
    total_hz, b = seen.sum_by_edge(need_hz), seen.edge_bandwidth_hz
    fits: BoolArray = np.where(endless, total_hz < b, total_hz <= b * (1 + FITS))
    return fits


def _fitting_blocks(seen: Observation, need_hz: FloatArray, block_hz: float) -> BoolArray:
    """For each cluster, whether it has the whole blocks that its devices need."""
    blocks = need_hz / block_hz
    blocks = np.maximum(np.ceil(blocks * (1 - FITS)), 1.0)
    return np.asarray(seen.sum_by_edge(blocks) <= whole_blocks(seen))


def allocate_by_laws(
    seen: Observation, allowance_j: FloatArray, slowdown: FloatArray | None = None
) -> Allocation:
    """The allocation with the least time in every cluster, whatever the laws: see `allocate`."""
    check_blocks(seen)
    floor_j = slowest_energy_j(seen)
    spare_j = allowance_j - floor_j
    relaxed = ~_fits_without_idling(seen, spare_j, floor_j)
    found, fits = _solve(seen, _granted_j(seen, spare_j, relaxed), slowdown)
    if not fits.all():
        # Allowances that the wait for others breaks.
        relaxed = relaxed | ~fits
        found, fits = _solve(seen, _granted_j(seen, spare_j, relaxed), slowdown)
    if not fits.all():
        # Where rounding decides, what the best-effort allowances are made for.
        even = Allocation(even_split_hz(seen), seen.cpu_min_hz, relaxed)
        found = found.with_clusters(even, ~fits, seen)
    found = replace(found, relaxed=relaxed)
    if seen.laws.idle_power_w is None or seen.laws.block_hz is None:
        return found
    return replace(
        found, proven=False, relaxed=relaxed | overspending_clusters(seen, found, allowance_j)
    )


def _granted_j(seen: Observation, spare_j: FloatArray, relaxed: BoolArray) -> FloatArray:
    """What devices may spend on uploads: in relaxed clusters as much as an even share takes."""
    if relaxed.any():
        share_j = even_share_energy_j(seen)
        if seen.laws.idle_power_w is not None:
            share_j = share_j * (1 + ROOM)
        raised_j = np.maximum(spare_j, share_j)
        spare_j = np.where(relaxed[seen.edge_of_device], raised_j, spare_j)
    return np.maximum(spare_j, 0.0)


def _solve(
    seen: Observation, spare_j: FloatArray, slowdown: FloatArray | None
) -> tuple[Allocation, BoolArray]:
    """The allocation for what is left of allowances, and the clusters that have one."""
    from fedrt.control.allocation.laws_kernel import MOST_STEPS, solve_clusters_by_laws

    fleet = _devices(seen, spare_j, slowdown)
    fits = np.empty(seen.num_edges, dtype=bool)
    steps, residual = solve_clusters_by_laws(fleet, seen.laws.block_hz or 0.0, fits)
    if steps >= MOST_STEPS or not residual <= RESIDUAL:
        raise FedrtError(
            f"the allocation did not converge: after {steps} steps a cluster's time may still be"
            f" {residual:.3g} of itself off"
        )
    power_w = fleet.tx_power_w if seen.laws.power_control else None
    relaxed = np.zeros(seen.num_edges, dtype=bool)
    return Allocation(fleet.bandwidth_hz, fleet.cpu_hz, relaxed, power_w), fits


def _devices(seen: Observation, spare_j: FloatArray, slowdown: FloatArray | None) -> LawDevices:
    """The devices as arrays for the compiled search."""
    from fedrt.control.allocation.device_kernel import LawDevices

    laws, cpu, size = seen.laws, seen.laws.cpu, seen.num_devices
    if laws.cn0_hz is None:
        k, cn0_hz = hertz_seconds(seen.upload_bits, seen.snr), np.zeros(size)
    else:
        k, cn0_hz = seen.upload_bits * np.log(2.0) / laws.cn0_hz, laws.cn0_hz
    none = np.zeros(0)
    # To the compiler arrays that can be written to are of another type: none of these can.
    return LawDevices(
        first=read_only(seen.first_device),
        edge_bandwidth_hz=read_only(seen.edge_bandwidth_hz),
        k=read_only(k),
        cn0_hz=read_only(cn0_hz),
        w=read_only(seen.cycles if slowdown is None else slowdown * seen.cycles),
        a=read_only(seen.capacitance * seen.cycles / 2),
        cycles=read_only(seen.cycles),
        p=read_only(seen.tx_power_w),
        spare_j=read_only(spare_j),
        idle_w=read_only(np.zeros(size) if laws.idle_power_w is None else laws.idle_power_w),
        f_min=read_only(seen.cpu_min_hz),
        f_max=read_only(seen.cpu_max_hz),
        table=read_only(np.full(size, CUBIC) if cpu is None else cpu.of_device),
        points=read_only(np.zeros(1, dtype=np.int64) if cpu is None else cpu.first),
        s_per_cycle=read_only(none if cpu is None else cpu.s_per_cycle),
        j_per_cycle=read_only(none if cpu is None else cpu.j_per_cycle),
        bandwidth_hz=np.empty(size),
        cpu_hz=np.empty(size),
        tx_power_w=np.empty(size if laws.power_control else 0),
    )
