"""A device measured for its class: fits by hand, the class as TOML, and real uploads."""

from __future__ import annotations

import tomllib

import pytest
from support.parties import six, split
from support.running import running

import fedrt
from fedrt.cli import main
from fedrt.devices.calibration.fit import fit_steps
from fedrt.devices.calibration.network import UploadTimes
from fedrt.devices.calibration.result import Calibration
from fedrt.devices.calibration.training import measure_steps
from fedrt.scenario import load_scenario, scenario_text


def test_steps_that_take_their_time_over_the_share():
    found = fit_steps({1.0: [0.2, 0.2], 0.5: [0.4], 0.1: [2.0]})
    assert found.full_s == pytest.approx(0.2)
    assert found.worst_error == pytest.approx(0, abs=1e-12)
    assert found.spread == 0
    assert (found.fixed_s, found.scaled_s) == pytest.approx((0, 0.2))
    # 0.2 s at 1 GHz are 2e8 cycles, for 16 samples
    assert found.cycles_per_sample(1e9, 16) == pytest.approx(2e8 / 16)


def test_a_fixed_part_of_a_step_is_found():
    found = fit_steps({share: [0.03 + 0.1 / share] for share in (1.0, 0.5, 0.2)})
    assert (found.fixed_s, found.scaled_s) == pytest.approx((0.03, 0.1))
    assert found.r_squared == pytest.approx(1)
    # Without it: u = 1 / (x s) is 1/0.13, 1/0.115 and 1/0.106, and full_s is sum(u) / sum(u^2).
    u = [1 / 0.13, 1 / 0.115, 1 / 0.106]
    full_s = sum(u) / sum(each**2 for each in u)
    assert found.full_s == pytest.approx(full_s)
    assert found.worst_error == pytest.approx(1 - full_s / 0.13)


def test_one_share_and_how_far_measurements_lie_apart():
    found = fit_steps({1.0: [0.12, 0.1, 0.11]})
    assert found.spread == pytest.approx(0.02 / 0.11)
    assert found.full_s == pytest.approx(0.1)  # nothing makes a step shorter than it is
    assert found.worst_error == pytest.approx(1 - 0.1 / 0.12)
    assert found.fixed_s is None


def test_measurements_take_long_enough_and_shares_take_turns():
    done = []

    def train(steps, share):
        done.append((steps, share))
        return steps * 0.01 / share

    found = measure_steps(train, [1.0, 0.25], 0.5, 2)
    assert found == {1.0: pytest.approx([0.01] * 2), 0.25: pytest.approx([0.04] * 2)}
    # 0.5 s are 50 steps of 10 ms, and 12.5 of 40 ms
    assert done[2:] == [(50, 1.0), (13, 0.25)] * 2


def made(**more):
    seconds = {1.0: [0.02], 0.5: [0.041]}
    given = {"cpu": "duty", "cpu_share": 0.5, "cpu_max_hz": 4e9, "batch_size": 10}
    given |= {"seconds": seconds, "fit": fit_steps(seconds), "tls_factor": 1.002}
    return Calibration(**({"device": "device-1", "edge": 0, "update_bytes": 1000} | given | more))


def test_the_class_reads_back_in_a_scenario(tmp_path):
    upload = UploadTimes(1_000_000, [1.01, 1.02, 0.9], 0.01)
    found = made(upload=upload, radio_bps=1e7, notes=["a note"], watts={1.0: 3.0})
    assert found.header_factor == pytest.approx(1.002 * 1514 / 1448)
    # 8 Mbit with headers in a second without the round trip, of 10 Mbit/s
    assert found.efficiency == pytest.approx(0.8 * found.header_factor)
    text = found.text()
    assert "3 W" in text
    assert "a note" in text
    whole = scenario_text(six("fleet.num_edges=1", "fleet.cluster_sizes=[6]"), anywhere=True)
    path = tmp_path / "scenario.toml"
    path.write_text(f'{whole}\n{text}\n[[fleet.classes]]\nname = "others"\n')
    read = load_scenario(path)
    assert read.overheads.header_factor == pytest.approx(found.header_factor, rel=1e-4)
    assert read.overheads.round_trip_s == pytest.approx(0.01)
    first = read.fleet.classes[0]
    assert (first.name, first.count, first.edges) == ("device-1", 1, (0,))
    cycles = tomllib.loads(text)["fleet"]["classes"][0]["cycles_per_sample"]
    assert cycles == pytest.approx(found.cycles_per_sample, rel=1e-5)


def test_a_share_is_judged_by_its_median():
    # One measurement of three that is twice as long is a hiccup; two of three are the device.
    once = fit_steps({1.0: [0.1, 0.1, 0.2], 0.5: [0.2, 0.2, 0.2]})
    assert (once.worst_error, once.typical_error) == pytest.approx((0.5, 0))
    twice = fit_steps({1.0: [0.1, 0.2, 0.2], 0.5: [0.2, 0.2, 0.2]})
    assert twice.typical_error == pytest.approx(0.5)
    # One that is short by chance counts as the least, and makes all others long.
    short = fit_steps({1.0: [0.1, 0.249, 0.25]})
    assert short.typical_error == pytest.approx(1 - 0.1 / 0.249)


