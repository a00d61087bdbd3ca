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

from fedrt.bound.duality import (
    DualPrices,
    LinkTimes,
    WholeRun,
    certified_s,
    price_seconds,
)

FloatArray = NDArray[np.float64]

# Powers of spent / limit, and the most that a price may change in one step.
FIRST_POWER, MOST_POWER = 6.0, 40.0
MOST_CHANGE = 10.0
FIRST_PART = 0.01
"""What the search starts from: a part of the prices for a medium frequency, and of the time."""
LAST, ENDS = 5, 3e-6
"""How many last steps must have gained which share of the bound for the search to continue."""


class CodingSteps:
    """Steps of the prices of distortion, longer while a price keeps its side of its limit."""

    def __init__(self, edge_rounds: int) -> None:
        self.power, self.last = np.full(edge_rounds, 0.5), np.zeros(edge_rounds)

    def factor(self, over: FloatArray) -> FloatArray:
        """By what to multiply the prices; `over`: logarithms of distortions over their limits."""
        grown = np.minimum(self.power * 1.3, 4.0)
        self.power, self.last = np.where(over * self.last < 0, self.power / 2, grown), over
        return np.clip(np.exp(over * self.power), 1 / MOST_CHANGE, MOST_CHANGE)


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
    def start(run: WholeRun, limit_j: FloatArray, links: LinkTimes) -> JoulePrices:
        """Prices so low that almost no device slows down, all budgets together a part of the time.

        The time is the bound without energy limits, below which the search cannot end.
        """
        prices = DualPrices.even(run)
        low, prices.joule_s = FIRST_PART * prices.joule_s, np.zeros(run.num_devices)
        if run.menu is not None:
            prices.distortion_s = first_distortion_prices(run)
        search = JoulePrices(run, limit_j, prices)
        free_s, _ = search.value(links)
        with np.errstate(divide="ignore"):
            most = FIRST_PART * max(free_s, 0.0) / (run.num_devices * limit_j)
        prices.joule_s = np.where(np.isfinite(limit_j), np.minimum(low, most), 0.0)
        return search

    def value(self, links: LinkTimes) -> tuple[float, FloatArray]:
        """The bound in seconds at the present prices, and its slope: joules over each limit."""
        value_s = price_seconds(self.run, links, self.prices)
        backhaul_s = links.backhaul_s[self.prices.chosen]
        _, energy_j = certified_s(self.run, self.prices, backhaul_s)
        limited = np.isfinite(self.limit_j)
        limit_j = np.where(limited, self.limit_j, 0.0)
        bound = float(value_s.sum() - self.prices.joule_s @ limit_j) - self._distortion_s()
        self.best_s = max(self.best_s, bound)
        return bound, np.where(limited, energy_j - limit_j, 0.0)

    def _distortion_s(self) -> float:
        """The priced limits on the distortion of all edge rounds."""
        run = self.run
        if run.menu is None:
            return 0.0
        counts = np.diff(run.first[:: run.num_edges])
        return float(self.prices.distortion_s @ counts) * run.menu.limit

    def _distortion_over(self) -> FloatArray:
        """For each edge round, the distortion of its devices over what it may be."""
        run = self.run
        assert run.menu is not None
        roots = np.sqrt(run.menu.bits)
        mixed = np.interp(np.sqrt(run.k / run.bit_hz_s), roots, run.menu.distortion)
        first = run.first[:: run.num_edges]
        total = np.add.reduceat(np.append(mixed, 0.0), first[:-1]) * (np.diff(first) > 0)
        return total / np.maximum(np.diff(first) * run.menu.limit, 1e-300)

    def multiply(self, links: LinkTimes, most_steps: int) -> None:
        """Raise the prices of devices that spend too much and lower the others', repeatedly.

        Each device's power grows while it stays on one side of its limit and is halved when it
        changes sides. Ends when several steps together bring next to nothing.
        """
        power = np.full(self.run.num_devices, FIRST_POWER)
        last = np.zeros(self.run.num_devices)
        coding = CodingSteps(len(self.prices.distortion_s))
        values: list[float] = []
        best, kept = -np.inf, (self.prices.joule_s, self.prices.distortion_s)
        limited = np.isfinite(self.limit_j)
        for _ in range(most_steps):
            bound, over_j = self.value(links)
            values.append(bound)
            if bound > best:
                best, kept = bound, (self.prices.joule_s, self.prices.distortion_s)
            if len(values) > LAST and best <= max(values[:-LAST]) + ENDS * abs(best):
                break
            power = np.where(over_j * last < 0, power / 2, np.minimum(power * 1.3, MOST_POWER))
            last = over_j
            spent = 1.0 + over_j / np.where(limited, self.limit_j, 1.0)
            factor = np.clip(spent**power, 1 / MOST_CHANGE, MOST_CHANGE)
            self.prices.joule_s = self.prices.joule_s * factor
            if self.run.menu is not None:
                moved = coding.factor(np.log(np.maximum(self._distortion_over(), 1e-3)))
                self.prices.distortion_s = self.prices.distortion_s * moved
        self.prices.joule_s, self.prices.distortion_s = kept


def first_distortion_prices(run: WholeRun) -> FloatArray:
    """For each edge round, the price at which the usual codec is worth its bits on average.

    A second is shared by all clusters. The price is what the last bits of that codec cost over the
    distortion that they take away.
    """
    menu = run.menu
    assert menu is not None
    one, two = (menu.uniform - 1, menu.uniform) if menu.uniform else (0, min(1, len(menu.bits) - 1))
    lost = menu.distortion[one] - menu.distortion[two]
    part = np.repeat(np.arange(len(run.bandwidth_hz)), np.diff(run.first))
    per_bit_s = np.bincount(part, run.bit_hz_s, minlength=len(run.bandwidth_hz)) / run.bandwidth_hz
    per_bit_s = per_bit_s.reshape(-1, run.num_edges).mean(axis=1)
    count = np.maximum(np.diff(run.first[:: run.num_edges]), 1)
    if lost <= 0:
        return np.zeros_like(per_bit_s)
    return per_bit_s * (menu.bits[two] - menu.bits[one]) / (lost * count)
