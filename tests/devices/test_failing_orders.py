"""What the coordinator makes of answers and reports that an edge server should not give."""

from __future__ import annotations

import asyncio
import math
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
from support.children import LIMIT_S
from support.enrolment import within
from support.tiny import tiny

from fedrt.devices.coordinator.answers import AnswerRules
from fedrt.devices.coordinator.distances import distances_of
from fedrt.devices.coordinator.edges import FailedOrderError, LostEdgeStateError, refuse_final
from fedrt.devices.coordinator.executor import RemoteExecutor
from fedrt.devices.coordinator.live import run_name
from fedrt.devices.coordinator.run import RemoteState
from fedrt.devices.edge.opening import Opening
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.services import CANNOT_WRITE, LOST_STATE, WRONG_PEER
from fedrt.errors import FedrtError, InputError
from fedrt.records.checkpoint import Checkpoints
from fedrt.records.records import RunSize
from fedrt.rounds import ACCEPTED, NOT_STEPPED, REASONS

# isort: split
import grpc  # after fedrt.devices, which keeps it from TLS 1.2

Code = grpc.StatusCode
ENDS, FAILS, LOST, AGAIN = InputError, FailedOrderError, LostEdgeStateError, None
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
    order = pb.TrainOrder(devices=[pb.DeviceOrder(number=n) for n in (4, 7)], deadline_s=60.0)
    rules = AnswerRules(np.zeros(9, dtype=np.int64))
    assert rules.problem(reported(), order, 0) is None
    assert rules.problem(reported(**WRONG[what]), order, 0)


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


class Numbers:
    """An evaluator of models of three numbers."""

    first_model = np.array([9.0, 9.0, 9.0], dtype=np.float32)

    def arrays(self, models):
        return np.stack([np.frombuffer(model, dtype=np.float32) for model in models])

    def packed(self, model):
        return (self.first_model if model is None else model).tobytes()


def executor_of(labels=("start",) * 3):
    """An executor of three edge servers that nobody calls."""
    settings = SimpleNamespace(scenario=tiny())
    fleet = SimpleNamespace(settings=settings, labels=list(labels), samples={})
    return RemoteExecutor(fleet, None, Numbers(), np.ones((3, 3), dtype=bool))


def test_the_newest_models_are_those_that_came_and_survive_a_restart(tmp_path):
    """A server whose model did not come lately has the last one that did, or the first of all."""
    executor = executor_of(("000002-mix-a", "000001-mix-a", "000002-mix-a"))
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(0, RemoteState(executor).state())
    executor.newest.take(0, "000002-mix-a", np.zeros(3, dtype=np.float32).tobytes())
    executor.newest.take(1, "000001-mix-a", np.ones(3, dtype=np.float32).tobytes())
    executor.newest.anew[0, 1] = executor.newest.anew[1, 0] = True
    checkpoints.save(1, RemoteState(executor).state())
    again = executor_of()
    state = dict(np.load(tmp_path / "checkpoints" / "000001.npz"))
    RemoteState(again).restore(state)
    assert again.fleet.labels == executor.fleet.labels
    assert again.newest.labels == ["000002-mix-a", "000001-mix-a", "start"]
    np.testing.assert_array_equal(again.newest.anew, executor.newest.anew)
    for c, value in enumerate((0.0, 1.0, 9.0)):
        assert again.newest.newest(c) == np.full(3, value, dtype=np.float32).tobytes()
    np.testing.assert_array_equal(checkpoints.newest_models()[:, 0], [0.0, 1.0, 9.0])
    again.newest.gossiped({0: (1,), 1: (0,)})
    assert not again.newest.anew.any()


def test_a_checkpoint_of_an_older_version_can_be_gone_on_from(tmp_path):
    labels = np.array(["000002-mix-a"] * 3, dtype="S80")
    models = np.arange(9, dtype=np.float32).reshape(3, 3)
    older = {"labels": labels, "linked": np.eye(3, dtype=bool), "models": models}
    checkpoints, executor = Checkpoints(tmp_path), executor_of()
    checkpoints.save(0, older)
    size, like = RunSize.of(tiny()), RemoteState(executor).state()
    state, records, notes = checkpoints.load(like, size, start_over=False)
    assert (records, notes) == ([], [])
    RemoteState(executor).restore(state)
    assert executor.newest.labels == ["000002-mix-a"] * 3
    assert executor.newest.newest(2) == models[2].tobytes()
    older["labels"] = np.array(["../elsewhere"] * 3, dtype="S80")
    with pytest.raises(InputError, match="does not name states"):
        RemoteState(executor).restore(older)


@pytest.mark.parametrize("text", ["", "[]", '{"run": 7}', '{"run": "../x"}', '{"else": 1}'])
def test_a_damaged_live_file_is_one_line_with_what_to_do(text, tmp_path):
    (tmp_path / "devices.json").write_text(text)
    with pytest.raises(InputError, match=r"does not name a run: remove it, and edge servers"):
        run_name(tmp_path)
    assert (tmp_path / "devices.json").read_text() == text
