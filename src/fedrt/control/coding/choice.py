"""Which codec each device sends its update with: few bits where they hold the round up.

The problem. Every device n sends with a codec m of a menu, B_m bits with the distortion d_m (the
expected squared error over the squared norm). In an edge round with N devices, where cluster c may
take until the common end T less what it has behind it and before it, o_c:

    minimise    T
    subject to  W_n / f_n + kappa_n B_m(n) / b_n <= T - o_c      every device in time
                p_n kappa_n B_m(n) / b_n + a_n f_n^2 <= E_n      every device in its allowance
                sum of b_n <= b_c,  f_min <= f_n <= f_max        every cluster
                (1/N) sum of d_m(n) <= D                         the distortion limit

with kappa the hertz-seconds of a bit. Energy and time depend on the codec through the upload time
t_n = kappa_n B_m(n) / b_n alone, so for a given T each device has the longest upload t_n it can
afford, whatever its codec (`allocate`), and needs B_m x_n hertz, x_n = kappa_n / t_n. What is left
is, for each cluster, a knapsack: the least sum of d_m(n) with the sum of B_m(n) x_n within b_c.
Its minimum only falls as T grows, so the least T is found by halving.

The knapsack is solved exactly. All devices have the same menu, so in an optimal choice a device
that needs more hertz for a bit never has more bits than one that needs fewer; over such choices a
depth-first search with the Lagrangian bound of the linear relaxation is quick. In clusters of some
dozens of devices it may stop early with a choice that is not proven to be the best, and which is
worse than the relaxation by less than one step of one device.

The menu is convex (`menu.convex_menu`): a codec that a mixture of two others beats is left out.

Other laws are brought into this form (`cost.paper_form`), around an allocation of least time: first
that of one codec for all, then that of the codecs found. The choice is then no longer exact; of
these and one codec for all the one whose true end is earliest is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.priced import cost_of
from fedrt.control.allocation.shares import Allocation, usable_bandwidth_hz
from fedrt.control.pacing.expected_finish import soft_share_last
from fedrt.cost.paper_form import cubic_law_below, hertz_of_bits
from fedrt.cost.round import fixed_energy_j, fixed_time_s
from fedrt.world.observation import Menu, Observation

if TYPE_CHECKING:
    from fedrt.control.coding.kernel import CodedDevices

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FEW = 2000
"""Devices up to which searches are carried to the last digits."""
CLOSE = (1e-10, 1e-4)
POINTS = (48, 12)
"""Times of each cluster at which its least distortion is looked up; for few devices, and many."""
LONGEST = 1.6
"""The longest of these times over that with one codec for all."""
SHRINK_STEPS = (14, 6)
AGAIN = 2
"""How often codecs are chosen under other laws, each time around the allocation found before."""


@dataclass(frozen=True)
class Coding:
    """The choice of codecs in one edge round, within caps on energy.

    Clusters whose caps cannot be kept with one codec for all keep that codec.
    """

    seen: Observation
    cap_j: FloatArray
    around: Allocation | None = None
    """The allocation at which other laws are brought into the paper's form; None: that of least
    time with one codec for all."""
    held: NDArray[np.bool_] | None = None
    """Further clusters that keep that codec; None: no others."""

    @cached_property
    def menu(self) -> Menu:
        assert self.seen.menu is not None
        return self.seen.menu

    @cached_property
    def uniform(self) -> IntArray:
        """One codec for all devices."""
        return np.full(self.seen.num_devices, self.menu.uniform)

    def coded(self, codec: IntArray) -> Observation:
        """What is observed, with the bits that the given codecs take."""
        return replace(self.seen, upload_bits=self.menu.bits[codec])

    def _least(self, codec: IntArray) -> tuple[Allocation, FloatArray]:
        """The allocation of least time, and each cluster's time without what is fixed of it."""
        seen = self.coded(codec)
        found = allocate(seen, self.cap_j)
        cost = cost_of(seen, found)
        return found, seen.max_by_edge(cost.compute_s + cost.upload_s)

    @cached_property
    def _uniform_least(self) -> tuple[Allocation, FloatArray]:
        return self._least(self.uniform)

    @cached_property
    def _fixed_s(self) -> FloatArray:
        return fixed_time_s(self.seen)

    @property
    def uniform_s(self) -> FloatArray:
        """Each cluster's least time with one codec for all."""
        return self._uniform_s + self._fixed_s

    @property
    def _uniform_s(self) -> FloatArray:
        return self._uniform_least[1]

    @cached_property
    def _shortest_s(self) -> FloatArray:
        """Each cluster's least time if all its devices use the codec of fewest bits."""
        return self._least(np.zeros_like(self.uniform))[1]

    @cached_property
    def _free(self) -> NDArray[np.bool_]:
        """Clusters that have devices and a choice."""
        free = ~self._uniform_least[0].relaxed & (self.seen.cluster_size > 0)
        return free if self.held is None else free & ~self.held

    @cached_property
    def _who(self) -> NDArray[np.bool_]:
        return self._free[self.seen.edge_of_device]

    @cached_property
    def _devices(self) -> CodedDevices:
        from fedrt.control.coding.kernel import CodedDevices

        seen, who = self.seen, self._who
        around = self._uniform_least[0] if self.around is None else self.around
        a, more_j = cubic_law_below(seen.laws.cpu, seen.cycles, seen.capacitance)
        least_j = a * seen.cpu_min_hz**2 + more_j
        spare_j = np.maximum(self.cap_j - fixed_energy_j(seen) - least_j, 0.0)
        kappa, free_hz = hertz_of_bits(seen, around.bandwidth_hz, around.tx_power_w)
        whole_hz = usable_bandwidth_hz(seen) + seen.sum_by_edge(free_hz)
        size = seen.cluster_size[self._free]
        return CodedDevices(
            first=np.concatenate(([0], np.cumsum(size))),
            b=whole_hz[self._free],
            kappa=kappa[who],
            w=seen.cycles[who],
            a=a[who],
            p=(seen.tx_power_w if around.tx_power_w is None else around.tx_power_w)[who],
            spare_j=spare_j[who],
            f_min=seen.cpu_min_hz[who],
            f_max=seen.cpu_max_hz[who],
        )

    @cached_property
    def _arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        bits, distortion = np.array(self.menu.bits), np.array(self.menu.distortion)
        return bits, distortion, -np.diff(distortion) / np.diff(bits)

    @property
    def _limit(self) -> float:
        """The most that the distortions of all devices with a choice may add up to."""
        return float(self._who.sum()) * self.menu.limit * (1 + 1e-12)

    @property
    def _many(self) -> bool:
        return self.seen.num_devices > FEW

    def earliest(self, offset_s: FloatArray) -> tuple[IntArray, float]:
        """The codecs with which the last cluster ends earliest, and that end.

        Clusters that wait for it take no more bits than the limit asks for.
        """
        begin_s = offset_s + self._fixed_s
        if not self.seen.laws.changes_allocation:
            return self._earliest(begin_s)
        codec = self.uniform
        best, coding = (codec, float(np.max(begin_s + self._uniform_s))), self
        for _ in range(AGAIN):
            codec = self._within_caps(coding._earliest(begin_s)[0])
            around, time_s = self._least(codec)
            best = min(best, (codec, float(np.max(begin_s + time_s))), key=itemgetter(1))
            coding = replace(self, around=around)
        return best

    def _within_caps(self, codec: IntArray) -> IntArray:
        """The given codecs, and one for all in clusters that could not keep their caps with them.

        Under other laws the choice does not know exactly how many bits a cluster can afford.
        """
        over = self._least(codec)[0].relaxed & self._free
        if not over.any():
            return codec
        codec = np.where(over[self.seen.edge_of_device], self.uniform, codec)
        lost = float(self.menu.distortion[codec[self._who]].sum())
        return codec if lost <= self._limit else self.uniform

    def _earliest(self, offset_s: FloatArray) -> tuple[IntArray, float]:
        from fedrt.control.coding.kernel import earliest_end

        free = self._free
        end_s = float(np.max(offset_s + self._uniform_s))
        if not free.any() or len(self.menu.bits) == 1:
            return self.uniform, end_s
        own_s = offset_s[free]
        # Where a cluster without a choice is the last, the others need not be earlier.
        low_s = max(
            float(np.max(own_s + self._shortest_s[free])),
            float(np.max(offset_s[~free] + self._uniform_s[~free], initial=-np.inf)),
        )
        high_s = float(np.max(own_s + self._uniform_s[free])) * (1 + 1e-12)
        codec = self.uniform[self._who]
        if low_s < high_s:
            given = (own_s, (low_s, high_s), self._limit, self._devices, self._arrays, codec)
            end_s = max(low_s, earliest_end(*given, CLOSE[self._many]))
            most_s = LONGEST * self._uniform_s[free]
            codec = self._shrunk(np.minimum(end_s - own_s, most_s), codec)
        return self._whole(codec), end_s

    def _shrunk(self, tau_s: FloatArray, codec: IntArray) -> IntArray:
        """Codecs with which no cluster takes more than tau, and all of them as little as may be.

        All clusters are shortened by the same part of what they have beyond their shortest time.
        """
        least_s = self._shortest_s[self._free]
        low, high = 0.0, 1.0
        for _ in range(SHRINK_STEPS[self._many]):
            part = 0.5 * (low + high)
            found, total = self._at(least_s + part * np.maximum(tau_s - least_s, 0.0))
            if total.sum() <= self._limit:
                high, codec = part, found
            else:
                low = part
        return codec

    def _at(self, tau_s: FloatArray) -> tuple[IntArray, FloatArray]:
        """The codecs of least distortion for the times of clusters, and their distortions."""
        from fedrt.control.coding.kernel import least_distortions

        codec, total = self.uniform[self._who], np.zeros(len(tau_s))
        least_distortions(tau_s, self._devices, self._arrays, codec, total)
        return codec, total

    def _whole(self, codec: IntArray) -> IntArray:
        found = self.uniform.copy()
        found[self._who] = codec
        return found

    def expected(self, begin_s: FloatArray, later_s: FloatArray, width_s: float) -> IntArray:
        """The codecs with which the global round is expected to end earliest.

        Before its last edge round: `later_s` has a row for each sample of what follows this edge
        round, as in `expected_finish`. A second of each cluster is worth how likely it is the
        last; at a price of distortion every cluster then chooses between time and distortion by
        itself, and the price is the least that keeps the limit.
        """
        free = self._free
        if not free.any() or len(self.menu.bits) == 1:
            return self.uniform
        tau_s, distortion = self._frontier()
        time_s, begin_s = self._uniform_s.copy(), begin_s + self._fixed_s
        worth = np.full(len(tau_s), 1.0 / len(tau_s))
        chosen = np.zeros(len(tau_s), dtype=np.int64)
        for _ in range(6):
            share = soft_share_last(begin_s + time_s + later_s, width_s)[free]
            worth = np.sqrt(worth * np.maximum(share, 1e-4))
            chosen = self._at_worth(worth, tau_s, distortion)
            time_s[free] = np.sqrt(time_s[free] * tau_s[np.arange(len(tau_s)), chosen])
        codec, total = self._at(tau_s[np.arange(len(tau_s)), chosen])
        if total.sum() > self._limit:
            return self.uniform
        codec = self._whole(codec)
        return self._within_caps(codec) if self.seen.laws.changes_allocation else codec

    def _frontier(self) -> tuple[FloatArray, FloatArray]:
        """For each cluster with a choice, times and the least distortions for them."""
        from fedrt.control.coding.kernel import least_distortions

        least_s = self._shortest_s[self._free] * (1 + 1e-9)
        most_s = np.maximum(LONGEST * self._uniform_s[self._free], least_s)
        steps = np.linspace(0.0, 1.0, POINTS[self._many])
        tau_s = least_s[:, None] * (most_s / least_s)[:, None] ** steps
        distortion = np.zeros_like(tau_s)
        codec, total = self.uniform[self._who], np.zeros(len(tau_s))
        for g in range(tau_s.shape[1]):
            column = np.ascontiguousarray(tau_s[:, g])
            least_distortions(column, self._devices, self._arrays, codec, total)
            distortion[:, g] = total
        return tau_s, distortion

    def _at_worth(self, worth: FloatArray, tau_s: FloatArray, distortion: FloatArray) -> IntArray:
        """For each cluster its choice among the times, at the least price that keeps the limit."""
        rows = np.arange(len(tau_s))
        cost_s = worth[:, None] * tau_s
        low, high = 1e-12 * float(cost_s.max()), 1e12 * float(cost_s.max())
        best = distortion.argmin(axis=1)
        for _ in range(50):
            price = np.sqrt(low * high)
            chosen = np.argmin(cost_s + price * distortion, axis=1)
            if distortion[rows, chosen].sum() <= self._limit:
                high, best = price, chosen
            else:
                low = price
        return np.asarray(best)
