"""What edge servers and devices keep on disk: states by label, updates, gossip steps, memories."""

from __future__ import annotations

import numpy as np
import pytest

from fedrt.devices.device.memory import DeviceMemory
from fedrt.devices.edge.states import START, LostStateError, States, label_of
from fedrt.devices.wire.messages_pb2 import Key, Payload, Upload


def keep_update(states, label, number, content, upload, upload_s=0.0):
    """Write an update as one that comes in is written."""
    draft = states.draft(label, number)
    draft.add(content)
    draft.seal(upload, upload_s)
    draft.sync()
    draft.keep(states.update_path(label, number))


def test_a_state_is_there_once_its_report_is(tmp_path):
    states = States(tmp_path / "run")
    label = label_of(3, "01", "ab12")
    assert label == "000003-01-ab12"
    assert states.has(START)
    assert not states.has(label)
    states.save(label, {"models": np.arange(4.0)}, b"report")
    assert states.has(label)
    assert states.report(label) == b"report"
    np.testing.assert_array_equal(states.load(label)["models"], np.arange(4.0))


def test_a_state_without_its_report_has_not_been_reached(tmp_path):
    states = States(tmp_path)
    states.save("000001-00-s", {"models": np.zeros(2)}, b"")
    (tmp_path / "000001-00-s.report").unlink()
    assert not States(tmp_path).has("000001-00-s")


def test_damaged_states_are_one_line(tmp_path):
    states = States(tmp_path)
    (tmp_path / "000001-00-s.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(LostStateError, match=r"000001-00-s\.npz: cannot be read"):
        states.load("000001-00-s")


def test_updates_survive_a_restart_and_keep_their_reports(tmp_path):
    upload = Upload(key=Key(run="r", session="s", t=1, r=0), message=Payload(length=3))
    upload.report.loss_sum = 1.25
    upload.variate.length = 7
    keep_update(States(tmp_path), "000001-00-s", 7, b"abcvariate", upload, 0.5)
    kept = States(tmp_path).updates("000001-00-s")
    assert list(kept) == [7]
    found = kept[7].result().loaded()
    assert (found.message, found.variate, kept[7].upload_s) == (b"abc", b"variate", 0.5)
    assert found.loss_sum == 1.25
    assert States(tmp_path).updates("000001-01-s") == {}


def test_old_rounds_are_forgotten_and_other_files_stay(tmp_path):
    states = States(tmp_path)
    for t in (0, 1, 2):
        label = label_of(t, "00", "s")
        states.save(label, {}, b"")
        keep_update(states, label, 1, b"u", Upload(message=Payload(length=1)))
        states.save_step(label, 0, 1, b"m")
    (tmp_path / "notes.txt").write_text("mine")
    states.forget_before(2)
    left = sorted(path.name for path in tmp_path.iterdir())
    of_two = ["000002-00-s.0-1.step", "000002-00-s.1.update", "000002-00-s.npz"]
    assert left == [*of_two, "000002-00-s.report", "notes.txt"]
    states.forget_before(3, keep_updates=True)
    assert states.step("000002-00-s", 0, 1) is None
    assert states.updates("000002-00-s")[1].result().loaded().message == b"u"


def test_a_device_remembers_what_an_earlier_round_may_be_begun_from_again(tmp_path):
    memory = DeviceMemory(tmp_path, 20)
    first = label_of(0, "01", "s")
    memory.save(first, {"left": np.zeros(2)})
    for session in range(20):  # the coordinator begins global round 1 anew, again and again
        for r in range(9):
            remember = first if r == 0 else label_of(1, f"{r - 1:02}", f"s{session}")
            assert memory.load(remember) is not None
            memory.save(label_of(1, f"{r:02}", f"s{session}"), {"left": np.ones(2)})
            memory.forget_for(1, remember)
    assert len(list(tmp_path.iterdir())) == 20
    assert DeviceMemory(tmp_path, 20).load(first) is not None
    last = label_of(1, "08", "s19")
    memory.forget_for(2, last)
    assert memory.load(first) is not None
    memory.save(label_of(2, "00", "s19"), {"left": np.full(2, 3.0)})
    memory.forget_for(3, label_of(2, "00", "s19"))
    again = DeviceMemory(tmp_path, 20)
    assert again.load(first) is None
    found = again.load(last)
    assert found is not None
    assert found["left"].tolist() == [1.0, 1.0]
    memory.forget_for(4, "")
    assert again.load(last) is not None


def test_a_draft_that_is_dropped_leaves_nothing(tmp_path):
    states = States(tmp_path)
    first, second = states.draft("000001-00-s", 3), states.draft("000001-00-s", 3)
    first.add(b"half")
    assert states.updates("000001-00-s") == {}
    for each in (first, second, first):
        each.drop()
    first.add(b"more, from a thread that was still at it")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [1, 5, 12, 20])
def test_an_update_that_was_cut_short_is_one_line_and_asked_for_again(tmp_path, cut, caplog):
    states, label = States(tmp_path), "000001-00-s"
    upload = Upload(key=Key(run="r"), message=Payload(length=9, digest=b"d"))
    keep_update(states, label, 1, b"some more", upload)
    path = states.update_path(label, 1)
    path.write_bytes(path.read_bytes()[cut:])
    assert states.updates(label) == {}
    (line,) = [record.getMessage() for record in caplog.records]
    assert "1.update: is no update, or a damaged one" in line
    assert list(tmp_path.iterdir()) == []
