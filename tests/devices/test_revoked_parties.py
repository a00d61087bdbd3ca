"""Revocation while a run goes on: open streams and calls end, on both sides."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

import pytest
from support.children import LIMIT_S
from support.enrolment import make_site, serving, within
from support.parties import six
from support.running import running

from fedrt.devices.device import agent
from fedrt.devices.edge import serve
from fedrt.devices.security import Access, Channels, Party, RevokedServerError, connections
from fedrt.errors import InputError

EDGE = Party("edge", "edge-0")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Look at lists more often than every two seconds."""
    monkeypatch.setattr(agent, "RECHECK_S", 0.05)
    monkeypatch.setattr(connections, "RECHECK_S", 0.05)
    monkeypatch.setattr(serve, "LIMITS", replace(serve.LIMITS, recheck_s=0.05))


def said(caplog, words):
    """Wait until a party has logged something."""
    end = time.monotonic() + LIMIT_S
    while not any(words in record.getMessage() for record in caplog.records):
        assert time.monotonic() < end, caplog.text
        time.sleep(0.01)


@pytest.fixture
def fleet(tmp_path, caplog):
    caplog.set_level(logging.INFO, "fedrt.devices")
    with running(tmp_path, six()) as found:
        found.start_edge(0)
        found.start_device(0)
        found.start_device(1)
        said(caplog, "device-0 is connected")
        said(caplog, "device-1 is connected")
        yield found


def test_the_stream_of_a_revoked_device_ends_and_so_does_its_agent(fleet, caplog):
    fleet.site.revoke("device-0")
    error = fleet.tasks["device-0"].exception(LIMIT_S)
    assert isinstance(error, InputError)
    assert "device device-0: certificate was revoked on" in str(error)
    assert "cut off device device-0" in caplog.text
    assert not fleet.tasks["device-1"].done()


def test_devices_leave_a_revoked_edge_server_until_it_has_another_certificate(fleet, caplog):
    fleet.site.revoke("edge-0")
    said(caplog, "edge edge-0: certificate was revoked")
    assert not fleet.tasks["device-0"].done()
    caplog.clear()
    fleet.site.renew("edge", "edge-0")
    said(caplog, "device-0 is connected")
    said(caplog, "device-1 is connected")


def test_a_call_ends_when_its_server_is_revoked(tmp_path):
    site = make_site(tmp_path)

    async def work():
        files = site.files("device", "device-0")
        rules = {"t.Devices": Access("device")}
        async with serving(site.files("edge", "edge-0"), rules) as address:
            channels = Channels(files)
            channel = channels.to(EDGE, address)
            call = channel.stream_stream("/t.Devices/Talk")(timeout=LIMIT_S)
            await call.write(b"first")
            assert await channels.guarded(EDGE, answer(call)) == b"first"
            waiting = asyncio.create_task(channels.guarded(EDGE, answer(call)))
            site.revoke("edge-0")
            with pytest.raises(RevokedServerError, match="edge edge-0: certificate was revoked"):
                await waiting
            assert channels.to(EDGE, address) is not channel
            call.cancel()
            await channels.close()

    within(work())


async def answer(call):
    return await call.read()
