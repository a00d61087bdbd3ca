"""What a joule of each device is worth, learned while a run goes on, and what must be kept back.

Over a whole run the problem is: least sum of round times, with every device's energies adding up to
no more than its budget. Its Lagrangian splits by rounds: each minimises its time + sum of lambda_n
e_n (`priced`), so a device spends where it holds the round up and saves where it does not. The
right lambda_n, in seconds per joule, are those at which each budget is just used up; they are
found by going up after a round that took more than an equal part of what is left, and down after
one that took less (dual ascent, in the logarithm so that it is free of units).

Prices alone keep budgets on average. The reserve makes it sure: no round may leave a device with
less than computing at f_min and uploading at the even share are expected to take for the rest of
the run, plus twice their deviation.

Budgets out of reach. Holding uploads to what computing at f_min leaves takes the share
p k / (E - a f_min^2) of a hertz from each device, with E the equal part it had at first. If that
fills more than `FULL` of a cluster's bandwidth at its mean channels, there is no room left for
their spread, and its devices pace at the best-effort energy of f_min and the even share where that
is more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation import even_upload_energy_j, slowest_compute_energy_j
from fedrt.cost.uplink import hertz_seconds
from fedrt.ledger import Pace
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

# How fast a price follows: its logarithm moves by this part of the round's relative overspending.
RATE = 0.15
MOST_MOVE = 0.5
# The least price: one percent of the fleet's energy is worth this many percent of the time.
WORTH = 0.02
MOST_PRICE = 1e6  # times the least price
# Deviations kept in reserve, and how many rounds the first guess of the mean counts for.
SAFETY = 2.0
GUESS = 4.0
FULL = 0.8


@dataclass(frozen=True)
class Prices:
    """What is known of every device of the fleet before an edge round."""

    price_s_per_j: FloatArray
    """0 where a device has not taken part yet."""
    upload_j: FloatArray
    """The mean energy of uploads at the even share, so far."""
    upload_j2: FloatArray
    """The mean of its square."""
    rounds: FloatArray
    promised_j: FloatArray
    """The equal part of its budget when a device first took part."""

    @staticmethod
    def unknown(fleet_size: int) -> Prices:
        """Before the first round."""
        nothing = np.zeros(fleet_size)
        return Prices(nothing, nothing, nothing, nothing, nothing)


@dataclass(frozen=True)
class Spending:
    """Prices and caps of the devices that take part in one edge round."""

    price_s_per_j: FloatArray
    cap_j: FloatArray
    target_j: FloatArray
    """What a device should take on average."""


def spending(prices: Prices, seen: Observation, pace: Pace) -> tuple[Prices, Spending]:
    """What the devices may spend now, and the prices with this round's channels taken in."""
    who, floor_j, upload_j = pace.device, slowest_compute_energy_j(seen), even_upload_energy_j(seen)
    prices = _take_in(prices, seen, pace, upload_j)
    mean_j = prices.upload_j[who]
    deviation_j = np.sqrt(np.maximum(prices.upload_j2[who] - mean_j**2, 0.0))
    later = pace.rounds_left - 1.0
    equal_j = pace.left_j / pace.rounds_left
    reserve_j = later * (floor_j + mean_j) + SAFETY * np.sqrt(later) * deviation_j
    cap_j = np.maximum(pace.left_j - reserve_j, equal_j)
    short = _out_of_reach(seen, prices.promised_j[who] - floor_j, mean_j)
    cap_j = np.where(short, np.maximum(cap_j, floor_j + np.maximum(upload_j, mean_j)), cap_j)
    target_j = np.where(short, np.maximum(equal_j, floor_j + mean_j), equal_j)
    return prices, Spending(prices.price_s_per_j[who], cap_j, target_j)


def adjust(prices: Prices, pace: Pace, spent: Spending, energy_j: FloatArray) -> Prices:
    """The prices after a round in which the devices took `energy_j`."""
    who, target_j = pace.device, spent.target_j
    limited = np.isfinite(target_j)
    scale = np.where(limited, np.maximum(target_j, 0.1 * energy_j), 1.0)
    over = np.where(limited, energy_j - target_j, 0.0) / scale
    move = np.clip(RATE * over, -MOST_MOVE, MOST_MOVE)
    price = prices.price_s_per_j.copy()
    price[who] *= np.exp(move)
    return replace(prices, price_s_per_j=price)


def least_price_s_per_j(seen: Observation) -> float:
    """The price below which no joule falls, from the scale of the round's seconds and joules."""
    upload_s = (
        hertz_seconds(seen.model_bits, seen.snr)
        * (seen.cluster_size / seen.edge_bandwidth_hz)[seen.edge_of_device]
    )
    time_s = float((seen.cycles / seen.cpu_max_hz + upload_s).mean())
    energy_j = float((slowest_compute_energy_j(seen) + even_upload_energy_j(seen)).sum())
    return WORTH * time_s / energy_j


def _take_in(prices: Prices, seen: Observation, pace: Pace, upload_j: FloatArray) -> Prices:
    """The prices with this round's channels in the means, and a first price for newcomers."""
    who = pace.device
    new = prices.rounds[who] == 0
    rounds, mean, square = prices.rounds.copy(), prices.upload_j.copy(), prices.upload_j2.copy()
    promised = prices.promised_j.copy()
    equal_j = pace.left_j / pace.rounds_left
    if new.any():
        promised[who[new]] = equal_j[new]
        fleet_mean, fleet_square = upload_j.mean(), (upload_j**2).mean()
        mean[who[new]], square[who[new]] = fleet_mean, fleet_square
        rounds[who[new]] = GUESS
    rounds[who] += 1.0
    mean[who] += (upload_j - mean[who]) / rounds[who]
    square[who] += (upload_j**2 - square[who]) / rounds[who]
    least = least_price_s_per_j(seen)
    price = prices.price_s_per_j.copy()
    first = _first_price(seen, equal_j, float(upload_j.mean()))
    price[who] = np.clip(np.where(new, first, price[who]), least, MOST_PRICE * least)
    return Prices(price, mean, square, rounds, promised)


def _first_price(seen: Observation, equal_j: FloatArray, upload_j: float) -> FloatArray:
    """A first guess: a cluster holds up one round in C, and computes at f_min in all others.

    A budget then allows f = sqrt(C (E - upload - (1 - 1/C) a f_min^2) / a) in that one, where
    a second of the cluster is worth 1 and a device bears an equal part of it: lambda 2 a f^3 / W =
    1 / N_c.
    """
    edges = seen.num_edges
    a = seen.capacitance * seen.cycles / 2
    spare_j = equal_j - upload_j - (1 - 1 / edges) * a * seen.cpu_min_hz**2
    cpu_hz = np.sqrt(np.maximum(edges * spare_j / a, seen.cpu_min_hz**2))
    price = 1 / (seen.capacitance * cpu_hz**3 * seen.cluster_size[seen.edge_of_device])
    return np.where(cpu_hz < seen.cpu_max_hz, price, 0.0)


def _out_of_reach(seen: Observation, spare_j: FloatArray, mean_j: FloatArray) -> NDArray[np.bool_]:
    """Per device: whether its cluster's budgets fill more than FULL of its bandwidth."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(spare_j > 0, mean_j / spare_j, np.inf)
    share = np.where((mean_j == 0) & (spare_j >= 0), 0.0, share)
    full = seen.sum_by_edge(share) > FULL * seen.cluster_size
    return np.asarray(full[seen.edge_of_device])
