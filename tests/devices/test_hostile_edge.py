"""What a real agent does not let a taken-over edge server do to its device."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from contextlib import suppress

import pytest
from support.children import LIMIT_S
from support.enrolment import within
from support.fake_edge import fake_edge
from support.parties import six, split

from fedrt.devices.common.settings import DeviceSettings
from fedrt.devices.device import agent as agent_module
from fedrt.devices.device.agent import DeviceAgent
from fedrt.devices.device.memory import RUNS
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.scenario import scenario_text

SCENARIO = six()
MODEL = bytes(2600)
"""A model of `SCENARIO`, all of it zeros."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "scenario.toml").write_text(scenario_text(SCENARIO, anywhere=True))
    return split(folder, SCENARIO)


@pytest.fixture
def attack(site, data, tmp_path, caplog, monkeypatch):
    """Runs an agent against an edge server that serves its streams, one coroutine each."""
    caplog.set_level(logging.INFO, "fedrt.devices")
    monkeypatch.setattr(agent_module, "SHORTEST_S", 0.01)
    monkeypatch.setattr(agent_module, "LONGEST_S", 0.05)

    def run(*streams, also=None, **settings):
        done = asyncio.Event()
        left = list(streams)

        async def serve(edge):
            if not left:
                await done.wait()
                return
            work = left.pop(0)
            try:
                await edge.welcome(SCENARIO)
                await work(edge)
            finally:
                if not left:
                    done.set()

        async def main():
            files = site.files("device", "device-0")
            async with fake_edge(site.files("edge", "edge-0"), serve) as address:
                given = DeviceSettings(
                    scenario_file=str(data / "scenario.toml"),
                    ca=str(files.ca),
                    name="device-0",
                    edge=address,
                    data=str(data / "device-0.npz"),
                    state_folder=str(tmp_path / "state"),
                    meter="none",
                    **settings,
                )
                agent, stop = DeviceAgent(given), asyncio.Event()
                serving = asyncio.create_task(agent.serve(stop))
                ended = asyncio.create_task(done.wait())
                await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
                if also is not None:
                    await also(agent)
                stop.set()
                await serving

        within(main())
        assert not left
        return caplog.text

    return run


async def goes_on(edge, r=1):
    """The device carries out a right order."""
    key = pb.Key(run="run", session="s", t=0, r=r)
    await edge.order(MODEL, key=key, label=f"000000-0{r}-s")
    assert (await edge.upload()).key == key


async def closed(edge):
    """Wait until the device leaves the stream."""
    with suppress(EOFError, asyncio.CancelledError):
        while True:
            await edge.read()


@pytest.mark.parametrize("length", [len(MODEL) + 2**17, 2**32, 2**63])
def test_a_model_longer_than_its_own_is_not_taken(attack, length):
    async def announce(edge):
        head = pb.Payload(length=length, digest=bytes(32))
        key = pb.Key(run="run", session="s")
        await edge.write(order=pb.Order(key=key, label="000000-00-s", local_steps=1, model=head))
        with suppress(asyncio.CancelledError):
            for _ in range(10_000):
                await edge.write(chunk=bytes(2**20))
            raise AssertionError("10 GB were taken")

    text = attack(announce, goes_on)
    assert f"edge-0: a payload of {length} bytes: must be at most {len(MODEL) + 2**16}" in text


def test_a_correction_is_taken_in_scaffold_alone(attack):
    async def announce(edge):
        head = pb.Payload(length=4, digest=bytes(32))
        await edge.order(MODEL, correction=head)
        await closed(edge)

    assert "a payload of 4 bytes: must be at most 0" in attack(announce, goes_on)


