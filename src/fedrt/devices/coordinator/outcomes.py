"""What happened in an edge round on real devices, from the reports of the edge servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.compute import training_energy_j
from fedrt.cost.round import idle_energy_j, price
from fedrt.cost.uplink import upload_energy_j
from fedrt.devices.wire.messages_pb2 import TrainOrder, TrainReport
from fedrt.messages import LADDER
from fedrt.plan import Plan
from fedrt.rounds import ACCEPTED, NOT_STEPPED, REASONS, Outcome, RoundCost
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

REPORTED = ("download_s", "train_s", "joules")
"""What a device reports and is recorded."""


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
            metered[n] = each.report.metered
            found["upload_s"][n], found["upload_bytes"][n] = each.upload_s, each.upload_bytes
            for name in ("download_s", "train_s", "joules", "loss_sum"):
                found[name][n] = getattr(each.report, name)
    cost = _cost(seen, plan, found, delivered, metered, edge_time_s)
    outcome = Outcome(
        device=seen.device,
        cost=cost,
        planned=planned,
        delivered=delivered,
        late=plan.trained & ~delivered,
        delivered_s=delivered_s,
        refused=refused if (refused != ACCEPTED).any() else None,
        stepped_up=stepped if (stepped != NOT_STEPPED).any() else None,
        measured=True,
        metered=metered if metered.any() else None,
        enforce_s=enforce_s,
    )
    return outcome, found["loss_sum"]


def report_problem(order: TrainOrder, report: TrainReport) -> str | None:
    """What is wrong with an edge server's report on an order; None if it can be recorded."""
    ordered, reported = ({each.number for each in what.devices} for what in (order, report))
    if ordered != reported or len(report.devices) != len(reported):
        return "reports on other devices than ordered"
    values = [report.edge_s, report.delivered_s, report.enforce_s]
    for each in report.devices:
        values += [each.upload_s, *(getattr(each.report, name) for name in REPORTED)]
        if not ACCEPTED <= each.refused < len(REASONS):
            return "reports a reason that is none"
        if not NOT_STEPPED <= each.stepped_up < len(LADDER):
            return "reports a codec that is none"
    if not (np.isfinite(values) & (np.array(values) >= 0)).all():
        return "reports seconds or joules that cannot be"
    if not np.isfinite([each.report.loss_sum for each in report.devices]).all():
        return "reports a loss that is not finite"
    return None


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
