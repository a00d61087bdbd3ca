"""One process of one coordinator leads an edge server at a time."""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest
from support.enrolment import within
from support.fake_device import coordinator
from support.open_round import INPUTS
from support.parties import six
from support.running import running

from fedrt.devices.coordinator import edges
from fedrt.devices.coordinator.run import coordinate
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.services import LED, SESSION, call
from fedrt.errors import InputError
from fedrt.records.directory import read_run

# isort: split
import grpc  # after fedrt.devices, which keeps it from TLS 1.2


def lead(chief, session):
    return call(chief.channel, "Orders", "Lead")(pb.Question(), metadata=((SESSION, session),))


def train_of(chief, session):
    """A call by which a coordinator asks for a state, by its process."""
    question = pb.ModelQuestion(run="run", label="start")
    return call(chief.channel, "Orders", "Model")(question, metadata=((SESSION, session),))


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path, caplog):
    caplog.set_level(logging.INFO, "fedrt.devices")
    with running(tmp_path, six()) as fleet:
        fleet.start_edge(0)
        files = fleet.site.files("coordinator", "coordinator")

        async def run():
            given = (fleet.addresses[0], files, fleet.scenario, INPUTS)
            async with coordinator(*given) as first, coordinator(*given) as second:
                leading = lead(first, "one")
                assert await leading.read() == pb.Nothing()
                for _ in range(3):
                    for refused in (lead(second, "two"), train_of(second, "two")):
                        with pytest.raises(grpc.aio.AioRpcError) as error:
                            await refused.read()
                        assert error.value.code() == LED
                        assert "edge-0 is led by another coordinator, from" in error.value.details()
                again = lead(first, "one")  # the same process, before the server noticed its end
                assert await again.read() == pb.Nothing()
                leading.cancel()
                await first.channel.close()  # as when its process is killed
                found = None
                while found is None:
                    with suppress(grpc.aio.AioRpcError):  # until the server has noticed
                        found = await lead(second, "two").read()
                assert found == pb.Nothing()

        within(run())
    lines = [each.getMessage() for each in caplog.records if "led by another" in each.getMessage()]
    assert len(lines) == 1


def test_orders_are_those_of_the_coordinator_that_the_settings_name(tmp_path):
    with running(tmp_path, six()) as fleet:
        fleet.start_edge(0, coordinator="chief")

        async def ask(name):
            files = fleet.site.files("coordinator", name)
            given = (fleet.addresses[0], files, fleet.scenario, INPUTS)
            async with coordinator(*given) as chief:
                await chief.ask()

        within(ask("chief"))
        with pytest.raises(grpc.aio.AioRpcError, match="coordinator coordinator: may not call"):
            within(ask("coordinator"))


def test_a_second_coordinator_ends_in_a_line_and_the_first_goes_on(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "fedrt.devices")
    monkeypatch.setattr(edges, "LED_AGAIN_S", 0.05)
    monkeypatch.setattr(edges, "TAKEOVER_S", 0.2)
    said = []
    with running(tmp_path, six("rounds.global_rounds=2")) as fleet:
        fleet.start_all()

        def second(done):
            if done.last.t == 0:
                with pytest.raises(InputError) as error:
                    coordinate(fleet.settings(), tmp_path / "other", "c", None, lambda line: None)
                said.extend(error.value.lines)

        fleet.coordinate(progress=second)
        # It is free for the next one, whose run is another.
        coordinate(fleet.settings(), tmp_path / "third", "c", None, lambda line: None)
    (line,) = said
    assert "is led by another coordinator, from ipv4:127.0.0.1" in line
    for run in ("run", "third"):
        assert read_run(tmp_path / run).summary["global_rounds"] == 2
    assert caplog.text.count("refused a coordinator") in (1, 2)  # by each edge server, once
    own = [tmp_path / "run", *(tmp_path / "run").rglob("*")]
    for place in ("edge-0", "device-0"):
        own += (tmp_path / "state" / place).rglob("*")
    wide = [path for path in own if path.stat().st_mode & 0o077]
    assert wide == []
    assert len(own) > 10