NUMBERS = {
    "local_steps": (7, 10**6, 2**32 - 1),
    "rate_bps": (math.nan, math.inf, -math.inf, -1.0, 1e-300),
    "cpu_hz": (math.nan, math.inf, -1.0),
    "bandwidth_hz": (math.nan, math.inf, -1.0),
    "tx_power_w": (math.nan, math.inf, -1.0, 1e300),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_beyond_the_scenario_are_refused_in_a_line_and_the_stream_goes_on(attack, name):
    async def send(edge):
        for value in NUMBERS[name]:
            await edge.order(MODEL, **{name: value})
            assert f"order.{name} = " in await edge.failure()
        await goes_on(edge)

    text = attack(send, bandwidth="pacer")
    assert text.count(f": refused: order.{name} = ") == len(NUMBERS[name])
    assert text.count("connected to edge-0") == 1


@pytest.mark.parametrize("key", [{"t": 3}, {"r": 2}, {"run": "../x"}, {"run": ""}])
def test_orders_of_no_round_or_run_are_refused(attack, key, tmp_path):
    async def send(edge):
        given = {"run": "run", "session": "s", "t": 0, "r": 0} | key
        await edge.order(MODEL, key=pb.Key(**given))
        assert (await edge.failure()).startswith("order")
        await goes_on(edge)

    attack(send)
    assert [each.name for each in (tmp_path / "state").iterdir()] == ["run"]


def test_as_many_steps_as_a_policy_of_the_scenario_may_order_are_made(attack):
    async def send(edge):
        await edge.order(MODEL, local_steps=6)  # 2 local steps, 3 devices in the cluster
        assert (await edge.upload()).report.train_s > 0

    attack(send)


def test_a_task_that_has_died_ends_its_stream(attack, monkeypatch):
    begun = []

    def broken(self, order):
        begun.append(order)
        if len(begun) == 1:
            raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("fedrt.devices.actuators.device.DeviceActuators.begin_upload", broken)

    async def send(edge):
        await edge.order(MODEL)
        await closed(edge)

    monkeypatch.setattr(agent_module, "LAST_WORDS_S", 0.01)
    assert "float division by zero" in attack(send, goes_on)


def test_a_stop_is_heeded_between_local_steps(attack, monkeypatch):
    """An order of steps that would take as long as the test may."""
    stepped, go = threading.Event(), threading.Event()
    counted = []
    after_step = DeviceAgent._after_step

    def step(self):
        counted.append(1)
        stepped.set()
        assert go.wait(LIMIT_S)
        after_step(self)

    monkeypatch.setattr(DeviceAgent, "_after_step", step)

    async def send(edge):
        await edge.order(MODEL, local_steps=6)
        await asyncio.to_thread(stepped.wait, LIMIT_S)

    async def also(agent):
        asyncio.get_running_loop().call_soon(release, agent)

    def release(agent):
        if agent.stopping.is_set():
            go.set()
        else:
            asyncio.get_running_loop().call_later(0.01, release, agent)

    attack(send, also=also)
    assert len(counted) == 1


def test_folders_of_old_runs_go_and_the_newest_stay(attack, tmp_path):
    state = tmp_path / "state"
    (state / "mine").mkdir(parents=True)
    (state / "mine" / "notes.txt").write_text("stays")

    async def send(edge):
        for number in range(3 * RUNS):
            key = pb.Key(run=f"run-{number}", session="s", t=0, r=0)
            await edge.order(MODEL, key=key)
            await edge.upload()

    attack(send)
    left = sorted(each.name for each in state.iterdir() if each.is_dir())
    assert left == sorted(["mine", *(f"run-{n}" for n in range(2 * RUNS, 3 * RUNS))])


def test_what_is_remembered_of_one_run_does_not_grow(attack, tmp_path):
    async def send(edge):
        for number in range(60):
            await edge.order(
                MODEL,
                label=f"000000-{number}-s",
                key=pb.Key(run="run", session=f"s{number}", t=0, r=0),
            )
            await edge.upload()

    attack(send)
    assert len(list((tmp_path / "state" / "run").iterdir())) == 16 + 8 * 2
