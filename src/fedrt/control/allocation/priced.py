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

Other laws. Where noise is spread over the bandwidth, b(t) takes the place of k / t, and all of it
stays convex and exact (`priced_spread`). The seconds and joules of a broadcast and of overheads are
added to every time and taken from every cap. Under laws for which no price is built (power control,
whole blocks, measured or idle energy) clusters take their least time, and those that may take
longer lower their CPU frequencies at the same bandwidths.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.shares import Allocation
from fedrt.cost.round import fixed_energy_j, fixed_time_s, price
from fedrt.cost.uplink import hertz_seconds, most_rate_bps, seconds_to_send
from fedrt.plan import ROUNDING, Plan
from fedrt.rounds import RoundCost
from fedrt.world.laws import Laws
from fedrt.world.observation import Observation

if TYPE_CHECKING:
    from fedrt.control.allocation.priced_kernel import PricedDevices

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# What an allocation may miss its time or a cap by, relative: rounding.
WITHIN = 1e-9


def trades_energy(laws: Laws) -> bool:
    """Whether time can be traded against energy under the given laws."""
    other = (laws.block_hz, laws.cpu, laws.idle_power_w)
    return not laws.power_control and all(value is None for value in other)


def cost_of(seen: Observation, allocation: Allocation) -> RoundCost:
    """The cost of an edge round in which all devices train with the given allocation."""
    return price(
        Plan(
            status="feasible",
            bandwidth_hz=allocation.bandwidth_hz,
            cpu_hz=allocation.cpu_hz,
            local_steps=np.full(seen.num_devices, seen.local_steps, dtype=np.int64),
            tx_power_w=allocation.tx_power_w,
        ),
        seen,
    )


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
        self._trades = trades_energy(seen.laws)
        self.fastest = allocate(seen, self.cap_j)
        if self.otherwise is not None:
            self.fastest = self._or_otherwise(self.fastest, self.otherwise)
        cost = cost_of(seen, self.fastest)
        self._fixed_s = fixed_time_s(seen)
        self._shortest_s = seen.max_by_edge(cost.compute_s + cost.upload_s)
        self.least_s = self._shortest_s + self._fixed_s
        self._cap_j = self.cap_j - fixed_energy_j(seen)
        if self.fastest.relaxed.any():
            # What the relaxed devices spend at the least time is what they may spend at all.
            relaxed, spent_j = self.fastest.relaxed[seen.edge_of_device], _own_j(cost)
            self._cap_j = np.where(relaxed, np.maximum(self._cap_j, spent_j), self._cap_j)
        self._upload_s = cost.upload_s
        self._bandwidth_hz = self.fastest.bandwidth_hz.copy()
        self._cpu_hz = self.fastest.cpu_hz.copy()
        self._nu = self._first_nu()

    def _or_otherwise(self, found: Allocation, otherwise: Allocation) -> Allocation:
        """The given allocation, and `otherwise` in clusters that need it.

        Where no search for the least time is exact it may also be quicker within the caps.
        """
        seen, better = self.seen, found.relaxed
        if not self._trades:
            own, other = cost_of(seen, found), cost_of(seen, otherwise)
            over = other.energy_j > self.cap_j + WITHIN * np.abs(self.cap_j)
            keeps = seen.sum_by_edge(over.astype(np.float64)) == 0
            better = better | (keeps & (other.edge_time_s < own.edge_time_s))
        return found.with_clusters(otherwise, better, seen) if better.any() else found

    @cached_property
    def _k(self) -> FloatArray:
        """The hertz-seconds of uploads; where these depend on the bandwidth, at the least time."""
        seen = self.seen
        if seen.laws.cn0_hz is None:
            return hertz_seconds(seen.upload_bits, seen.snr)
        return self._upload_s * self.fastest.bandwidth_hz

    @cached_property
    def _devices(self) -> PricedDevices:
        """The devices as arrays for the compiled searches."""
        from fedrt.control.allocation.priced_kernel import PricedDevices

        seen, cn0_hz = self.seen, self.seen.laws.cn0_hz
        nothing = np.zeros(0)
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
            # A copy that can be written to: numba compiles for others separately.
            cn0_hz=nothing if cn0_hz is None else cn0_hz.copy(),
            least_upload_s=nothing if cn0_hz is None else seen.upload_bits / most_rate_bps(cn0_hz),
        )

    def _first_nu(self) -> FloatArray:
        """For each cluster, the mean worth of a hertz in the fastest allocation, as a start."""
        seen, upload_s = self.seen, self._upload_s
        worth = self.price_s_per_j * (seen.tx_power_w + seen.capacitance * self.fastest.cpu_hz**3)
        total = seen.sum_by_edge(worth * upload_s**2 / self._k)
        nu = total / np.maximum(seen.cluster_size, 1)
        return np.where(nu > 0, np.clip(nu, 1e-290, 1e290), 1.0)

    def found(self, time_s: FloatArray) -> Allocation:
        """The allocation that the last search found for the given times of the clusters.

        The fastest allocation where a search at the ends of float64 failed.
        """
        if not self._trades:
            return self._slowed(time_s)
        seen, fastest, tau_s = self.seen, self.fastest, time_s - self._fixed_s
        bandwidth_hz, cpu_hz = self._bandwidth_hz, self._cpu_hz
        upload_s = seconds_to_send(seen, seen.upload_bits, bandwidth_hz)
        compute_s = seen.cycles / cpu_hz
        energy_j = seen.tx_power_w * upload_s + seen.capacitance / 2 * seen.cycles * cpu_hz**2
        late = ~(upload_s + compute_s <= tau_s[seen.edge_of_device] * (1 + WITHIN))
        late |= ~(bandwidth_hz > 0)
        over = ~(energy_j <= self._cap_j + WITHIN * np.abs(self._cap_j))
        failed = seen.sum_by_edge((late | over).astype(np.float64)) > 0
        failed = failed[seen.edge_of_device]
        return replace(
            fastest,
            bandwidth_hz=np.where(failed, fastest.bandwidth_hz, bandwidth_hz),
            cpu_hz=np.where(failed, fastest.cpu_hz, cpu_hz),
        )

    def _slowed(self, time_s: FloatArray) -> Allocation:
        """The fastest allocation with CPUs as slow as the clusters' times allow.

        Not in clusters where somebody would spend more: on waiting for others.
        """
        seen, fastest = self.seen, self.fastest
        left_s = (time_s - self._fixed_s)[seen.edge_of_device] - self._upload_s
        slow_hz = seen.cycles / np.maximum(left_s, seen.cycles / fastest.cpu_hz)
        slow = replace(fastest, cpu_hz=np.clip(slow_hz, seen.cpu_min_hz, fastest.cpu_hz))
        more = cost_of(seen, slow).energy_j > cost_of(seen, fastest).energy_j
        return slow.with_clusters(fastest, seen.sum_by_edge(more.astype(np.float64)) > 0, seen)

    def in_time(self, time_s: FloatArray) -> tuple[Allocation, FloatArray]:
        """The allocation of least energy cost for the clusters' times, and the prices of time.

        A cluster given no more than its least time keeps what it has; its price is inf.
        """
        price = np.full(self.seen.num_edges, np.inf)
        time_s = np.asarray(time_s, dtype=np.float64)
        if self._trades:
            from fedrt.control.allocation.priced_kernel import allocate_in_time

            tau_s = time_s - self._fixed_s
            allocate_in_time(tau_s, self._shortest_s, self._nu, self._devices, price)
        return self.found(time_s), price

    def at_price(self, price: FloatArray, start_s: FloatArray | None = None) -> FloatArray:
        """For each cluster, the seconds at which one second more would be worth `price` > 0.

        At least the least time. `found` then gives the allocation.
        """
        if not self._trades:
            return self.least_s.copy()
        from fedrt.control.allocation.priced_kernel import allocate_at_price

        tau_s = self._shortest_s * 1.02 if start_s is None else start_s - self._fixed_s
        allocate_at_price(price, tau_s, self._shortest_s, self._nu, self._devices)
        return tau_s + self._fixed_s

    def by_deadline(self, offset_s: FloatArray) -> tuple[Allocation, float]:
        """The allocation and the end T that minimise T + sum of G_c(T - offset_c)."""
        if not self._trades:
            end_s = float(np.max(offset_s + self.least_s))
            # A little less than there is, so that rounding makes no cluster the last.
            return self.found((end_s - offset_s) * (1 - ROUNDING)), end_s
        from fedrt.control.allocation.priced_kernel import allocate_by_deadline

        begin_s = np.asarray(offset_s, dtype=np.float64) + self._fixed_s
        end_s = float(allocate_by_deadline(begin_s, self._shortest_s, self._nu, self._devices))
        return self.found(end_s - offset_s), end_s


def _own_j(cost: RoundCost) -> FloatArray:
    """The joules of computing and sending."""
    return cost.compute_j + cost.upload_j
