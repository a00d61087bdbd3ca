"""The search for the energy prices that make the bound of `duality` greatest.

The bound is concave in the prices lambda, and its slope in lambda_n is what device n spends at the
prices less what it may spend. Good prices differ by many orders of magnitude between devices, a
cluster that is never the slowest having almost none. So they are multiplied by powers of
spent / limit until the bound rises no more; steps along the slope took several times as many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.bound.duality import DualPrices, LinkTimes, WholeRun, certified_s, price_seconds

FloatArray = NDArray[np.float64]

# Powers of spent / limit, and the most that a price may change in one step.
FIRST_POWER, MOST_POWER = 6.0, 40.0
MOST_CHANGE = 10.0
ENDS = 3e-6
"""The share of the bound that the last steps must have gained for the search to continue."""


@dataclass
class JoulePrices:
    """A search for the energy prices of one run: its energy limits and the best bound so far."""

    run: WholeRun
    limit_j: FloatArray
    """The joules each device may spend over the run; inf means no limit and a price of 0."""
    prices: DualPrices
    best_s: float = -np.inf
    """The greatest bound found, over all prices and covers tried; each of them is valid."""

    @staticmethod
    def start(run: WholeRun, limit_j: FloatArray) -> JoulePrices:
        """Prices so low that almost no device slows down."""
        prices = DualPrices.even(run)
        prices.joule_s = np.where(np.isfinite(limit_j), 0.01 * prices.joule_s, 0.0)
        return JoulePrices(run, limit_j, prices)

    def value(self, links: LinkTimes) -> tuple[float, FloatArray]:
        """The bound in seconds at the present prices, and its slope: joules over each limit."""
        value_s = price_seconds(self.run, links, self.prices)
        backhaul_s = links.backhaul_s[self.prices.chosen]
        _, energy_j = certified_s(self.run, self.prices, backhaul_s)
        limited = np.isfinite(self.limit_j)
        limit_j = np.where(limited, self.limit_j, 0.0)
        bound = float(value_s.sum() - self.prices.joule_s @ limit_j)
        self.best_s = max(self.best_s, bound)
        return bound, np.where(limited, energy_j - limit_j, 0.0)

    def multiply(self, links: LinkTimes, most_steps: int) -> None:
        """Raise the prices of devices that spend too much and lower the others', repeatedly.

        Each device's power grows while it stays on one side of its limit and is halved when it
        changes sides. Ends when three steps together bring next to nothing.
        """
        power = np.full(self.run.num_devices, FIRST_POWER)
        last = np.zeros(self.run.num_devices)
        values: list[float] = []
        best, kept = -np.inf, self.prices.joule_s
        limited = np.isfinite(self.limit_j)
        for _ in range(most_steps):
            bound, over_j = self.value(links)
            values.append(bound)
            if bound > best:
                best, kept = bound, self.prices.joule_s
            if len(values) > 3 and best <= max(values[:-3]) + ENDS * abs(best):
                break
            power = np.where(over_j * last < 0, power / 2, np.minimum(power * 1.3, MOST_POWER))
            last = over_j
            spent = 1.0 + over_j / np.where(limited, self.limit_j, 1.0)
            factor = np.clip(spent**power, 1 / MOST_CHANGE, MOST_CHANGE)
            self.prices.joule_s = self.prices.joule_s * factor
        self.prices.joule_s = kept
