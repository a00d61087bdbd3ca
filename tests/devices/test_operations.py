"""Health, metrics, logs and the end of parties, as whoever runs them sees it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import numpy as np
import pandas as pd
import pytest
import torch
from support.children import LIMIT_S, environment
from support.enrolment import within
from support.parties import Parties, six, split
from support.running import Running, running

import fedrt
from fedrt.devices.common.metrics import MEANING, Metrics, address_of
from fedrt.devices.common.settings import DeviceSettings
from fedrt.devices.device.agent import COUNTS, DeviceAgent
from fedrt.errors import InputError
from fedrt.records.checkpoint import Checkpoints
from fedrt.records.directory import read_run

NUMBERS = {"connected_devices": 3.0, "updates_counted_total": 12.0}


async def asked(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer.decode()


def answers(*requests):
    """What the pages of a party answer."""

    async def main():
        metrics = Metrics("edge-0", lambda: NUMBERS)
        port = await metrics.start("0")
        try:
            return [await asked(port, request) for request in requests]
        finally:
            await metrics.close()

    return within(main())


def test_a_party_says_that_it_is_well():
    (answer,) = answers(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert answer.endswith("\r\n\r\nok\n")


def test_the_port_of_the_metrics_is_noted_as_the_system_may_choose_it(caplog):
    async def main():
        metrics = Metrics("edge-0", lambda: NUMBERS)
        try:
            return await metrics.start("0")
        finally:
            await metrics.close()

    with caplog.at_level("INFO"):
        port = within(main())
    lines = [record.getMessage() for record in caplog.records]
    assert any(f":{port}/metrics" in line for line in lines)


def test_metrics_are_what_prometheus_reads():
    from prometheus_client.parser import text_string_to_metric_families

    (answer,) = answers(b"GET /metrics HTTP/1.1\r\n\r\n")
    families = list(text_string_to_metric_families(answer.partition("\r\n\r\n")[2]))
    found = {each.name: (each.type, *each.samples[0][1:3]) for each in families}
    who = {"party": "edge-0"}
    assert found == {
        "fedrt_connected_devices": ("gauge", who, 3.0),
        "fedrt_updates_counted": ("counter", who, 12.0),
    }
    assert set(COUNTS) <= MEANING.keys()


def test_other_requests_do_no_harm():
    junk = (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", b"\r\n\r\n", b"\x16\x03\x01", b"x" * 100_000)
    found = answers(*junk, b"GET /healthz HTTP/1.1\r\n\r\n")
    assert found[0].startswith("HTTP/1.1 404")
    assert found[1].startswith("HTTP/1.1 404")
    assert found[2:4] == ["", ""]
    assert found[4].endswith("ok\n")


def test_a_port_alone_is_on_loopback():
    assert address_of("9100") == ("127.0.0.1", 9100)
    assert address_of("0.0.0.0:9100") == ("0.0.0.0", 9100)
    for wrong in ("", "here", "1:", "70000", "-1"):
        with pytest.raises(InputError):
            address_of(wrong)


def test_every_party_of_a_run_has_numbers(tmp_path, monkeypatch):
    ports: dict[str, int] = {}
    start = Metrics.start

    async def started(self, given):
        found = await start(self, given)
        ports[self.party] = found
        return found

    monkeypatch.setattr(Metrics, "start", started)
    seen = {}

    def look(done):
        if done.last.t == 1:
            for party, port in ports.items():
                page = within(asked(port, b"GET /metrics HTTP/1.1\r\n\r\n"))
                lines = [line for line in page.splitlines() if line.startswith("fedrt_")]
                seen[party] = {a.partition("{")[0]: float(a.split()[-1]) for a in lines}

    scenario = six()
    with running(tmp_path, scenario) as fleet:
        given = Running.given
        monkeypatch.setattr(Running, "given", lambda *a: given(*a) | {"metrics": "0"})
        fleet.start_all()
        fleet.coordinate(progress=look)
    assert len(seen) == 9
    assert seen["coordinator"]["fedrt_connected_devices"] == 6
    assert seen["coordinator"]["fedrt_global_round"] == 2
    assert seen["edge-0"]["fedrt_updates_counted_total"] == 12
    assert seen["device-0"]["fedrt_connected"] == 1
    assert seen["device-0"]["fedrt_orders_total"] == 4


def command(fleet, role, name, *more):
    """A party as a process that logs JSON."""
    given = fleet.given(role, name)
    words = [role, name, "--scenario", given["scenario_file"], "--log-json", "--allow-code", *more]
    for option in ("ca", "certificate", "key", "revoked"):
        words += [f"--{option}", given[option]]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "fedrt", *words],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=fleet.folder,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_parties_end_well_and_log_json_without_keys(tmp_path, number):
    with running(tmp_path, six()) as fleet, ExitStack() as parties:
        edge = command(fleet, "edge", "edge-0", "--listen", f"127.0.0.1:{free_port()}")
        parties.callback(end, edge)
        lines = logged_until(edge, "edge-0 listens on")
        assert lines[-1]["party"] == "edge-0"
        address = lines[-1]["message"].rpartition(" ")[2]
        data = str(tmp_path / "data" / "device-0.npz")
        device = command(fleet, "device", "device-0", "--edge", address, "--data", data)
        parties.callback(end, device)
        lines += logged_until(device, "connected to edge-0")
        for party in (device, edge):
            party.send_signal(number)
            rest = party.communicate(timeout=LIMIT_S)[1]
            lines += [json.loads(line) for line in rest.splitlines()]
            assert party.returncode == 0
        assert lines[-1]["message"] == "edge-0 has stopped"
        for line in lines:
            assert line.keys() >= {"time", "level", "party", "message"}
        logged = json.dumps(lines)
        for role, name in (("edge", "edge-0"), ("device", "device-0")):
            key = Path(fleet.given(role, name)["key"]).read_text().splitlines()[1:-1]
            assert not any(part in logged for part in key)
        assert "PRIVATE" not in logged


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_coordinator_that_was_stopped_goes_on_with_the_same_command(
    tmp_path, monkeypatch, number, code, said
):
    scenario, go, trained = six(), Event(), DeviceAgent._trained
    options = {"engine": "sequential", "device": "cpu", "progress": False}
    expected = fedrt.run(scenario, policy="ce-fedavg", out=tmp_path / "simulated", **options)

    def held(self, job):
        """Nothing goes on after the first global round until the coordinator was stopped."""
        if job.order.key.t > 0 and self.settings.number == 0:
            assert go.wait(LIMIT_S)
        return trained(self, job)

    monkeypatch.setattr(DeviceAgent, "_trained", held)
    with running(tmp_path, scenario) as fleet, ExitStack() as parties:
        parties.callback(go.set)
        fleet.start_all()
        first = coordinator(fleet)
        parties.callback(end, first)
        while not first.stdout.readline().startswith("global round 1: "):
            assert first.poll() is None
        first.send_signal(number)
        _, lines = first.communicate(timeout=LIMIT_S)
        assert first.returncode == code, lines
        assert said in lines.splitlines()
        assert "Traceback" not in lines
        run = tmp_path / "run"
        assert not list(run.rglob(".*.torn"))
        assert read_run(run).summary is None
        assert len(pd.read_parquet(run / "rounds.parquet")) == 1
        go.set()
        second = coordinator(fleet)
        parties.callback(end, second)
        out, lines = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 0, lines
    assert "going on after global round 1" in lines.splitlines()
    assert [line.split(":")[0] for line in out.splitlines()[:3]] == ROUNDS
    models = Checkpoints(run).newest_models()
    np.testing.assert_array_equal(models, Checkpoints(expected.folder).newest_models())


def test_a_device_trains_with_the_threads_that_it_was_given(tmp_path):
    parties = Parties(split(tmp_path, six()), six())
    before, found = torch.get_num_threads(), []
    for threads in (3, 1, None):
        trainer = parties.device(0)
        trainer.threads = threads
        (order,) = parties.edges[0].orders(0, 0, [0], [2], None, [trainer.samples])
        model = parties.edges[0].model()
        trainer.train(order, model, lambda: found.append(torch.get_num_threads()))
    assert found == [3, 3, 1, 1, before, before]
    assert torch.get_num_threads() == before


def test_an_agent_hands_its_threads_on(tmp_path):
    with running(tmp_path, six()) as fleet:
        given = fleet.given("device", "device-0") | {"data": str(tmp_path / "data/device-0.npz")}
        assert DeviceAgent(DeviceSettings(**given, threads=3)).trainer.threads == 3
        assert DeviceAgent(DeviceSettings(**given)).trainer.threads == 1


ROUNDS = ["global round 1", "global round 2", "global round 3"]
"""The first as it was saved."""


def coordinator(fleet):
    """The coordinator of a fleet as a process."""
    given = fleet.given("coordinator", "coordinator")
    words = ["coordinator", given["scenario_file"], "--policy", "ce-fedavg", "--allow-code"]
    words += ["--edges", ",".join(fleet.addresses[c] for c in sorted(fleet.addresses))]
    words += [
        "--data",
        str(fleet.folder / "data" / "server.npz"),
        "--out",
        str(fleet.folder / "run"),
    ]
    words += ["--wait", "600", "--least-deadline", "600", "--least-devices", "6"]
    for option in ("ca", "certificate", "key", "revoked"):
        words += [f"--{option}", given[option]]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "fedrt", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=fleet.folder,
    )


def end(party):
    """End a party that a failed test has left."""
    party.kill()
    party.communicate(timeout=LIMIT_S)


def logged_until(party, start):
    """The lines that a party logs, up to the first that starts so."""
    found = []
    while not found or not found[-1]["message"].startswith(start):
        found.append(json.loads(party.stderr.readline()))
    return found


def free_port():
    from devices_demo import free_ports

    return free_ports(1)[0]
