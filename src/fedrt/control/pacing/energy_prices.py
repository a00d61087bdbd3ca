"""The price of each device's energy, learned during a run, and the cap on what it may spend.

Over a whole run the problem is: least sum of round times, with every device's energies adding up to
no more than its budget. Its Lagrangian splits by rounds: each minimises its time + sum of lambda_n
e_n (`priced`), so a device spends where it holds the round up and saves where it does not. The
right lambda_n, in seconds per joule, are those at which each budget is just used up; they are
found by going up after a round that took more than an equal part of what is left, and down after
one that took less (dual ascent, in the logarithm so that it is free of units).

Prices alone keep budgets on average. A cap makes it sure: with the coming edge round a device has
spent no more than FedRT has, run beside in the same world. So it may spend now what it saved
earlier, half of it at once; FedRT's own plan always fits, and no device ends over its budget by
more than under FedRT. In the last edge round of the run it may also spend what FedRT leaves of its
budget.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import (
    even_split_hz,
    even_upload_energy_j,
    highest_cpu_hz,
    slowest_compute_energy_j,
)
from fedrt.cost.compute import compute_time_s, training_energy_j
from fedrt.cost.round import fixed_energy_j
from fedrt.cost.uplink import hertz_seconds, seconds_to_send
from fedrt.ledger import Pace, ReferenceRound
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

# How fast a price follows: its logarithm moves by this part of the round's relative overspending.
RATE = 0.15
MOST_MOVE = 0.5
# The least price: all energy of a cluster at full speed is worth this part of its time.
WORTH = 1e-4
MOST_PRICE = 1e9  # times the least price


@dataclass(frozen=True)
class Prices:
    """The prices of energy of the whole fleet before an edge round."""

    price_s_per_j: FloatArray
    """The price of each device; 0 before it has taken part in a round."""
    rounds: FloatArray
    """The number of edge rounds that each device has taken part in."""
    fedrt_j: FloatArray
    """The joules that FedRT planned for each device in these rounds."""

    @staticmethod
    def unknown(fleet_size: int) -> Prices:
        """The prices before the first round: not known yet."""
        return Prices(np.zeros(fleet_size), np.zeros(fleet_size), np.zeros(fleet_size))


@dataclass(frozen=True)
class Spending:
    """Prices of energy and caps for the devices of one edge round."""

    price_s_per_j: FloatArray
    cap_j: FloatArray
    target_j: FloatArray
    """The joules that each device should spend on average."""


def spending(
    prices: Prices,
    seen: Observation,
    pace: Pace,
    reference: ReferenceRound,
    *,
    may_use_rest: bool = True,
) -> tuple[Prices, Spending]:
    """What each device may spend in the coming edge round, and all prices, new devices included.

    `may_use_rest`: in the last edge round also what FedRT leaves of the budgets.
    """
    who, new = pace.device, prices.rounds[pace.device] == 0
    rounds, price = prices.rounds.copy(), prices.price_s_per_j.copy()
    planned_j = prices.fedrt_j.copy()
    rounds[who] += 1.0
    planned_j[who] += reference.energy_j
    fedrt_j = reference.spent_j + reference.energy_j
    # A device on which FedRT spends more than its budget may do the same.
    end_j = fedrt_j + (pace.rounds_left - 1.0) * planned_j[who] / rounds[who]
    target_j = (np.maximum(pace.budget_j, end_j) - pace.spent_j) / pace.rounds_left
    least = least_price_s_per_j(seen)
    price[who] = np.where(new, _first_price(seen, target_j), price[who])
    price[who] = np.clip(price[who], least, MOST_PRICE * least)
    whole_j = fedrt_j
    if may_use_rest and pace.most_rounds_left == 1:
        whole_j = np.maximum(fedrt_j, pace.budget_j)
    cap_j = np.where(np.isfinite(pace.budget_j), whole_j - pace.spent_j, np.inf)
    # Of what it saved at most a half at once: the rest is there for a round that needs it more, or
    # for a failure that costs more than under FedRT.
    if pace.most_rounds_left > 1:
        cap_j = np.minimum(cap_j, 0.5 * (cap_j + reference.energy_j))
    return Prices(price, rounds, planned_j), Spending(price[who], cap_j, target_j)


def adjust(prices: Prices, pace: Pace, spent: Spending, energy_j: FloatArray) -> Prices:
    """The prices after a round in which the devices spent `energy_j`."""
    who, target_j = pace.device, spent.target_j
    limited = np.isfinite(target_j)
    scale = np.where(limited, np.maximum(target_j, 0.1 * energy_j), 1.0)
    over = np.where(limited, energy_j - target_j, 0.0) / scale
    move = np.clip(RATE * over, -MOST_MOVE, MOST_MOVE)
    price = prices.price_s_per_j.copy()
    price[who] *= np.exp(move)
    return replace(prices, price_s_per_j=price)


def least_price_s_per_j(seen: Observation) -> FloatArray:
    """For each device, the lowest price of energy, in seconds per joule.

    At it all energy of a cluster at full speed is worth `WORTH` of an equal part of its time.
    """
    if seen.laws.changes_allocation:
        upload_s = seconds_to_send(seen, seen.upload_bits, even_split_hz(seen))
    else:
        share = (seen.cluster_size / seen.edge_bandwidth_hz)[seen.edge_of_device]
        upload_s = hertz_seconds(seen.upload_bits, seen.snr) * share
    time_s = seen.max_by_edge(compute_time_s(seen.cycles, seen.cpu_max_hz) + upload_s)
    energy_j = training_energy_j(seen, seen.cycles, seen.cpu_max_hz)
    energy_j = seen.sum_by_edge(energy_j + even_upload_energy_j(seen))
    price = WORTH * time_s / (seen.num_edges * np.maximum(energy_j, 1e-300))
    return np.asarray(price[seen.edge_of_device])


def _first_price(seen: Observation, target_j: FloatArray) -> FloatArray:
    """The first price of a device's energy, before it has taken part in a round.

    The guess is that a cluster holds up one round in C, and computes at f_min in all others.

    A budget then allows f = sqrt(C (E - upload - (1 - 1/C) a f_min^2) / a) in that one, where
    a second of the cluster is worth 1 and a device bears an equal part of it: lambda 2 a f^3 / W =
    1 / N_c.
    """
    edges = seen.num_edges
    if not seen.num_devices:
        return np.zeros(0)
    upload_j = float((even_upload_energy_j(seen) + fixed_energy_j(seen)).mean())
    a = seen.capacitance * seen.cycles / 2
    size = seen.cluster_size[seen.edge_of_device]
    if seen.laws.cpu is not None:
        slowest_j = slowest_compute_energy_j(seen)
        spare_j = np.maximum(edges * (target_j - upload_j - (1 - 1 / edges) * slowest_j), slowest_j)
        cpu_hz = highest_cpu_hz(seen, spare_j)
        return np.where(cpu_hz < seen.cpu_max_hz, 1 / (saved_w(seen, cpu_hz) * size), 0.0)
    spare_j = target_j - upload_j - (1 - 1 / edges) * a * seen.cpu_min_hz**2
    cpu_hz = np.sqrt(np.maximum(edges * spare_j / a, seen.cpu_min_hz**2))
    price = 1 / (seen.capacitance * cpu_hz**3 * size)
    return np.where(cpu_hz < seen.cpu_max_hz, price, 0.0)


def saved_w(seen: Observation, cpu_hz: FloatArray) -> FloatArray:
    """The joules that each device saves for every second that it computes for longer."""
    power_w = seen.capacitance * cpu_hz**3
    tables = seen.laws.cpu
    if tables is None:
        return power_w
    for i in np.unique(tables.of_device[tables.of_device >= 0]).tolist():
        who = tables.of_device == i
        part = slice(tables.first[i], tables.first[i + 1])
        seconds, joules = tables.s_per_cycle[part], tables.j_per_cycle[part]
        if len(seconds) == 1:
            power_w[who] = np.inf  # it cannot compute for longer
            continue
        piece = np.searchsorted(seconds, 1.0 / cpu_hz[who], side="right") - 1
        saved = -np.diff(joules) / np.diff(seconds)
        power_w[who] = saved[np.clip(piece, 0, len(saved) - 1)]
    return power_w