BAD = {
    "busy": ({1.0: [0.1, 0.249, 0.25]}, "measurements at one share lie 60 % apart"),
    # 0.09 + 0.01 / x
    "fixed": ({1.0: [0.1], 0.25: [0.13]}, "one over the share: 90 % of it at full speed is the"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_fit_is_one_line_and_writes_nothing(kind, tmp_path, monkeypatch, capsys):
    seconds, why = BAD[kind]
    monkeypatch.setattr("fedrt.devices.calibration.run.measure_steps", _measured(seconds))
    words = [word for word in arguments(tmp_path, "--cpu", "duty") if word != "--anyway"]
    for out in ([], ["--out", str(tmp_path / "class.toml")]):
        assert main([*words, *out]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        (line,) = printed.err.splitlines()
        assert line.startswith("device-0: the fit is ")
        assert why in line
        assert line.endswith("or for more --seconds; --anyway takes it as it is")
        assert not (tmp_path / "class.toml").exists()
        assert main([*words, *out, "--anyway"]) == 0
        capsys.readouterr()
    text = (tmp_path / "class.toml").read_text()
    assert f"# {line.partition(';')[0]}"[:40] in text
    assert tomllib.loads(text)["fleet"]["classes"][0]["cycles_per_sample"] > 0


def _measured(seconds):
    def measure(train, *_):
        train(1, 1.0)
        return seconds

    return measure


SHORT = {"shares": [1.0, 0.5], "seconds": 0.01, "repeats": 2, "meter": "none", "anyway": True}


def test_a_device_is_measured_with_its_edge_server(tmp_path, capfd):
    with running(tmp_path, six()) as fleet:
        fleet.start_edge(0)
        given = fleet.given("device", "device-1")
        name, scenario = given.pop("name"), given.pop("scenario_file")
        data, state = tmp_path / "data" / "device-1.npz", tmp_path / "of" / "state"
        own = {"scenario": scenario, "data": data, "state": state, "out": tmp_path / "class.toml"}
        edge = fleet.addresses[0]
        found = fedrt.calibrate(name, edge=edge, cpu="duty", cpu_share=0.5, **own, **SHORT, **given)
    assert found.path.read_text() == found.text()
    assert set(found.seconds) == {1.0, 0.5}
    assert (found.cpu, found.cpu_share) == ("duty", 0.5)
    assert found.upload.length == found.update_bytes > 1000
    assert len(found.upload.seconds) == 2
    assert 1 < found.tls_factor < 2
    assert found.efficiency > 0
    assert found.notes == []
    assert not state.parent.exists()
    assert "Traceback" not in capfd.readouterr().err


def arguments(tmp_path, *more):
    (tmp_path / "scenario.toml").write_text(scenario_text(six(), anywhere=True))
    split(tmp_path, six())
    return [
        *("calibrate", "device-0", "--scenario", str(tmp_path / "scenario.toml"), "--allow-code"),
        *("--data", str(tmp_path / "device-0.npz"), "--state", str(tmp_path / "state")),
        *(
            "--ca",
            str(tmp_path / "ca.pem"),
            "--seconds",
            "0.01",
            "--repeats",
            "1",
            "--anyway",
            *more,
        ),
    ]


def test_without_certificates_nothing_is_uploaded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fedrt.devices.calibration.run.BUSY", -1.0)
    assert main(arguments(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "# no upload to the edge server was measured: " in said
    assert "# the CPU cannot be held to a share: measured at full speed alone" in said
    assert "# the machine was busy: training waited for the CPU " in said
    assert "efficiency" not in said
    assert tomllib.loads(said)["fleet"]["classes"][0]["name"] == "device-0"


def test_a_device_that_waits_to_keep_its_pace_is_not_called_busy(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fedrt.devices.calibration.run.BUSY", -1.0)
    words = arguments(tmp_path, "--cpu", "duty", "--core-step-s")
    for pace, busy in (("0", True), ("0.01", False)):
        assert main([*words, pace]) == 0
        assert ("the machine was busy" in capsys.readouterr().out) is busy


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (("--shares", "0,1"), "--shares[0] = 0.0: must be"),
        (("--shares", "half"), '--shares[0] = "half": must be'),
        (("--repeats", "0"), "--repeats = 0: must be"),
        (("--cpu", "magic"), 'settings.cpu = "magic": must be'),
        (("--data", "nowhere.npz"), "nowhere.npz"),
        (("--out", "scenario.toml"), "scenario.toml: exists already; give another --out"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, more, line):
    monkeypatch.chdir(tmp_path)
    assert main(arguments(tmp_path, *more)) == 2
    said = capsys.readouterr().err
    assert line in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "state").exists()


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def stopped(train, *_):
        train(1, 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr("fedrt.devices.calibration.run.measure_steps", stopped)
    command = arguments(tmp_path, "--cpu", "duty", "--out", str(tmp_path / "class.toml"))
    before = sorted(tmp_path.iterdir())
    assert main(command) == 130
    assert sorted(tmp_path.iterdir()) == before
