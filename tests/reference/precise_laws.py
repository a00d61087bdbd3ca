"""The least time under other laws decided in 60 decimal digits by plain bisection.

Nothing is shared with the package: upload times come from bisection on the computing time, and
bandwidths from bisection on the rate.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from mpmath import mp, mpf

from fedrt.world.observation import Observation

DIGITS = 60
CLOSE = 50
MOST_SECTIONS = 70
MOST_HALVINGS = 80


def bisect(holds: Callable[[mpf], bool], low: mpf, high: mpf) -> mpf:
    """The least point at which a condition holds that does not hold at `low` but at `high`."""
    while high - low > mpf(10) ** -CLOSE * high:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


class PreciseDevice:
    """One device with its numbers taken as exact."""

    def __init__(self, seen: Observation, allowance_j: np.ndarray, n: int) -> None:
        laws = seen.laws
        self.w, self.bits = mpf(float(seen.cycles[n])), mpf(float(seen.upload_bits[n]))
        self.snr = mpf(float(seen.snr[n]))
        self.cn0 = None if laws.cn0_hz is None else mpf(float(laws.cn0_hz[n]))
        self.a = mpf(float(seen.capacitance[n])) / 2 * self.w
        self.p, self.e = mpf(float(seen.tx_power_w[n])), mpf(float(allowance_j[n]))
        self.idle = mpf(0) if laws.idle_power_w is None else mpf(float(laws.idle_power_w[n]))
        self.points = None
        self.fastest = self.w / mpf(float(seen.cpu_max_hz[n]))
        self.slowest = self.w / mpf(float(seen.cpu_min_hz[n]))
        if laws.cpu is not None and laws.cpu.of_device[n] >= 0:
            i = laws.cpu.of_device[n]
            part = range(laws.cpu.first[i], laws.cpu.first[i + 1])
            self.points = [
                (self.w * mpf(float(laws.cpu.s_per_cycle[j])), self.w * mpf(float(joules)))
                for j, joules in zip(
                    part, laws.cpu.j_per_cycle[part.start : part.stop], strict=True
                )
            ]
            self.fastest, self.slowest = self.points[0][0], self.points[-1][0]

    def compute_j(self, c: mpf) -> mpf:
        """The joules of computing for c seconds."""
        if self.points is None:
            return self.a * (self.w / c) ** 2
        for (s0, j0), (s1, j1) in pairwise(self.points):
            if c <= s1:
                return j0 + (j1 - j0) * (c - s0) / (s1 - s0)
        return self.points[-1][1]

    def longest_upload(self, tau: mpf) -> mpf | None:
        """The longest upload that it can afford and that ends by tau; None if there is none."""

        def keeps(c: mpf) -> bool:
            """Whether it can afford to compute for c and then to send until tau."""
            return self.compute_j(c) + self.p * (tau - c) <= self.e

        if mp.isinf(self.e) or keeps(self.fastest):
            return tau - self.fastest
        end = min(self.slowest, tau)
        if end > self.fastest and keeps(end):
            return tau - bisect(keeps, self.fastest, end)
        if tau <= self.slowest or self.idle >= self.p:
            return None
        left = self.e - self.compute_j(self.slowest) - self.idle * (tau - self.slowest)
        return left / (self.p - self.idle)

    def waits_at(self, tau: mpf) -> bool:
        """Whether it cannot afford to send until tau even at its lowest frequency."""
        if mp.isinf(self.e) or tau <= self.slowest:
            return False
        return self.compute_j(self.slowest) + self.p * (tau - self.slowest) > self.e

    def bandwidth(self, t: mpf) -> mpf:
        """The Hz that end an upload after t seconds."""
        if t <= 0:
            return mp.inf
        if mp.isinf(t):
            return mpf(0)
        if self.cn0 is None:
            return self.bits / (mp.log(1 + self.snr) / mp.log(2)) / t
        rate, cn0 = self.bits / t, self.cn0
        if rate >= cn0 / mp.log(2):
            return mp.inf

        def reached(b: mpf) -> bool:
            return b * mp.log(1 + cn0 / b) / mp.log(2) >= rate

        high = mpf(1)
        while not reached(high):
            high *= 2**20
        low = high
        while reached(low):
            low /= 2**20
        return bisect(reached, low, high)

    def least_bandwidth(self, tau: mpf) -> mpf:
        """The least Hz with which it ends by tau if it may lower its power; inf if none does.

        By golden section over the computing time. What it minimises has one minimum, which a test
        checks on a grid.
        """
        assert self.cn0 is not None
        # A shorter upload fits into no bandwidth.
        low, high = self.fastest, min(self.slowest, tau - self.bits * mp.log(2) / self.cn0)
        if high < low:
            return mp.inf
        edges = [self._hz_at(tau, c) for c in (low, high)]
        ratio = (mp.sqrt(5) - 1) / 2
        ends = [high - ratio * (high - low), low + ratio * (high - low)]
        found = [self._hz_at(tau, c) for c in ends]
        for _ in range(MOST_SECTIONS):
            # Where there is no bandwidth at all, too little is left of the allowance.
            if found[0] < found[1] and not mp.isinf(found[0]):
                high, ends[1], found[1] = ends[1], ends[0], found[0]
                ends[0] = high - ratio * (high - low)
                found[0] = self._hz_at(tau, ends[0])
            else:
                low, ends[0], found[0] = ends[0], ends[1], found[1]
                ends[1] = low + ratio * (high - low)
                found[1] = self._hz_at(tau, ends[1])
        return min(*found, *edges)

    def _hz_at(self, tau: mpf, c: mpf) -> mpf:
        """The Hz of an upload after c seconds until tau, at the most power that it can afford."""
        if c >= tau:
            return mp.inf
        t = tau - c
        full = self.p * t
        left = full if mp.isinf(self.e) else min(full, self.e - self.compute_j(c))
        load = self.bits * mp.log(2)
        assert self.cn0 is not None
        # With v = bits ln 2 / (b t), (e^v - 1) / v = joules over those at no SNR at all.
        over = left * self.cn0 / (self.p * load)
        if over <= 1:
            return mp.inf
        # Convex, so Newton's steps from right of the root stay there.
        v, step = 2 * mp.log(over) + 2, mpf(1)
        while step > mpf(10) ** -25 * v:
            step = (mp.expm1(v) - over * v) / (mp.exp(v) - over)
            v -= step
        return load / (v * t)

    def ever_hz(self) -> mpf | None:
        """The Hz that it needs at the lowest frequency with all the time there is.

        Without idle power. 0 where it can send for ever, None where it cannot even compute.
        """
        left = self.e - self.compute_j(self.slowest)
        if mp.isinf(left) or self.p == 0:
            return mpf(0) if left >= 0 else None
        return self.bandwidth(left / self.p) if left > 0 else None


class PreciseLaws:
    """One cluster with its numbers taken as exact."""

    def __init__(self, seen: Observation, allowance_j: np.ndarray, cluster: int = 0) -> None:
        mp.dps = DIGITS
        self.power_control = seen.laws.power_control
        self.b = mpf(float(seen.edge_bandwidth_hz[cluster]))
        members = range(int(seen.first_device[cluster]), int(seen.first_device[cluster + 1]))
        self.devices = [PreciseDevice(seen, allowance_j, n) for n in members]

    def feasible_at(self, tau: float | mpf) -> bool:
        """Whether the cluster can end by tau."""
        total = mpf(0)
        for device in self.devices:
            if self.power_control:
                total += device.least_bandwidth(mpf(tau))
            else:
                t = device.longest_upload(mpf(tau))
                total += mp.inf if t is None else device.bandwidth(t)
            if total > self.b:
                return False
        return True

    def feasible_with_idling(self) -> bool:
        """Whether any tau will do where devices pay for their wait.

        The bandwidth that all need is convex in tau and may rise again: bisection on its slope.
        """
        low, high = mp.log(max(d.fastest for d in self.devices)), mpf(200)
        for _ in range(MOST_HALVINGS):
            middle = (low + high) / 2
            needs, paid = [], True
            for tau in (mp.exp(middle), mp.exp(middle) * (1 + mpf(10) ** -30)):
                pairs = [(d, d.longest_upload(tau)) for d in self.devices]
                # It waits, and can no longer pay for both the wait and an upload.
                paid &= all(
                    (t is not None and not mp.isinf(d.bandwidth(t))) or not d.waits_at(tau)
                    for d, t in pairs
                )
                hz = [mp.inf if t is None else d.bandwidth(t) for d, t in pairs]
                needs.append(sum(hz, mpf(0)))
            if needs[0] <= self.b:
                return True
            if paid and (mp.isinf(needs[0]) or needs[1] < needs[0]):
                low = middle
            else:
                high = middle
        return False

    def feasible_ever(self) -> bool:
        """Whether any tau will do."""
        if any(device.idle > 0 for device in self.devices):
            return self.feasible_with_idling()
        if self.power_control:
            left = [d.e - d.compute_j(d.slowest) for d in self.devices]
            return all(
                joules > d.p * d.bits * mp.log(2) / d.cn0
                for d, joules in zip(self.devices, left, strict=True)
            )
        needs = [device.ever_hz() for device in self.devices]
        if any(need is None for need in needs):
            return False
        total = sum(needs, mpf(0))
        return bool(total < self.b if any(need == 0 for need in needs) else total <= self.b)
