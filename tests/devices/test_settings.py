"""Settings of the parties from options, environment and files; every wrong one is one line."""

from __future__ import annotations

import socket
from dataclasses import asdict

import pytest
from support.enrolment import make_site
from support.parties import six, split

from fedrt.cli import main
from fedrt.devices.common.settings import EdgeSettings, read_settings
from fedrt.records.directory import RunDirectory
from fedrt.records.identity import identity_of
from fedrt.records.options import RunOptions
from fedrt.scenario import scenario_text
from fedrt.studies.training import DEVICES


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with all that the parties of a run need."""
    folder = tmp_path_factory.mktemp("place")
    made = make_site(folder)
    for role, name in (
        ("coordinator", "coordinator"),
        ("edge", "edge-0"),
        ("edge", "edge-1"),
        ("device", "device-0"),
    ):
        made.files(role, name)
    (folder / "data").mkdir()
    split(folder / "data", six())
    text = scenario_text(six(), anywhere=True)
    (folder / "scenario.toml").write_text(text)
    plain = six("learning.normalise=true")
    (folder / "plain.toml").write_text(scenario_text(plain, anywhere=True))
    bits, cycles = "learning.model_bits=measured", "fleet.cycles_per_sample=measured"
    for name, one in (("bits.toml", bits), ("cycles.toml", cycles)):
        (folder / name).write_text(scenario_text(six(one), anywhere=True))
    own = six().with_(learning={"model": "own_models:Network"})
    (folder / "own.toml").write_text(scenario_text(own, anywhere=True))
    given = scenario_text(own, anywhere=True).replace("own_models:Network", "python:Network")
    (folder / "python.toml").write_text(given)
    (folder / "bad.toml").write_text("listen = \n")
    (folder / "unknown.toml").write_text('scenario = "scenario.toml"\nlisten_on = "here"\n')
    (folder / "typed.toml").write_text('scenario = "scenario.toml"\nseed = "first"\n')
    return folder


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.chdir(place)


EDGE = "edge edge-0 --scenario scenario.toml --ca edge-edge-0/ca.pem --allow-code --check"
DEVICE = (
    "device device-0 --scenario scenario.toml --data data/device-0.npz"
    " --ca device-device-0/ca.pem --allow-code --check"
)
COORDINATOR = (
    "coordinator scenario.toml --edges 127.0.0.1:7100,127.0.0.1:7101 --data data/server.npz"
    " --ca coordinator-coordinator/ca.pem --allow-code --check"
)


EDGE0 = " --certificate edge-edge-0/edge-0.pem --key edge-edge-0/edge-0.key"
EDGE1 = "--certificate edge-edge-1/edge-1.pem --key edge-edge-1/edge-1.key"
DEVICE0 = "--certificate device-device-0/device-0.pem --key device-device-0/device-0.key"


@pytest.mark.parametrize("line", [EDGE, DEVICE, COORDINATOR])
def test_nothing_is_wrong(line, capsys):
    assert main(line.split()) == 0
    said = capsys.readouterr()
    name = line.split()[0 if line == COORDINATOR else 1]
    belongs = "; it belongs to edge-0" if line == DEVICE else ""
    assert said.out == f"{name}: nothing is wrong{belongs}\n"
    assert said.err == ""


def unallowed(line):
    """The command with code of one's own in the scenario that it does not let be loaded."""
    return line.replace(" --allow-code", "").replace("scenario.toml", "own.toml")


