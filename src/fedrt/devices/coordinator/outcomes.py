"""What happened in an edge round on real devices, from the reports of the edge servers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.compute import training_energy_j
from fedrt.cost.round import idle_energy_j, price
from fedrt.cost.uplink import upload_energy_j
from fedrt.plan import Plan
from fedrt.rounds import ACCEPTED, NOT_STEPPED, Outcome, RoundCost
from fedrt.world.observation import Observation

log = logging.getLogger(__name__)

FloatArray = NDArray[np.float64]

MOST_POWER = 100.0
"""A meter is not believed that says more than this many times the power of the scenario's laws."""
MOST_LOSS = 10.0
"""A mean loss counts as at most this many times that of the lower median device."""


def outcome_of(seen: Observation, plan: Plan, reports: Sequence[Any]) -> tuple[Outcome, FloatArray]:
    """What happened, and the sum of each device's losses, from the reports of all edge servers.

    A server that did not answer has None. Joules are by the cost model, unless a device has a
    meter.
    """
    planned = price(plan, seen)
    count = seen.num_devices
    place = {int(number): n for n, number in enumerate(seen.device)}
    found: dict[str, FloatArray] = {
        name: np.zeros(count)
        for name in ("download_s", "train_s", "upload_s", "upload_bytes", "joules", "loss_sum")
    }
    delivered, metered = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    refused, stepped = np.full(count, ACCEPTED), np.full(count, NOT_STEPPED)
    edge_time_s, delivered_s, enforce_s = (np.zeros(seen.num_edges) for _ in range(3))
    most_w = most_power_w(seen, plan)
    for c, report in enumerate(reports):
        if report is None:
            continue
        edge_time_s[c], delivered_s[c] = report.edge_s, report.delivered_s
        enforce_s[c] = report.enforce_s
        for each in report.devices:
            n = place[each.number]
            delivered[n] = each.delivered
            refused[n], stepped[n] = each.refused, each.stepped_up
            if not each.delivered:
                continue
            found["upload_s"][n], found["upload_bytes"][n] = each.upload_s, each.upload_bytes
            for name in ("download_s", "train_s"):
                found[name][n] = np.clip(getattr(each.report, name), 0.0, report.edge_s)
            found["loss_sum"][n] = each.report.loss_sum
            most_j = most_w[n] * report.edge_s
            metered[n] = each.report.metered and 0 <= each.report.joules <= most_j
            if metered[n]:
                found["joules"][n] = each.report.joules
            elif each.report.metered:
                words = (
                    "%d reports %g J, more than the %g J that it can spend: its laws are charged"
                )
                log.warning("device " + words, each.number, each.report.joules, most_j)
    counted = delivered & (refused == ACCEPTED)
    found["loss_sum"] = possible_losses(found["loss_sum"], counted, plan.local_steps)
    cost = _cost(seen, plan, found, delivered, metered, edge_time_s)
    outcome = Outcome(
        device=seen.device,
        cost=cost,
        planned=planned,
        delivered=delivered,
        late=plan.trained & ~delivered & (refused == ACCEPTED),
        delivered_s=delivered_s,
        refused=refused if (refused != ACCEPTED).any() else None,
        stepped_up=stepped if (stepped != NOT_STEPPED).any() else None,
        measured=True,
        metered=metered if metered.any() else None,
        enforce_s=enforce_s,
    )
    return outcome, found["loss_sum"]


def most_power_w(seen: Observation, plan: Plan) -> FloatArray:
    """The power that no device exceeds: several times what the laws give it at full speed."""
    compute_w = training_energy_j(seen, seen.cpu_max_hz, seen.cpu_max_hz)
    radio_w = seen.tx_power_w if plan.tx_power_w is None else plan.tx_power_w
    more = (seen.laws.rx_power_w, seen.laws.idle_power_w)
    rest_w = sum(np.zeros(seen.num_devices) if each is None else each for each in more)
    return np.asarray(MOST_POWER * (compute_w + radio_w + rest_w))


def possible_losses(
    loss_sum: FloatArray, counted: NDArray[np.bool_], local_steps: NDArray[np.int64]
) -> FloatArray:
    """The sums of losses, none of a mean beyond `MOST_LOSS` times the lower median of the counted.

    Those of updates that do not count are 0.
    """
    found = np.where(counted & np.isfinite(loss_sum), loss_sum, 0.0)
    if not counted.any():
        return found
    size = np.sort(np.abs(found[counted]) / np.maximum(local_steps[counted], 1))
    most = MOST_LOSS * size[(len(size) - 1) // 2] * local_steps
    return np.clip(found, -most, most)


def _cost(
    seen: Observation,
    plan: Plan,
    found: Mapping[str, FloatArray],
    delivered: NDArray[np.bool_],
    metered: NDArray[np.bool_],
    edge_time_s: FloatArray,
) -> RoundCost:
    """The measured seconds and bytes, and the joules behind them.

    A device that was not heard of is charged what it was planned to spend on computing.
    """
    trained = plan.trained
    cpu_hz = np.where(trained, plan.cpu_hz, seen.cpu_max_hz)
    steps = np.where(trained, plan.local_steps, seen.local_steps)
    power_w = seen.tx_power_w if plan.tx_power_w is None else plan.tx_power_w
    cycles = np.where(delivered, found["train_s"] * cpu_hz, seen.cycles * steps / seen.local_steps)
    compute_j = np.where(trained, training_energy_j(seen, cycles, cpu_hz), 0.0)
    busy_s = found["download_s"] + found["train_s"] + found["upload_s"]
    return RoundCost(
        compute_s=found["train_s"],
        upload_s=found["upload_s"],
        compute_j=np.where(metered, found["joules"], compute_j),
        upload_j=upload_energy_j(found["upload_s"], power_w),  # no meter's report has it
        edge_time_s=edge_time_s,
        backhaul_s=np.zeros(seen.num_edges),
        upload_bytes=found["upload_bytes"],
        download_s=found["download_s"],
        download_j=np.zeros(seen.num_devices),
        idle_j=idle_energy_j(seen, busy_s, edge_time_s, plan.trains),
    )
