"""Updates as they come in: checked, kept on disk, and only then acknowledged."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedrt.devices.common.threads import in_thread
from fedrt.devices.edge.rounds import MOST_FAILURES, OpenRound, ReceivedUpdate
from fedrt.devices.edge.seats import GoneError, Seat
from fedrt.devices.edge.states import States
from fedrt.devices.wire import messages_pb2 as pb

if TYPE_CHECKING:
    from fedrt.devices.edge.server import EdgeNode

log = logging.getLogger(__name__)

SPARE = 2**16
"""Bytes by which a message may be longer than two models: no codec's is."""
MOST_JOULES = 1e12
LONGEST_WHY = 500
"""Letters of a device's own words that are logged and reported."""
MOST_UNASKED = 2**23
"""Bytes that are taken, and then refused, before any run: `fedrt calibrate` measures uploads."""
LATE = "too late: the round has ended"


async def receive(node: EdgeNode, seat: Seat, upload: pb.Upload) -> None:
    """Take an update in: check it, keep it, acknowledge it."""
    round_, number = node.round, seat.number
    most = MOST_UNASKED if node.model is None else 2 * node.model.model_bytes + SPARE
    update = await seat.gather(upload, most, most)
    node.counts["bytes_received_total"] += len(update.message) + len(update.variate)
    if round_ is None or round_ is not node.round or not same(upload.key, round_.key):
        await seat.receipt(upload.key, LATE)
        return
    if number not in round_.locals:
        await seat.receipt(upload.key, "was not asked for")
        return
    async with round_.receiving[number]:  # a device may have connected again meanwhile
        why = await _count(node, round_, number, update)
    await seat.receipt(upload.key, why)
    if why and round_.awaits(number):
        node.counts["updates_refused_total"] += 1
        note_failure(round_, number, upload.key, f"its update was refused: {why}")


async def _count(node: EdgeNode, round_: OpenRound, number: int, update: ReceivedUpdate) -> str:
    """Count an update in; why not, or nothing."""
    if number in round_.updates:
        repeated = round_.updates[number].upload.message.digest == update.upload.message.digest
        return "" if repeated else "another update has been counted"
    assert node.model is not None
    assert node.states is not None
    given = (result_of(update), round_.locals[number])
    why = report_problem(update.upload.report) or await in_thread(node.model.problem, *given)
    if why is not None:
        return why
    if not round_.awaits(number):
        return LATE
    update = timed(update, time.monotonic() - round_.began)
    await _keep(node.states, round_, number, update)
    return ""


async def _keep(states: States, round_: OpenRound, number: int, update: ReceivedUpdate) -> None:
    """Save an update and count it in; what is on disk counts, even if its device has gone."""
    saved: list[int] = []

    def save() -> None:
        states.save_update(round_.order.label, number, update.packed())
        saved.append(number)

    try:
        await in_thread(save)
    finally:
        if saved:
            round_.add(number, update)


def note_failure(round_: OpenRound | None, number: int, key: pb.Key, why: str) -> None:
    """Note that a device cannot deliver in this round; one that says so too often has to go."""
    if round_ is None or not same(key, round_.key) or not round_.awaits(number):
        return
    if not round_.fail(number, why[:LONGEST_WHY]):
        raise GoneError(f"has failed more than {MOST_FAILURES} times in one round")
    log.warning("device %d: %s", number, why[:LONGEST_WHY])


def report_problem(report: pb.Report) -> str | None:
    """What is wrong with the numbers that plans will rest on; None if nothing is."""
    given = (report.download_s, report.train_s, report.joules, report.enforce_s)
    if all(math.isfinite(each) and each >= 0 for each in given) and report.joules <= MOST_JOULES:
        return None
    return "reports seconds or joules that cannot be"


def timed(update: ReceivedUpdate, at_s: float) -> ReceivedUpdate:
    """The update with the time at which it came; no device was at it for longer than that.

    Deadlines rest on what devices report: one that claims years would hold up everybody.
    """
    upload = pb.Upload()
    upload.CopyFrom(update.upload)
    report = upload.report
    for name in ("download_s", "train_s", "enforce_s"):
        setattr(report, name, min(getattr(report, name), at_s))
    return replace(update, upload=upload, at_s=at_s)


def same(one: pb.Key, other: pb.Key) -> bool:
    """Whether two keys mean the same edge round."""
    return one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def result_of(update: ReceivedUpdate) -> Any:
    """An update as the learning code takes it."""
    from fedrt.learning.remote import LocalResult

    report = update.upload.report
    return LocalResult(
        message=update.message,
        loss_sum=report.loss_sum,
        largest=report.largest,
        update_norm=report.update_norm,
        left_norm=report.left_norm,
        train_s=report.train_s,
        variate=update.variate or None,
    )
