"""`fedrt plan` under other laws than the paper's: what is read, answered and refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.states import DEVICE_LAWS, LAWS, random_state

from fedrt.cli import main
from fedrt.decision import plan_round, read_state
from fedrt.errors import InputError
from fedrt.scenario.sizes import message_bits
from fedrt.world.laws import PAPER


def devices_of(state):
    return [device for edge in state["edges"] for device in edge["devices"]]


def changed(every=(), /, *, version=2, seed=0, **fields):
    """A state of version 2 with further fields, and some for every device."""
    state = random_state(seed) | {"schema_version": version} | fields
    for device in devices_of(state):
        for name, value in dict(every).items():
            device.pop(name, None)
            if value is not None:
                device[name] = value
    return state


EVERY, WHOLE = {"snr_db": None} | DEVICE_LAWS, LAWS


def test_a_state_without_them_has_the_papers_laws():
    seen = read_state(random_state(0)).seen
    assert seen.laws.is_paper
    for name in vars(PAPER):
        value = getattr(seen.laws, name, None)
        assert value is None or value == getattr(PAPER, name)
    assert (seen.upload_bits == seen.model_bits).all()
    assert seen.gossip_bits == seen.model_bits


def test_all_of_them_are_read():
    seen = read_state(changed(EVERY, **WHOLE)).seen
    laws = seen.laws
    assert_allclose(laws.cn0_hz, 1e6)
    # Four devices share 1 MHz: C/N0 over a quarter of it.
    assert_allclose(seen.snr, 4.0)
    assert laws.power_control
    assert laws.block_hz == 15e3
    # 5.6e6 bits and a quarter more at 7e6 bit/s take a second.
    assert_allclose(laws.listen_s, 1.0)
    assert_allclose([laws.rx_power_w[3], laws.idle_power_w[3]], [0.2, 0.01])
    # A broadcast, an upload, and averaging.
    assert laws.overhead_s == pytest.approx(0.5)
    assert_allclose(seen.upload_bits, 1.4e7 * 1.25)
    assert seen.gossip_bits == 1.4e7 * 1.25
    assert seen.backhaul.latency_s == 0.05
    # 0.5 / 1e9, 1.2 / 2e9 and 2.7 / 3e9 J per cycle.
    assert_allclose(laws.cpu.j_per_cycle, [0.9e-9, 0.6e-9, 0.5e-9])
    assert_allclose(seen.cpu_min_hz, 1e9)


def test_points_that_are_never_efficient_are_named(tmp_path, capsys):
    tables = {"phone": {"hz": [1e9, 1.5e9, 3e9], "power_w": [0.5, 2.0, 2.7]}}
    path = tmp_path / "state.json"
    path.write_text(json.dumps(changed({"cpu_table": "phone"}, cpu_tables=tables)))
    assert main(["plan", str(path), "--policy", "ce-fedavg"]) == 0
    rest = "between cpu_min_hz and cpu_max_hz, and not used\n"
    words = "note: state.cpu_tables.phone: 1 of its 3 points is never efficient "
    assert capsys.readouterr().err == words + rest


def test_powers_that_only_some_devices_have_are_nought_elsewhere():
    state = changed({"downlink_bps": 1e6})
    devices_of(state)[2]["rx_power_w"] = 0.3
    laws = read_state(state).seen.laws
    assert laws.rx_power_w[2] == 0.3
    assert laws.rx_power_w.sum() == 0.3
    assert laws.idle_power_w is None


def test_the_answer_says_what_the_paper_has_not():
    answer = plan_round(changed(EVERY, **WHOLE), "ce-fedavg")
    state = read_state(changed(EVERY, **WHOLE))
    for c, edge in enumerate(answer["edges"]):
        for device in edge["devices"]:
            assert device["tx_power_w"] == 0.01
            assert device["download_s"] == pytest.approx(1.0)
            assert device["download_j"] == pytest.approx(0.2)
            busy_s = device["download_s"] + device["compute_s"] + device["upload_s"]
            assert device["idle_j"] == pytest.approx(0.01 * (edge["time_s"] - busy_s))
            assert device["bandwidth_hz"] % 15e3 == 0
            # 0.01 W for the upload's seconds.
            rest = device["energy_j"] - 0.2 - device["idle_j"] - 0.01 * device["upload_s"]
            cycles = state.seen.cycles[4 * c + edge["devices"].index(device)]
            assert 0.5e-9 * (1 - 1e-12) <= rest / cycles <= 0.9e-9 * (1 + 1e-12)
        assert edge["time_s"] >= max(d["compute_s"] for d in edge["devices"]) + 1.5
    json.dumps(answer, allow_nan=False)


def test_the_answer_to_the_paper_has_nothing_more():
    (device, *_) = plan_round(changed(), "fedrt")["edges"][0]["devices"]
    assert not {"tx_power_w", "download_s", "download_j", "idle_j"} & device.keys()


def test_latency_comes_with_every_gossip_step():
    without = plan_round(changed(), "ce-fedavg")
    late = plan_round(changed(round_trip_s=0.1), "ce-fedavg")
    for one, other in zip(without["edges"], late["edges"], strict=True):
        assert other["backhaul_s"] == pytest.approx(one["backhaul_s"] + 10 * 0.1)
        assert other["time_s"] == pytest.approx(one["time_s"] + 0.1)


DEVICE = "state.edges[0].devices[0]"
WRONG = {
    "a law in version 1": (
        changed(version=1, block_hz=1e4),
        'state: block_hz needs "schema_version": 2 in the state',
    ),
    "a device's in version 1": (
        changed({"idle_power_w": 1}, version=1),
        'state: idle_power_w needs "schema_version": 2 in the state',
    ),
    "no block": (changed(block_hz=0), "state.block_hz = 0: must be a finite number >= 1e-06"),
    "a shorter header": (changed(header_factor=0.9), "state.header_factor = 0.9: must be"),
    "a word": (changed(power_control="yes"), 'state.power_control = "yes": must be true or false'),
    "power without noise": (
        changed(power_control=True),
        "state.power_control: only goes with cn0_hz of every device",
    ),
    "bits of nothing": (
        changed(download_bits=1e6),
        "state.download_bits: only goes with downlink_bps of every device",
    ),
    "back in time": (changed(round_trip_s=-1), "state.round_trip_s = -1: must be"),
    "both": (changed({"cn0_hz": 1e6}), "state: cn0_hz and snr_db are given: must be one of them"),
    "no tables": (changed(cpu_tables=[1]), "state.cpu_tables = [1]: must be at most 1000 tables"),
    "half a table": (
        changed(cpu_tables={"a": {"hz": [1e9]}}),
        "state.cpu_tables.a: must have hz, and power_w or joules_per_cycle",
    ),
    "a file": (
        changed(cpu_tables={"a": {"file": "/etc/passwd"}}),
        "state.cpu_tables.a.file: must be given as hz, and power_w or joules_per_cycle",
    ),
    "unequal": (
        changed(cpu_tables={"a": {"hz": [1e9, 2e9], "power_w": [1]}}),
        "state.cpu_tables.a.power_w has 1 values: must be one for each of hz (2)",
    ),
    "an unknown table": (
        changed({"cpu_table": "phone"}),
        'state.cpu_tables: has no table "phone" of a device',
    ),
    "too slow": (
        changed({"cpu_table": "a"}, cpu_tables={"a": {"hz": [1e8], "power_w": [1]}}),
        "state.cpu_tables.a: must have a frequency from cpu_min_hz = 1e+09 to cpu_max_hz = 3e+09",
    ),
    "no power": (
        changed({"snr_db": None, "cn0_hz": 1e6, "tx_power_w": 0}),
        "state: tx_power_w = 0: must be > 0 where cn0_hz is given",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_one_line(what, tmp_path, capsys):
    state, words = WRONG[what]
    with pytest.raises(InputError) as caught:
        read_state(state)
    (line,) = caught.value.lines
    assert line.startswith(words)
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state))
    assert main(["plan", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"{line}\n")


@pytest.mark.parametrize("name", ["cn0_hz", "downlink_bps"])
def test_what_all_devices_need_is_for_all_or_none(name):
    state = changed()
    device = devices_of(state)[0]
    device[name] = 1e6
    if name == "cn0_hz":
        del device["snr_db"]
    with pytest.raises(InputError) as caught:
        read_state(state)
    (line,) = caught.value.lines
    assert line == f"state: {name} is given for some devices: must be for all or for none"


@pytest.mark.parametrize("name", ["cn0_hz", "downlink_bps", "rx_power_w", "idle_power_w"])
@pytest.mark.parametrize("value", [-1, float("nan"), "much", None, True])
def test_a_devices_numbers_are_numbers(name, value):
    state = changed()
    device = devices_of(state)[0]
    device[name] = value
    with pytest.raises(InputError) as caught:
        read_state(state)
    assert caught.value.lines[0].startswith(f"{DEVICE}.{name} = ")


def test_an_edge_with_fewer_blocks_than_devices_is_named():
    state = changed(block_hz=260e3)
    state["edges"][2]["bandwidth_hz"] = 2e6
    with pytest.raises(InputError) as caught:
        read_state(state)
    rest = "has 3 whole blocks of block_hz = 260000 for 4 devices: must be one for each"
    edges = [c for c in range(5) if c != 2]
    assert caught.value.lines == [f"state.edges[{c}].bandwidth_hz = 1e+06: {rest}" for c in edges]


def test_just_enough_blocks_are_enough():
    """1e6 Hz are four blocks of 0.25e6 Hz for four devices."""
    assert read_state(changed(block_hz=0.25e6)).seen.laws.block_hz == 0.25e6


@pytest.mark.parametrize("factor", [None, 1.25])
def test_messages_of_a_menu_have_headers_only_where_the_state_gives_them(factor):
    given = {} if factor is None else {"header_factor": factor}
    seen = read_state(changed(codecs=["int4", "int8"], distortion_limit=0.1, **given)).seen
    bits = dict(zip(seen.menu.names, seen.menu.bits, strict=True))
    for name in ("int4", "int8"):
        by_hand = message_bits(name, seen.model_bits, 0.0) * (factor or 1.0)
        assert bits[name] == pytest.approx(by_hand, rel=1e-12)
    assert seen.menu.limit == 0.1


def test_half_the_power_is_sent_at():
    """A plan of one's own with less power is carried out and answered."""
    from support.laws import Quiet

    answer = plan_round(changed(EVERY, **WHOLE), Quiet())
    full = plan_round(changed(EVERY, **WHOLE), "ce-fedavg")
    one, other = answer["edges"][0]["devices"][0], full["edges"][0]["devices"][0]
    assert one["tx_power_w"] == 0.005
    rate = np.log2(1 + 5e5 / one["bandwidth_hz"]), np.log2(1 + 1e6 / one["bandwidth_hz"])
    assert one["upload_s"] / other["upload_s"] == pytest.approx(rate[1] / rate[0])