CASES = {
    "bad TOML": (f"{EDGE} --config bad.toml", "bad.toml: is not TOML"),
    "no such file": (f"{EDGE} --config none.toml", "none.toml"),
    "unknown setting": (f"{EDGE} --config unknown.toml", "listen_on"),
    "wrong type": (EDGE.replace(" --scenario scenario.toml", "") + " --config typed.toml", "seed"),
    "no scenario": (EDGE.replace(" --scenario scenario.toml", ""), "scenario"),
    "unknown edge": (EDGE.replace("edge edge-0", "edge edge-7") + EDGE0, "edge-0 to edge-1"),
    "no number": (EDGE.replace("edge edge-0", "edge kitchen") + EDGE0, "edge-0 to edge-1"),
    "missing certificate": (f"{EDGE} --certificate none.pem", "none.pem"),
    "missing key": (f"{EDGE} --key none.key", "none.key"),
    "another role": (f"{EDGE} {DEVICE0}", "is the certificate of device device-0"),
    "another edge": (f"{EDGE} {EDGE1}", "is the certificate of edge edge-1"),
    "port": (f"{EDGE} --listen 127.0.0.1:70000", "HOST:PORT"),
    "no port": (f"{EDGE} --listen 127.0.0.1", "HOST:PORT"),
    "metrics": (f"{EDGE} --metrics 99999", "PORT or HOST:PORT"),
    "seed": (f"{EDGE} --seed -1", "seed"),
    "no normalisation": (DEVICE.replace("scenario.toml", "plain.toml"), "normalise"),
    "bits": (EDGE.replace("scenario.toml", "bits.toml"), 'model_bits = "measured": must be a numb'),
    "bits in a run": (COORDINATOR.replace("scenario.toml", "bits.toml"), "`fedrt data split` prin"),
    "cycles": (DEVICE.replace("scenario.toml", "cycles.toml"), 'fleet.cycles_per_sample = "meas'),
    "state": (f"{EDGE} --state scenario.toml", 'state = "scenario.toml": must be a folder'),
    "state in a file": (f"{DEVICE} --state scenario.toml/a/b", "scenario.toml is none"),
    "another's data": (f"{DEVICE} --data data/device-1.npz", "is the file of device 1"),
    "server's data": (f"{DEVICE} --data data/server.npz", "is the file of the server"),
    "no data": (f"{DEVICE} --data none.npz", "fedrt data split"),
    "data of another seed": (f"{DEVICE} --seed 1", "seed"),
    "device's data": (f"{COORDINATOR} --data data/device-1.npz", "is the file of device 1"),
    "too few edges": (f"{COORDINATOR} --edges 127.0.0.1:7100", "2 edge servers"),
    "factor": (f"{COORDINATOR} --deadline-factor 0", "deadline_factor"),
    "coordinator": (f"{EDGE} --coordinator No.1", 'coordinator = "No.1": must be'),
    "own code at an edge": (unallowed(EDGE), "--allow-code"),
    "own code at a device": (unallowed(DEVICE), "--allow-code"),
    "own code in a run": (unallowed(COORDINATOR), "--allow-code"),
    "no such code": (EDGE.replace("scenario.toml", "own.toml"), "cannot be imported"),
    "python's code": (EDGE.replace("scenario.toml", "python.toml"), "Python program"),
    "unknown policy": (f"{COORDINATOR} --policy best", "best"),
}


@pytest.mark.parametrize(
    ("line", "words"),
    list(CASES.values()),
    ids=list(CASES),
)
def test_a_wrong_setting_is_one_line(line, words, capsys, place):
    before = sorted(place.rglob("*"))
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert words in said.err
    assert sorted(place.rglob("*")) == before


def test_what_is_measured_is_refused_by_parties_that_start(capsys, place):
    line = COORDINATOR.replace("scenario.toml", "bits.toml").removesuffix(" --check")
    before = sorted(place.rglob("*"))
    assert main([*line.split(), "--out", "run"]) == 2
    assert "model_bits" in capsys.readouterr().err
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "setting"), [(EDGE, "listen"), (EDGE, "metrics"), (DEVICE, "metrics")]
)
def test_a_port_in_use_is_one_line(line, setting, capsys, place):
    before = sorted(place.rglob("*"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main([*line.split(), f"--{setting}", address]) == 2
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        f'{setting} = "{address}": cannot be listened on: Address already in use'
    ]
    assert sorted(place.rglob("*")) == before
    assert main([*line.split(), f"--{setting}", address]) == 0


def written(folder):
    """Which file is at every path, and when it was last written: reading changes neither."""
    found = {path: path.stat() for path in folder.rglob("*")}
    return {path: (one.st_ino, one.st_mtime_ns, one.st_size) for path, one in found.items()}


def test_the_folder_of_another_run_is_one_line(capsys, tmp_path):
    asked = RunOptions(engine=DEVICES)
    for name, seed in (("same", 0), ("other", 5)):
        identity = identity_of(six(), ["fedrt"], [seed], asdict(asked))
        RunDirectory.create(tmp_path / name, six(), "fedrt", seed, "", asdict(asked), identity)
    (tmp_path / "else").mkdir()
    before = written(tmp_path)
    line = [*COORDINATOR.split(), "--allow-code", "--out"]
    assert main([*line, str(tmp_path / "same")]) == 0
    capsys.readouterr()
    for name, words in (("other", "cannot go on"), ("else", "run directory")):
        assert main([*line, str(tmp_path / name)]) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert words in said
    assert written(tmp_path) == before


def test_all_problems_at_once(capsys):
    assert main(f"{EDGE} --certificate none.pem --listen here".split()) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_options_come_before_the_environment_and_that_before_the_file(place, monkeypatch):
    lines = ('scenario = "scenario.toml"', 'listen = "1.1.1.1:1"', "seed = 3", 'state = "kept"')
    (place / "edge.toml").write_text("\n".join([*lines, 'metrics = "9"']))
    monkeypatch.setenv("FEDRT_EDGE_LISTEN", "2.2.2.2:2")
    monkeypatch.setenv("FEDRT_EDGE_SEED", "4")
    monkeypatch.setenv("FEDRT_EDGE_LOG_JSON", "true")
    found = read_settings(EdgeSettings, {"listen": "3.3.3.3:3"}, place / "edge.toml", "edge-1")
    assert (found.listen, found.seed, found.metrics) == ("3.3.3.3:3", 4, "9")
    assert found.log_json is True
    assert found.state == place / "kept"
    assert found.scenario == six()
