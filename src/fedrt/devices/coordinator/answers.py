"""What the coordinator takes of the answers of edge servers: a wrong one counts as none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatchmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.rules import MOST_SAMPLES
from fedrt.messages import LADDER
from fedrt.quantities import DISTANCE
from fedrt.rounds import ACCEPTED, NOT_STEPPED, REASONS
from fedrt.validation import problem

GRACE_S = 20.0
"""What an edge server gets beyond a round's deadline, to average and to answer."""
MOST_JOULES = 1e12
MOST_BYTES = 2**60
MEASURED = ("download_s", "train_s", "enforce_s")
"""Seconds of a device's report."""


class AnswerRules:
    """Tells answers that an edge server of the scenario may give from others."""

    def __init__(self, edge_of_device: NDArray[np.int64]) -> None:
        self.edge_of_device = edge_of_device

    @singledispatchmethod
    def problem(self, answer: Any, _request: Any, _edge: int) -> str | None:
        """What is wrong with the answer of an edge server to a request; None if nothing is."""
        return None

    @problem.register
    def _(self, answer: pb.Answer, request: pb.Question, edge: int) -> str | None:
        own = set(np.flatnonzero(self.edge_of_device == edge).tolist())
        if not _fits([seat.number for seat in answer.seats], own):
            return "seats: must be its own devices, each once"
        if not all(0 < seat.samples <= MOST_SAMPLES for seat in answer.seats):
            return f"samples: must be 1 to {MOST_SAMPLES}"
        asked = {peer.number for peer in request.peers}
        return None if _fits(answer.peers, asked) else "peers: must be those it was asked about"

    @problem.register
    def _(self, answer: pb.TrainReport, order: pb.TrainOrder, _edge: int) -> str | None:
        most_s = order.deadline_s + 2 * GRACE_S
        ordered = {each.number for each in order.devices}
        numbers = [each.number for each in answer.devices]
        if not _fits(numbers, ordered) or len(numbers) != len(ordered):
            return "devices: must be those of the order, each once"
        for each in answer.devices:
            why = _device_problem(each, most_s)
            if why is not None:
                return f"device {each.number}: {why}"
        return _seconds_problem(answer, ("edge_s", "delivered_s", "enforce_s"), most_s)

    @problem.register
    def _(self, answer: pb.MixReport, order: pb.MixOrder, edge: int) -> str | None:
        near = {each.number for each in order.neighbours if each.number > edge}
        wrong = _apart_problem(answer.apart, near)
        return wrong or _seconds_problem(answer, ("mix_s",), order.deadline_s + 2 * GRACE_S)

    @problem.register
    def _(self, answer: pb.DistanceReport, order: pb.DistanceOrder, _edge: int) -> str | None:
        return _apart_problem(answer, {each.number for each in order.neighbours})


def _fits(numbers: Sequence[int], allowed: set[int]) -> bool:
    """Whether numbers are among those allowed, each at most once."""
    few = len(numbers) <= len(allowed)
    return few and set(numbers) <= allowed and len(set(numbers)) == len(numbers)


def _device_problem(each: pb.DeviceReport, most_s: float) -> str | None:
    """What is wrong with the report on one device; None if nothing is."""
    if each.refused != ACCEPTED and not 0 <= each.refused < len(REASONS):
        return problem("refused", each.refused, "a reason")
    if each.stepped_up != NOT_STEPPED and not 0 <= each.stepped_up < len(LADDER):
        return problem("stepped_up", each.stepped_up, "a codec")
    if each.upload_bytes > MOST_BYTES:
        return problem("upload_bytes", each.upload_bytes, f"at most {MOST_BYTES}")
    report = each.report
    if not math.isfinite(report.loss_sum):
        return problem("loss_sum", report.loss_sum, "finite")
    if not 0 <= report.joules <= MOST_JOULES:
        return problem("joules", report.joules, f"0 to {MOST_JOULES:g}")
    return _seconds_problem(each, ("upload_s",), most_s) or _seconds_problem(
        report, MEASURED, most_s
    )


def _seconds_problem(message: Any, names: Sequence[str], most_s: float) -> str | None:
    for name in names:
        if not 0 <= getattr(message, name) <= most_s:
            return problem(name, getattr(message, name), f"seconds, 0 to {most_s:g}")
    return None


def _apart_problem(apart: pb.DistanceReport, allowed: set[int]) -> str | None:
    """What is wrong with distances to some servers; None if nothing is."""
    if len(apart.numbers) != len(apart.distances) or not _fits(apart.numbers, allowed):
        return "distances: must be those to its neighbours, each once"
    lines: list[str] = []
    for n, distance in enumerate(apart.distances):
        DISTANCE.read(distance, f"distances[{n}]", lines)
    return lines[0] if lines else None
