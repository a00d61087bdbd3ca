"""The bandwidth and CPU frequency of every device where energy has a price in seconds.

The problem, per cluster c, for a time tau_c that it may take:

    G_c(tau_c) = minimum of  sum of lambda_n (p_n k_n / b_n + a_n f_n^2)
    subject to  W_n / f_n + k_n / b_n <= tau_c,  sum of b_n <= b_c,  f_min <= f_n <= f_max,
                p_n k_n / b_n + a_n f_n^2 <= cap_n

with a = alpha W / 2 and lambda_n > 0 the worth of a joule of device n, in seconds. In (1/f, b)
all of it is convex, so G_c is convex and falls as tau_c grows; its slope -pi_c is the cluster's
price of time: joules, in seconds' worth, that one second more would save.

How it is solved. At a price nu per hertz the devices part: each minimises lambda (p t + a f^2) +
nu k / t over its upload time t = k / b. A longer upload costs energy itself, so t never passes
the cheapest, sqrt(nu k / (lambda p)): a device with time to spare slows its CPU, and at f_min it
finishes early. Between f_min and f_max the optimum is where lambda (p + 2 a f^3 / W) t^2 = nu k,
one root; a device that this would take past its cap moves back along W/f + t = tau to the cap.
sum of k / t falls as nu rises: one search gives nu. The price of time is pi = sum of mu_n with
mu_n = nu k / t^2 - lambda p for a device that ends at tau, 0 for one that ends before.

A round that ends with all clusters waiting for the slowest minimises T + sum of G_c(T - o_c),
where o_c is what c has behind it and before it: the T at which the prices add up to 1.

cap_n is a hard limit. With caps and no other price this is P2.1 again: as lambda falls to zero
the time at any price of time falls to that of `allocate.allocate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.allocate import Allocation, allocate
from fedrt.cost.uplink import hertz_seconds
from fedrt.world.observation import Observation

if TYPE_CHECKING:
    from fedrt.control.allocation.priced_kernel import PricedDevices

FloatArray = NDArray[np.float64]

# What an allocation may miss its time or a cap by, relative: rounding.
WITHIN = 1e-9


@dataclass
class PricedFleet:
    """The clusters of one edge round with prices and caps on energy; searches are warm-started.

    `price_s_per_j` must be > 0. Clusters whose caps no allocation keeps get what `otherwise` says,
    or without it are relaxed as `allocate` relaxes them.
    """

    seen: Observation
    price_s_per_j: FloatArray
    cap_j: FloatArray
    otherwise: Allocation | None = None
    fastest: Allocation = field(init=False)
    """The allocation of least time within the caps."""
    least_s: FloatArray = field(init=False)
    """Per cluster: the time of that allocation."""

    def __post_init__(self) -> None:
        seen = self.seen
        self.fastest = allocate(seen, self.cap_j)
        if self.otherwise is not None and self.fastest.relaxed.any():
            self.fastest = self.fastest.with_clusters(self.otherwise, self.fastest.relaxed, seen)
        k = hertz_seconds(seen.upload_bits, seen.snr)
        upload_s = k / self.fastest.bandwidth_hz
        cycles, cpu_hz = seen.cycles, self.fastest.cpu_hz
        self.least_s = seen.max_by_edge(cycles / cpu_hz + upload_s)
        cap_j = self.cap_j
        self._k, self._cap_j = k, cap_j
        if self.fastest.relaxed.any():
            # What the relaxed devices spend at the least time is what they may spend at all.
            spent_j = seen.tx_power_w * upload_s + seen.capacitance / 2 * cycles * cpu_hz**2
            relaxed = self.fastest.relaxed[seen.edge_of_device]
            self._cap_j = np.where(relaxed, np.maximum(cap_j, spent_j), cap_j)
        self._bandwidth_hz = self.fastest.bandwidth_hz.copy()
        self._cpu_hz = cpu_hz.copy()
        self._nu = self._first_nu(k)

    @cached_property
    def _devices(self) -> PricedDevices:
        """The devices as arrays for the compiled searches."""
        from fedrt.control.allocation.priced_kernel import PricedDevices

        seen = self.seen
        return PricedDevices(
            first=seen.first_device,
            b=seen.edge_bandwidth_hz,
            lam=self.price_s_per_j,
            p=seen.tx_power_w,
            q=seen.capacitance,
            w=seen.cycles,
            k=self._k,
            f_min=seen.cpu_min_hz,
            f_max=seen.cpu_max_hz,
            cap_j=self._cap_j,
            bandwidth_hz=self._bandwidth_hz,
            cpu_hz=self._cpu_hz,
        )

    def _first_nu(self, k: FloatArray) -> FloatArray:
        """For each cluster, the mean worth of a hertz in the fastest allocation, as a start."""
        seen = self.seen
        upload_s = k / self.fastest.bandwidth_hz
        worth = self.price_s_per_j * (seen.tx_power_w + seen.capacitance * self.fastest.cpu_hz**3)
        total = seen.sum_by_edge(worth * upload_s**2 / k)
        nu = total / np.maximum(seen.cluster_size, 1)
        return np.where(nu > 0, np.clip(nu, 1e-290, 1e290), 1.0)

    def found(self, tau_s: FloatArray) -> Allocation:
        """The allocation that the last search found for the given times of the clusters.

        The fastest allocation where a search at the ends of float64 failed.
        """
        seen, fastest = self.seen, self.fastest
        bandwidth_hz, cpu_hz = self._bandwidth_hz, self._cpu_hz
        upload_s, compute_s = self._k / bandwidth_hz, seen.cycles / cpu_hz
        energy_j = seen.tx_power_w * upload_s + seen.capacitance / 2 * seen.cycles * cpu_hz**2
        late = ~(upload_s + compute_s <= tau_s[seen.edge_of_device] * (1 + WITHIN))
        late |= ~(bandwidth_hz > 0)
        over = ~(energy_j <= self._cap_j + WITHIN * np.abs(self._cap_j))
        failed = seen.sum_by_edge((late | over).astype(np.float64)) > 0
        failed = failed[seen.edge_of_device]
        return Allocation(
            np.where(failed, fastest.bandwidth_hz, bandwidth_hz),
            np.where(failed, fastest.cpu_hz, cpu_hz),
            fastest.relaxed,
        )

    def in_time(self, tau_s: FloatArray) -> tuple[Allocation, FloatArray]:
        """The allocation of least energy cost for the clusters' times, and the prices of time.

        A cluster given no more than its least time keeps what it has; its price is inf.
        """
        from fedrt.control.allocation.priced_kernel import allocate_in_time

        price = np.empty(self.seen.num_edges)
        tau_s = np.asarray(tau_s, dtype=np.float64)
        allocate_in_time(tau_s, self.least_s, self._nu, self._devices, price)
        return self.found(tau_s), price

    def at_price(self, price: FloatArray, start_s: FloatArray | None = None) -> FloatArray:
        """For each cluster, the seconds at which one second more would be worth `price` > 0.

        At least the least time. `found` then gives the allocation.
        """
        from fedrt.control.allocation.priced_kernel import allocate_at_price

        tau_s = self.least_s * 1.02 if start_s is None else start_s.copy()
        allocate_at_price(price, tau_s, self.least_s, self._nu, self._devices)
        return tau_s

    def by_deadline(self, offset_s: FloatArray) -> tuple[Allocation, float]:
        """The allocation and the end T that minimise T + sum of G_c(T - offset_c)."""
        from fedrt.control.allocation.priced_kernel import allocate_by_deadline

        offset_s = np.asarray(offset_s, dtype=np.float64)
        end_s = allocate_by_deadline(offset_s, self.least_s, self._nu, self._devices)
        return self.found(end_s - offset_s), float(end_s)
