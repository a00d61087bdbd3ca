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

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import (
    FITS,
    RESIDUAL,
    Allocation,
    even_upload_energy_j,
    slowest_compute_energy_j,
    slowest_energy_j,
)
from fedrt.cost.uplink import hertz_seconds
from fedrt.errors import FedrtError
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]


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
