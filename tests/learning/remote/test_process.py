"""An edge server's model in a process of its own: the same numbers, rests and lost processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from support.children import LIMIT_S
from support.parties import six

from fedrt.errors import InputError, MessageError
from fedrt.learning.remote import (
    EdgeModel,
    EdgeModelProcess,
    GossipOrder,
    KeptResult,
    LocalResult,
    LostModelError,
    ModelInputs,
)
from fedrt.learning.remote import process as module

INPUTS = ModelInputs((1, 8, 8), 10)
WHO = ([0, 1, 2], [1, 1, 1], None, [10, 20, 30])
"""Devices, local steps, codecs and samples."""


@pytest.fixture
def there():
    found = EdgeModelProcess(six(), 0, 0, INPUTS)
    yield found
    found.rest()


def model_of(process):
    """The bytes of the model as devices get it."""
    return process.packed(process.state()["models"][0])


def kept(folder, number, message):
    """A result in a file as edge servers keep them, with something behind it."""
    path = folder / f"{number}.update"
    path.write_bytes(message + b"head and tail")
    return KeptResult(str(path), len(message), 0, 1.0, 1.0, 0.0, 0.0, 0.1)


def test_averages_are_the_same_and_go_on_after_a_rest(there, tmp_path):
    here = EdgeModel.open(six(), 0, 0, INPUTS)
    assert (there.model_digest, there.model_bytes) == (here.model_digest, here.model_bytes)
    assert model_of(there) == here.model()
    draws = np.random.default_rng(0)
    for r in range(2):
        orders = there.orders(0, r, *WHO)
        assert orders == here.orders(0, r, *WHO)
        files, results = {}, {}
        for number in WHO[0]:
            message = draws.normal(size=there.model_bytes // 4).astype("<f4").tobytes()
            files[number] = kept(tmp_path, number, message)
            results[number] = LocalResult(message, 1.0, 1.0, 0.0, 0.0, 0.1)
            assert there.problem(files[number], orders[number]) is None
        found = there.average(0, r, orders, files)
        assert found.counted.tolist() == here.average(0, r, orders, results).counted.tolist()
        state = there.state()
        for name, array in here.state().items():
            np.testing.assert_array_equal(state[name], array)
        there.rest()
        assert not there.alive
        with pytest.raises(LostModelError, match="has ended"):
            there.state()
        there.restore(state)
        assert there.alive
    other = np.zeros(there.model_bytes // 4, dtype="<f4").tobytes()
    assert there.distance_to(memoryview(other)) == here.distance_to(other)
    with pytest.raises(InputError, match="orders for devices"):
        there.orders(1, 0, [5], [1], None, [10])


def test_an_error_does_not_hold_on_to_what_was_sent(there):
    """Python's garbage collector may crash on memoryviews that are looked into; see `send`."""
    views = [memoryview(bytearray(there.model_bytes - 4)) for _ in range(2)]
    there.begin(GossipOrder(0, 0.5, (1,), (0.5,), 1, "none"))
    there.message_to(1, 0)
    with pytest.raises(MessageError) as refused:
        there.receive(0, {1: views[0]})
    os.kill(there._child.pid, signal.SIGKILL)
    there._child.wait()
    with pytest.raises(LostModelError) as lost:
        there.receive(0, {1: views[1]})
    for view, error in zip(views, (refused, lost), strict=True):
        assert error.tb is not None  # its frames are still there
        view.release()


def test_what_is_wrong_with_a_result_is_said_across_processes(there, tmp_path):
    order = there.orders(0, 0, *WHO)[0]
    short = kept(tmp_path, 0, bytes(there.model_bytes - 4))
    assert "must have" in str(there.problem(short, order))
    nan = kept(tmp_path, 1, np.full(there.model_bytes // 4, np.nan, "<f4").tobytes())
    assert "not finite" in str(there.problem(nan, order))
    assert "must have" in str(there.problem(kept(tmp_path, 2, b""), order))


def test_a_process_that_was_killed_is_started_anew_with_a_state(there):
    state = there.state()
    os.kill(there._child.pid, signal.SIGKILL)
    with pytest.raises(LostModelError, match="was killed"):
        there.state()
    there.restore(state)
    assert there.packed(state["models"][0]) == model_of(there)


def test_a_model_that_cannot_be_opened_is_one_line_and_leaves_no_process(monkeypatch):
    started = []
    start = subprocess.Popen

    def popen(*given, **more):
        started.append(start(*given, **more))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(InputError, match="edge 9: must be below"):
        EdgeModelProcess(six(), 0, 9, INPUTS)
    assert [each.poll() for each in started] == [0]


def test_objects_of_python_code_stay_where_they_are(monkeypatch):
    monkeypatch.setattr(module, "offers", lambda paths: {"python:Net": None})
    found = EdgeModelProcess(six(), 0, 0, INPUTS)
    found.rest()
    assert found.alive
    model = model_of(found)
    assert found.distance_to(memoryview(model)) == 0.0


def test_the_process_that_opens_it_does_not_load_torch():
    script = (
        "import sys\n"
        "from fedrt.scenario import load_scenario\n"
        "from fedrt.learning.remote.process import EdgeModelProcess, ModelInputs\n"
        "import fedrt.devices.edge.serve\n"
        "scenario = load_scenario('quickstart', ['learning.normalise=false'])\n"
        "model = EdgeModelProcess(scenario, 0, 0, ModelInputs((1, 8, 8), 10))\n"
        "model.restore(model.state())\n"
        "print(model.state()['models'].size > 1000, 'torch' in sys.modules)\n"
        "model.rest()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.stdout == "True False\n", done.stderr
