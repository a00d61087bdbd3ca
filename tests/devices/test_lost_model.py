"""An edge server whose model's process is killed in the middle of a round."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.enrolment import within
from support.fake_device import device
from support.open_round import opened
from support.parties import six
from support.running import running

# isort: split
import grpc  # after fedrt.devices, which keeps it from TLS 1.2


def model_processes() -> list[int]:
    """The processes with models that this one has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            words = (path.parent / "cmdline").read_bytes()
            if parent == os.getpid() and b"fedrt.learning.remote.worker" in words:
                found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="of Linux alone")
def test_an_order_is_carried_out_when_it_is_given_again(tmp_path):
    """What was acknowledged counts, the other update is asked for again, none counts twice."""
    with running(tmp_path, six()) as fleet:
        fleet.start_edge(0)

        async def work():
            async with opened(fleet) as round_:
                assert (await round_.good.upload(round_.order.key, round_.model)).accepted
                for pid in model_processes():
                    os.kill(pid, signal.SIGKILL)
                with pytest.raises((EOFError, grpc.aio.AioRpcError)):
                    await round_.bad.upload(round_.order.key, round_.model)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await round_.training
                assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
                chief = round_.chief
                chief.r, chief.base = -1, "start"
                files = fleet.site.files("device", "device-0")
                async with device(fleet.addresses[0], files) as again:
                    await again.greet(fleet.scenario)
                    round_.training = asyncio.create_task(chief.train([0, 1]))
                    order, model = await again.order()
                    assert (order.key, model) == (round_.order.key, round_.model)
                    assert (await again.upload(order.key, model)).accepted
                    report = await round_.training
                assert [each.delivered for each in report.devices] == [True, True]

        within(work())
        folder = tmp_path / "state" / "edge-0" / "run"
        with np.load(folder / "000000-00-s.npz") as saved:
            assert np.isfinite(saved["models"]).all()
        assert not [path for path in folder.iterdir() if path.name.endswith(".torn")]
    assert model_processes() == []
