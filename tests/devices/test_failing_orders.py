"""What the coordinator makes of answers and reports that an edge server should not give."""

from __future__ import annotations

import asyncio
import math
from threading import Event

import numpy as np
import pytest
from support.children import LIMIT_S
from support.enrolment import within
from support.tiny import tiny

from fedrt.devices.coordinator.distances import distances_of
from fedrt.devices.coordinator.edges import FailedOrderError, LostStateError, refuse_final
from fedrt.devices.coordinator.outcomes import report_problem
from fedrt.devices.edge.opening import Opening
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.services import CANNOT_WRITE, LOST_STATE, WRONG_PEER
from fedrt.errors import FedrtError, InputError
from fedrt.rounds import ACCEPTED, NOT_STEPPED, REASONS

# isort: split
import grpc  # after fedrt.devices, which keeps it from TLS 1.2

Code = grpc.StatusCode
ENDS, FAILS, LOST, AGAIN = InputError, FailedOrderError, LostStateError, None
ANSWERS = {
    (Code.FAILED_PRECONDITION, "Ask"): ENDS,
    (Code.FAILED_PRECONDITION, "Train"): FAILS,
    (Code.INVALID_ARGUMENT, "Mix"): FAILS,
    (Code.PERMISSION_DENIED, "Train"): ENDS,
    (Code.UNAUTHENTICATED, "Ask"): ENDS,
    (WRONG_PEER, "Mix"): FAILS,
    (CANNOT_WRITE, "Ask"): FAILS,
    (CANNOT_WRITE, "Train"): FAILS,
    (LOST_STATE, "Train"): LOST,
    (Code.UNAVAILABLE, "Train"): AGAIN,
    (Code.UNKNOWN, "Train"): AGAIN,
}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda each: f"{each[0].name} to {each[1]}")
def test_one_server_that_fails_is_silent_and_wrong_settings_end_the_run(answer):
    code, name = answer
    none = grpc.aio.Metadata()
    error = grpc.aio.AioRpcError(code, none, none, details="why")
    if ANSWERS[answer] is None:
        refuse_final(2, error, name)
        return
    with pytest.raises(FedrtError) as caught:
        refuse_final(2, error, name)
    assert type(caught.value) is ANSWERS[answer]
    assert str(caught.value) == "edge-2: why"


def test_distances_that_cannot_be_are_not_known(caplog):
    """Whatever servers report, the matrix can be recorded: NaN where nothing was compared."""
    reports = [
        (0, [1, 2, 3], [0.5, math.nan, 1.0]),
        (1, [2, 9], [math.inf, 1.0]),
        (2, [3, 2], [-1.0, 0.0]),
        (3, [], []),
    ]
    found = distances_of(4, reports)
    assert caplog.text.count("reports a distance that cannot be") == 5
    assert np.argwhere(found.compared).tolist() == [[0, 1], [0, 3], [1, 0], [3, 0]]
    known = found.compared | np.eye(4, dtype=bool)
    np.testing.assert_array_equal(np.isnan(found.true), ~known)


def reported(numbers=(4, 7), **changes):
    """A report on two devices, the last of which has some other values."""
    report = pb.TrainReport(edge_s=1.0, delivered_s=0.5)
    for number in numbers:
        device = pb.DeviceReport(
            number=number, delivered=True, refused=ACCEPTED, stepped_up=NOT_STEPPED, upload_s=0.1
        )
        device.report.CopyFrom(pb.Report(train_s=0.2, loss_sum=1.0))
        report.devices.append(device)
    for name, value in changes.items():
        for holder in (report, report.devices[-1], report.devices[-1].report):
            if name in holder.DESCRIPTOR.fields_by_name:
                setattr(holder, name, value)
                break
    return report


WRONG = {
    "another device": {"numbers": (4, 8)},
    "one twice": {"numbers": (4, 7, 7)},
    "one less": {"numbers": (4,)},
    "no reason": {"refused": len(REASONS)},
    "less than accepted": {"refused": ACCEPTED - 1},
    "no codec": {"stepped_up": 99},
    "endless": {"edge_s": math.inf},
    "no number": {"upload_s": math.nan},
    "before it began": {"train_s": -1.0},
    "no joules": {"joules": math.nan},
    "no loss": {"loss_sum": math.nan},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_report_that_could_not_be_recorded_is_refused(what):
    order = pb.TrainOrder(devices=[pb.DeviceOrder(number=n) for n in (4, 7)])
    assert report_problem(order, reported()) is None
    assert "reports" in str(report_problem(order, reported(**WRONG[what])))


def test_a_model_is_opened_once_whoever_stops_waiting(monkeypatch):
    """A question is cancelled at its deadline; the next finds what the first has begun."""
    began, go = [], Event()

    def open_(_self, _inputs):
        began.append(1)
        assert go.wait(LIMIT_S)
        return "the model", {}

    monkeypatch.setattr(Opening, "_open", open_)

    async def work():
        opening = Opening(tiny(), 0, 0)
        for _ in range(3):
            question = asyncio.ensure_future(opening.model(pb.Inputs()))
            await asyncio.sleep(0)
            question.cancel()
            with pytest.raises(asyncio.CancelledError):
                await question
        last = asyncio.ensure_future(opening.model(pb.Inputs()))
        await asyncio.sleep(0)
        go.set()
        assert await last == ("the model", {})

    within(work())
    assert began == [1]
