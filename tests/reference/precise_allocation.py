"""P2.1 decided in 60 decimal digits by plain bisection: the judge where floats run out.

Nothing is shared with the package: upload times come from bisection on the frequency rather than
from a cubic, and times from bisection on tau rather than from Newton's method.
"""

from __future__ import annotations

import numpy as np
from mpmath import mp, mpf

from fedrt.world.observation import Observation

DIGITS = 60


class PreciseCluster:
    """One cluster with its numbers taken as exact."""

    def __init__(
        self,
        seen: Observation,
        allowance_j: np.ndarray,
        cluster: int = 0,
        *,
        best_effort: bool = False,
    ) -> None:
        """`best_effort` raises allowances to f_min and an even share of the bandwidth, exactly."""
        mp.dps = DIGITS
        self.b = mpf(float(seen.edge_bandwidth_hz[cluster]))
        members = range(int(seen.first_device[cluster]), int(seen.first_device[cluster + 1]))
        self.devices = []
        for n in members:
            w = mpf(float(seen.cycles[n]))
            snr = mpf(float(seen.snr[n]))
            self.devices.append(
                {
                    "k": mpf(float(seen.model_bits)) / (mp.log(1 + snr) / mp.log(2)),
                    "w": w,
                    "a": mpf(float(seen.capacitance[n])) / 2 * w,
                    "p": mpf(float(seen.tx_power_w[n])),
                    "low": mpf(float(seen.cpu_min_hz[n])),
                    "high": mpf(float(seen.cpu_max_hz[n])),
                    "e": mpf(float(allowance_j[n])),
                }
            )
        if best_effort:
            for d in self.devices:
                share = self.b / len(self.devices)
                d["e"] = max(d["e"], d["a"] * d["low"] ** 2 + d["p"] * d["k"] / share)

    def longest_upload(self, device: dict, tau: mpf) -> mpf | None:
        """Max over f of min(tau - W/f, (E - a f^2) / p); None if no frequency fits E at all."""
        a, p, e, w = device["a"], device["p"], device["e"], device["w"]
        low, high = device["low"], device["high"]
        if mp.isinf(e):
            return tau - w / high
        if a * low**2 > e:
            return None
        if p == 0:
            # Sending is free: the highest frequency that fits.
            fits = high if a * high**2 <= e else mp.sqrt(e / a)
            return tau - w / fits

        def in_time(f: mpf) -> mpf:
            return tau - w / f

        def affordable(f: mpf) -> mpf:
            return (e - a * f**2) / p

        if in_time(high) <= affordable(high):
            return in_time(high)
        if in_time(low) >= affordable(low):
            return affordable(low)
        # The first rises in f, the second falls: bisect for where they meet.
        while high - low > mpf(10) ** (10 - DIGITS) * high:
            middle = (low + high) / 2
            if in_time(middle) < affordable(middle):
                low = middle
            else:
                high = middle
        return min(in_time(low), affordable(low))

    def bandwidth_needed(self, tau: mpf) -> mpf:
        """Hz that all devices together need to end by tau; inf if one cannot."""
        total = mpf(0)
        for device in self.devices:
            t = self.longest_upload(device, tau)
            if t is None or t <= 0:
                return mp.inf
            total += device["k"] / t
        return total

    def feasible_at(self, tau: float | mpf) -> bool:
        """Whether the cluster can end by tau."""
        return bool(self.bandwidth_needed(mpf(tau)) <= self.b)

    def feasible_ever(self) -> bool:
        """Whether any tau will do: at f_min and with all the time there is, what is needed?"""
        total, anyone_free = mpf(0), False
        for device in self.devices:
            left = device["e"] - device["a"] * device["low"] ** 2
            if mp.isinf(left) or device["p"] == 0:
                anyone_free = True
                if left < 0:
                    return False
            elif left <= 0:
                return False
            else:
                total += device["p"] * device["k"] / left
        return bool(total < self.b if anyone_free else total <= self.b)

    def least_time_s(self, relative: float = 1e-15) -> mpf:
        """The least tau, by doubling and then halving the bracket."""
        if not self.feasible_ever():
            raise ValueError("no tau is feasible")
        low = max(d["w"] / d["high"] + d["k"] / self.b for d in self.devices) / 2
        high = 2 * low
        while not self.feasible_at(high):
            low, high = high, 2 * high
        while high - low > relative * high:
            middle = (low + high) / 2
            if self.feasible_at(middle):
                high = middle
            else:
                low = middle
        return high
