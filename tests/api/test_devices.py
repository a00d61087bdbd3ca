"""`fedrt.coordinator`, `fedrt.edge` and `fedrt.device`: the parties of a run as functions."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from devices_demo import free_ports
from support.enrolment import make_site
from support.parties import six, split

import fedrt
from fedrt.scenario import scenario_text

TWO = ("fleet={num_edges=1,num_devices=2}", "fleet.cluster_sizes=[2]", "rounds.global_rounds=1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with all that the parties of a run need."""
    folder = tmp_path_factory.mktemp("place")
    site = make_site(folder)
    for role, name in (("coordinator",) * 2, ("edge", "edge-0"), ("device", "device-0")):
        site.files(role, name)
    site.files("device", "device-1")
    split(folder, six(*TWO))
    (folder / "scenario.toml").write_text(scenario_text(six(*TWO), anywhere=True))
    return folder


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.chdir(place)


def edge(place, **more):
    given = {"scenario": place / "scenario.toml", "ca": place / "edge-edge-0" / "ca.pem"}
    return fedrt.edge("edge-0", **(given | more))


def device(place, number, **more):
    name = f"device-{number}"
    given = {"scenario": place / "scenario.toml", "ca": place / f"device-{name}" / "ca.pem"}
    return fedrt.device(name, **(given | {"data": place / f"{name}.npz"} | more))


def coordinator(place, **more):
    given = {"ca": place / "coordinator-coordinator" / "ca.pem", "data": place / "server.npz"}
    given["edges"] = ["127.0.0.1:7100"]
    return fedrt.coordinator(place / "scenario.toml", **(given | more))


class Told(fedrt.Callback):
    """Keeps what it is told."""

    def __init__(self):
        self.rounds = []

    def round_ended(self, run, record):
        self.rounds.append(record["global_round"])


def test_a_run_by_functions_alone(place, capsys):
    stop, told = Event(), Told()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with ThreadPoolExecutor(3) as threads:
        try:
            parties = [threads.submit(edge, place, listen=address, stop=stop)]
            for number in range(2):
                parties.append(threads.submit(device, place, number, edge=address, stop=stop))
            run = coordinator(
                place,
                edges=address,
                policy=type("Named", (fedrt.POLICIES["ce-fedavg"],), {"name": "named"}),
                out=place / "run",
                wait_s=600,
                least_deadline_s=600,
                callbacks=[told],
            )
        finally:
            stop.set()
        names = [party.result().name for party in parties]
    assert names == ["edge-0", "device-0", "device-1"]
    assert told.rounds == [0]
    assert run.folder == place / "run"
    assert fedrt.read_run(run.folder).policy == "python:Named"
    assert list(run.summary["global_rounds"]) == [1]
    assert "global round 1: " in capsys.readouterr().out


def test_checks_start_nothing(place):
    before = sorted(place.rglob("*"))
    assert edge(place, check=True).state.name == "edge-0"
    assert device(place, 1, check=True, metrics=9100).own_edge == "edge-0"
    assert coordinator(place, check=True) is None
    with pytest.raises(fedrt.InputError) as caught:
        coordinator(place, check=True, edges=["here"], policy="best")
    assert len(caught.value.lines) == 2
    assert sorted(place.rglob("*")) == before


def test_what_cannot_be_called_is_one_line(place):
    with pytest.raises(fedrt.InputError, match="must be a file"):
        edge(place, scenario=six(*TWO))
    with pytest.raises(TypeError, match="unknown options: colour"):
        edge(place, colour="red")
    with ThreadPoolExecutor(1) as threads, pytest.raises(fedrt.InputError, match="stop=threading"):
        threads.submit(edge, place).result()

    async def notebook():
        edge(place)

    with pytest.raises(fedrt.InputError, match="call it in a thread"):
        asyncio.run(notebook())


@pytest.mark.parametrize("call", [edge, coordinator, lambda place: device(place, 0)])
def test_without_grpcio_one_line_says_how_to_install_it(place, call, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(fedrt.InputError, match=r"pip install 'fedrt\[devices\]'") as caught:
        call(place)
    assert len(caught.value.lines) == 1
