"""The settings of the physical layer: what is read, and every wrong one as one line."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.laws import EVERY_LAW, SETTINGS
from support.tiny import as_options, tiny

import fedrt
from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.scenario import preset_names, read_scenario, scenario_text
from fedrt.scenario.load import load_scenario
from fedrt.scenario.physical import rate_law
from fedrt.world.simulated import SimulatedWorld

NOISE = "channel.law=noise-density"
WRONG = {
    "a law of its own": ("channel.law=shannon", 'scenario.channel.law = "shannon": must be one of'),
    "an SNR for a gain": (
        NOISE,
        "scenario.channel.high_db = 15: must be a finite number >= -300 and <= 0, as a gain; or"
        " give scenario.channel.reference_hz, over which it is an SNR",
    ),
    "a reference without noise": (
        "channel.reference_hz=1e6",
        'scenario.channel.reference_hz: only goes with law = "noise-density"',
    ),
    "a density without noise": (
        "channel.noise_dbm_per_hz=-170",
        'scenario.channel.noise_dbm_per_hz: only goes with law = "noise-density"',
    ),
    "a figure without noise": (
        "channel.noise_figure_db=3",
        'scenario.channel.noise_figure_db: only goes with law = "noise-density"',
    ),
    "power without noise": (
        "channel.power_control=true",
        'scenario.channel.power_control: only goes with law = "noise-density"',
    ),
    "noise twice": (
        'channel={law="noise-density",reference_hz=1e6,noise_figure_db=3}',
        "scenario.channel.noise_figure_db: give it or reference_hz, not both",
    ),
    "a loud noise": (
        'channel={law="noise-density",noise_dbm_per_hz=30}',
        "scenario.channel.noise_dbm_per_hz = 30: must be a finite number >= -250 and <= 0",
    ),
    "no reference": (
        'channel={law="noise-density",reference_hz=0}',
        "scenario.channel.reference_hz = 0: must be a finite number >= 1e-06",
    ),
    "an SNR of a gain": (
        'channel={kind="gauss-markov",mean_db=-120,std_db=1,correlation=0.5}',
        "scenario.channel.mean_db = -120: must be a finite number >= -100 and <= 100, as an SNR",
    ),
    "a gain at a metre": (
        'channel={kind="path-loss",snr_at_1m_db=40,law="noise-density"}',
        "scenario.channel.snr_at_1m_db = 40: must be a finite number >= -300 and <= 0, as a gain",
    ),
    "no block": ("bandwidth.block_hz=0", "scenario.bandwidth.block_hz = 0: must be a finite"),
    "no server": ("downlink={hz=1e6}", "scenario.downlink.tx_power_w: missing"),
    "a silent server": ("downlink={tx_power_w=0}", "scenario.downlink.tx_power_w = 0: must be"),
    "a band of nothing": (
        "downlink={tx_power_w=1,hz=-1}",
        "scenario.downlink.hz = -1: must be a finite number >= 1e-06",
    ),
    "no bits": ("downlink={tx_power_w=1,bits=0}", "scenario.downlink.bits = 0: must be"),
    "half the devices": (
        "downlink={tx_power_w=1,snr_db=[1,2]}",
        "scenario.downlink.snr_db has 2 values: must be one for all or one per device (7)",
    ),
    "a wrong name": (
        "downlink={tx_power_w=1,bandwidth=1}",
        "scenario.downlink.bandwidth: unknown field",
    ),
    "shorter": ("overheads={header_factor=0.5}", "scenario.overheads.header_factor = 0.5: must be"),
    "back in time": (
        "overheads={round_trip_s=-1}",
        "scenario.overheads.round_trip_s = -1: must be",
    ),
    "words": ('overheads={aggregation_s="x"}', 'scenario.overheads.aggregation_s = "x": must be'),
    "not a table": ("overheads=3", "scenario.overheads = 3: must be a table"),
    "negative idling": ("fleet.idle_power_w=-1", "scenario.fleet.idle_power_w = -1: must be"),
    "too few listeners": (
        "fleet.rx_power_w=[1,2]",
        "scenario.fleet.rx_power_w has 2 values: must be one for all or one per device (7)",
    ),
    "no points": (
        "fleet.cpu_table={}",
        "scenario.fleet.cpu_table: must have hz, and power_w or joules_per_cycle; or file",
    ),
    "both forms": (
        "fleet.cpu_table={hz=[2e9],power_w=[1],joules_per_cycle=[1e-9]}",
        "scenario.fleet.cpu_table: must have hz, and power_w or joules_per_cycle; or file",
    ),
    "a file and points": (
        'fleet.cpu_table={file="a.csv",hz=[2e9]}',
        "scenario.fleet.cpu_table: must have file, or hz and power_w, not both",
    ),
    "unequal": (
        "fleet.cpu_table={hz=[2e9,3e9],power_w=[1]}",
        "scenario.fleet.cpu_table.power_w has 1 values: must be one for each of hz (2)",
    ),
    "no watts": (
        "fleet.cpu_table={hz=[2e9],power_w=[0]}",
        "scenario.fleet.cpu_table.power_w[0] = 0: must be a finite number > 0",
    ),
    "twice": (
        "fleet.cpu_table={hz=[2e9,2e9],power_w=[1,2]}",
        "scenario.fleet.cpu_table: gives a frequency twice: must give each once",
    ),
    "out of reach": (
        "fleet.cpu_table={hz=[1e9],power_w=[1]}",
        "scenario.fleet.cpu_table: must have a frequency from cpu_min_hz = 2e+09 to",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_setting_is_one_line(what, capsys, tmp_path):
    setting, words = WRONG[what]
    command = ["estimate", "quickstart", *as_options(setting), "--out", str(tmp_path / "out")]
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(words)
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("preset", [n for n in preset_names() if not n.startswith("bench/")])
def test_the_papers_snrs_are_no_gains_and_the_line_says_what_to_give(preset):
    with pytest.raises(InputError) as caught:
        load_scenario(preset, [NOISE])
    assert all("give scenario.channel.reference_hz" in line for line in caught.value.lines)
    assert load_scenario(preset, [NOISE, "channel.reference_hz=1e5"])


def test_a_radio_without_power_has_no_ratio():
    for setting in ((NOISE, "channel.reference_hz=1e6"), ("downlink={tx_power_w=1}",)):
        with pytest.raises(InputError) as caught:
            tiny("fleet.tx_power_w=0", *setting)
        (line,) = caught.value.lines
        assert line.startswith("scenario.fleet.tx_power_w = 0: must be > 0 with ")
    tiny("fleet.tx_power_w=0", "downlink={tx_power_w=1,snr_db=10}")


@pytest.mark.parametrize("law", [*SETTINGS, "every"])
def test_a_scenario_is_written_and_read_again(law):
    scenario = tiny(*(EVERY_LAW if law == "every" else SETTINGS[law]))
    assert read_scenario(scenario_text(scenario)) == scenario
    assert scenario.with_() == scenario


def test_python_code_changes_a_law():
    quick = fedrt.scenario("quickstart")
    noisy = quick.with_(channel={"law": "noise-density", "reference_hz": 1e5})
    assert rate_law(noisy.channel).spreads_noise
    assert noisy.channel.low_db == 0
    assert noisy == load_scenario("quickstart", [NOISE, "channel.reference_hz=1e5"])
    assert noisy.with_(channel={"law": None, "reference_hz": None}) == quick
    more = quick.with_(
        downlink={"tx_power_w": 1.0},
        overheads={"round_trip_s": 0.1},
        bandwidth={"block_hz": 15e3},
        fleet={"idle_power_w": np.full(20, 0.1)},
    )
    assert more.fleet.idle_power_w.values == (0.1,) * 20
    assert more.with_(downlink=None, overheads=None).downlink is None
    table = {"hz": [4e8, 6e8], "power_w": [0.1, 0.3]}
    assert quick.with_(fleet={"cpu_table": table}).fleet.cpu_table.hz == (4e8, 6e8)


def test_a_scenario_without_them_says_nothing_of_them():
    text = scenario_text(load_scenario("quickstart"))
    for name in ("law", "block_hz", "downlink", "overheads", "idle_power_w", "cpu_table"):
        assert name not in text


def test_gains_and_snrs_give_the_same_ratios():
    """0.01 W at -100 dB over -174 dBm/Hz: 10^(-12) / 10^(-20.4) = 10^8.4 Hz; 24 dB over 1 MHz."""
    gains = tiny('channel={kind="uniform",low_db=-100,high_db=-100,law="noise-density"}')
    snrs = tiny(
        'channel={kind="uniform",low_db=24,high_db=24,law="noise-density",reference_hz=1e6}'
    )
    for scenario in (gains, snrs):
        seen = SimulatedWorld(scenario, 0).observe(0, 0)
        assert_allclose(seen.laws.cn0_hz, 10**8.4, rtol=1e-12)
        # An even share of 1 MHz among 2, 3 and 2 devices.
        assert_allclose(seen.snr, 10**2.4 * np.array([2, 2, 3, 3, 3, 2, 2]), rtol=1e-12)


def test_ratios_beyond_any_radio_are_cut_off():
    for level, ends in ((-300, 1.0), (0, 1e20)):
        text = f'channel={{kind="uniform",low_db={level},high_db={level},law="noise-density"}}'
        more = "channel.noise_dbm_per_hz=-250"
        seen = SimulatedWorld(tiny(text, more, "fleet.tx_power_w=0.1"), 0).observe(0, 0)
        assert_allclose(seen.laws.cn0_hz, ends)


def test_a_broadcast_by_hand():
    """SNR 10 over 0.01 W, a server of 0.07 W: 70. Over 1 MHz 8e6 bits at log2(71) bit/s/Hz."""
    fixed = 'channel={kind="uniform",low_db=10,high_db=10}'
    seen = SimulatedWorld(tiny(fixed, "downlink={tx_power_w=0.07}"), 0).observe(0, 0)
    assert_allclose(seen.laws.listen_s, 8 / np.log2(71), rtol=1e-12)
    # Another bandwidth, another length, longer by a header; SNRs of its own.
    own = "downlink={tx_power_w=0.07,hz=2e6,bits=1e6,snr_db=[0,0,10,10,10,20,20]}"
    seen = SimulatedWorld(tiny(fixed, own, "overheads={header_factor=1.5}"), 0).observe(0, 0)
    ratio = np.array([1, 1, 10, 10, 10, 100, 100])
    assert_allclose(seen.laws.listen_s, 1.5 / (2 * np.log2(1 + ratio)), rtol=1e-12)
    # With noise spread, C/N0 = 10 x 3e5 Hz, seven times as loud, over the whole 1 MHz.
    noisy = (fixed, NOISE, "channel.reference_hz=3e5", "downlink={tx_power_w=0.07}")
    seen = SimulatedWorld(tiny(*noisy), 0).observe(0, 0)
    assert_allclose(seen.laws.listen_s, 8 / np.log2(1 + 21), rtol=1e-12)


def test_overheads_reach_every_message():
    scenario = tiny("overheads={header_factor=2,round_trip_s=0.25,aggregation_s=1}")
    world = SimulatedWorld(scenario, 0)
    seen = world.observe(0, 0)
    assert_array_equal(seen.upload_bits, 16e6)
    assert (seen.gossip_bits, seen.model_bits) == (16e6, 8e6)
    assert seen.laws.overhead_s == 1.25
    both = SimulatedWorld(tiny("overheads.round_trip_s=0.25", "downlink={tx_power_w=1}"), 0)
    assert both.observe(0, 0).laws.overhead_s == 0.5


def test_a_channel_of_ones_own_has_a_law_too():
    channel = {"kind": "support.laws:Steady", "law": "noise-density", "level": -100.0}
    seen = SimulatedWorld(tiny().with_(channel=channel), 0).observe(0, 0)
    assert_allclose(seen.laws.cn0_hz, 10**8.4, rtol=1e-12)
    with pytest.raises(InputError, match=r"scenario\.channel\.law = 3: must be one of"):
        tiny().with_(channel=channel | {"law": 3})
