"""Updates as they come in: checked, kept on disk, and only then acknowledged."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.devices.common.threads import in_thread
from fedrt.devices.edge.drafts import ReceivedUpdate, UpdateDraft
from fedrt.devices.edge.rounds import MOST_FAILURES, OpenRound
from fedrt.devices.edge.seats import GoneError, Seat
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import SPARE
from fedrt.errors import one_line
from fedrt.learning.remote.process import LostModelError
from fedrt.system.files import UnwritableError

if TYPE_CHECKING:
    from fedrt.devices.edge.server import EdgeNode

log = logging.getLogger(__name__)

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
    mine = round_ is not None and same(upload.key, round_.key)
    draft = None
    try:
        if round_ is not None and mine and round_.awaits(number):
            assert node.states is not None
            draft = node.states.draft(round_.order.label, number)
        upload_s = await seat.gather(upload, most, draft)
        node.counts["bytes_received_total"] += upload.message.length + upload.variate.length
        if round_ is None or round_ is not node.round or not mine:
            await seat.receipt(upload.key, LATE)
            return
        if number not in round_.locals:
            await seat.receipt(upload.key, "was not asked for")
            return
        async with round_.receiving[number]:  # a device may have connected again meanwhile
            why = await _count(node, round_, number, upload, upload_s, draft)
    except UnwritableError as error:
        if round_ is not None and mine:
            round_.lose(error)
        raise GoneError(f"its update could not be written: {error}") from error
    finally:
        if draft is not None:
            draft.drop()
    await seat.receipt(upload.key, why)
    if why and round_.awaits(number):
        node.counts["updates_refused_total"] += 1
        note_failure(round_, number, upload.key, f"its update was refused: {why}")


async def _count(
    node: EdgeNode,
    round_: OpenRound,
    number: int,
    upload: pb.Upload,
    upload_s: float,
    draft: UpdateDraft | None,
) -> str:
    """Count an update in; why not, or nothing."""
    if number in round_.updates:
        repeated = round_.updates[number].upload.message.digest == upload.message.digest
        return "" if repeated else "another update has been counted"
    if draft is None or not round_.awaits(number):
        return LATE
    if (why := report_problem(upload.report)) is not None:
        return why
    at_s = time.monotonic() - round_.began
    update = ReceivedUpdate(timed(upload, at_s), draft.path, upload_s, at_s)
    draft.seal(update.upload, upload_s)
    return await _keep(node, round_, number, update, draft) or ""


async def _keep(
    node: EdgeNode, round_: OpenRound, number: int, update: ReceivedUpdate, draft: UpdateDraft
) -> str | None:
    """Check an update, give it its name and count it in; why not, or None.

    What has its name counts, even if its device has gone meanwhile.
    """
    model, states = node.model, node.states
    assert model is not None
    assert states is not None
    path = states.update_path(round_.order.label, number)
    kept: list[Path] = []

    def keep() -> str | None:
        why = model.problem(update.result(), round_.locals[number])
        if why is None:
            draft.sync()
            draft.keep(path)
            kept.append(path)
        return why

    try:
        return await in_thread(keep)
    except LostModelError as error:
        round_.lose(error)
        raise GoneError(f"its update could not be checked: {error}") from error
    finally:
        if kept:
            round_.add(number, replace(update, path=path))


def note_failure(round_: OpenRound | None, number: int, key: pb.Key, why: str) -> None:
    """Note that a device cannot deliver in this round; one that says so too often has to go."""
    if round_ is None or not same(key, round_.key) or not round_.awaits(number):
        return
    why = one_line(why, LONGEST_WHY)
    if not round_.fail(number, why):
        raise GoneError(f"has failed more than {MOST_FAILURES} times in one round")
    log.warning("device %d: %s", number, why)


def report_problem(report: pb.Report) -> str | None:
    """What is wrong with the numbers that plans will rest on; None if nothing is."""
    given = (report.download_s, report.train_s, report.joules, report.enforce_s)
    if all(math.isfinite(each) and each >= 0 for each in given) and report.joules <= MOST_JOULES:
        return None
    return "reports seconds or joules that cannot be"


def timed(given: pb.Upload, at_s: float) -> pb.Upload:
    """The head of an update that came at a time; no device was at it for longer than that.

    Deadlines rest on what devices report: one that claims years would hold up everybody.
    """
    upload = pb.Upload()
    upload.CopyFrom(given)
    report = upload.report
    for name in ("download_s", "train_s", "enforce_s"):
        setattr(report, name, min(getattr(report, name), at_s))
    return upload


def same(one: pb.Key, other: pb.Key) -> bool:
    """Whether two keys mean the same edge round."""
    return one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)
