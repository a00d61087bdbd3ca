"""The worked examples of docs/cost-model.md are what the code computes."""

from __future__ import annotations

import numpy as np
import pytest
from support.paths import ROOT
from support.tiny import tiny

from fedrt.control.allocation.shares import even_split_hz
from fedrt.cost.round import price
from fedrt.cost.uplink import most_rate_bps, rate_bps
from fedrt.plan import Plan
from fedrt.scenario.physical import CpuTable, Overheads, RateLaw
from fedrt.world.cpu_tables import efficient_points, points_of
from fedrt.world.simulated import SimulatedWorld

PAGE = (ROOT / "docs" / "cost-model.md").read_text()
TEXT = " ".join(PAGE.split())


def example(title: str) -> str:
    """The worked example of a section, on one line."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return " ".join(section.partition("*Example.*")[2].partition("\n\n")[0].split())


def one(*settings):
    """The first edge round of two devices on one edge server of 1 MHz, 8 Mbit to send."""
    scenario = tiny(
        "fleet.num_edges=1",
        "fleet.num_devices=2",
        "fleet.cluster_sizes=even",
        "fleet.tx_power_w=0.1",
        "learning.model_bits=8e6",
        *settings,
    )
    return SimulatedWorld(scenario, 0).observe(0, 0)


def plan_of(seen, bandwidth_hz, power_w=None):
    shape = (seen.num_devices,)
    power = None if power_w is None else np.full(shape, power_w)
    steps, cpu_hz = np.full(shape, seen.local_steps), seen.cpu_max_hz
    return Plan("feasible", np.full(shape, bandwidth_hz), cpu_hz, steps, tx_power_w=power)


NOISE = (
    'channel={kind="uniform",low_db=10,high_db=10}',
    "channel.law=noise-density",
    "channel.reference_hz=125e3",
)


def test_rate():
    seen = one(*NOISE)
    cn0_hz = seen.laws.cn0_hz
    assert f"C = {cn0_hz[0] / 1e6:.3g} MHz" in example("Rate")
    for hz, words in (
        (125e3, "the rate is {:.0f} kbit/s under both"),
        (250e3, "{:.0f} kbit/s. No"),
    ):
        assert words.format(rate_bps(np.array([hz]), cn0_hz[:1])[0] / 1e3) in example("Rate")
    fixed = one(NOISE[0])
    upload_s = price(plan_of(fixed, 250e3), fixed).upload_s[0]
    assert f"promises {8e3 / upload_s:.0f} kbit/s" in example("Rate")
    assert f"gives {most_rate_bps(cn0_hz)[0] / 1e3:.0f} kbit/s" in example("Rate")
    gains = one('channel={kind="uniform",low_db=-110,high_db=-110,law="noise-density"}')
    assert gains.laws.cn0_hz[0] == pytest.approx(0.1 * 1e-11 / 10 ** (-20.4))
    loud = one(
        'channel={kind="uniform",low_db=-110,high_db=-110,law="noise-density",noise_figure_db=7}'
    )
    assert f"C = {loud.laws.cn0_hz[0] / 1e6:.1f} MHz." in example("Rate")
    assert RateLaw().noise_w_per_hz == pytest.approx(10**-20.4)


def test_power_control():
    seen = one(*NOISE, "channel.power_control=true")
    full, half = (price(plan_of(seen, 250e3, power_w), seen) for power_w in (0.1, 0.05))
    words = f"takes {full.upload_s[0]:.1f} s and {full.upload_j[0]:.2f} J"
    assert words in example("Power control")
    assert f"{half.upload_s[0]:.1f} s and {half.upload_j[0]:.3f} J" in example("Power control")


def test_resource_blocks():
    seen = one("fleet.num_devices=3", "bandwidth.block_hz=180e3")
    hz = even_split_hz(seen)
    assert (hz / 180e3).tolist() == [2, 2, 1]
    assert f"{(1e6 - hz.sum()) / 1e3:.0f} kHz are lost" in example("Resource blocks")
    assert "is 2, 2 and 1." in example("Resource blocks")


def test_downlink():
    seen = one("downlink={tx_power_w=1.0,snr_db=[14.7712125,18.4509804]}", "fleet.rx_power_w=0.3")
    cost = price(plan_of(seen, 5e5), seen)
    assert f"8 Mbit take {cost.download_s[1]:.2f} s" in example("Downlink")
    assert f"{8 / cost.download_s[0]:.2f} Mbit/s" in example("Downlink")
    assert f"{cost.download_j[1]:.3f} J each" in example("Downlink")
    # By reciprocity: ten times the power, ten times the SNR.
    same = one(
        'channel={kind="uniform",low_db=4.771212547,high_db=4.771212547}', "downlink={tx_power_w=1}"
    )
    assert price(plan_of(same, 5e5), same).download_s[0] == pytest.approx(cost.download_s[0])


def test_overheads():
    overheads = Overheads(1.05, 0.05, 0.5)
    assert overheads.of_an_edge_round_s(downlink=True) == pytest.approx(0.6)
    seen = one("overheads={header_factor=1.05,round_trip_s=0.05,aggregation_s=0.5}")
    assert f"become {seen.upload_bits[0] / 1e6:.1f} Mbit" in example("Overheads")
    assert "= 0.6 s more, ten gossip steps 0.5 s more" in example("Overheads")


def test_computing_energy():
    table = CpuTable(hz=(1e9, 1.2e9, 1.5e9, 2e9, 2.4e9), power_w=(0.4, 0.66, 0.75, 1.2, 2.16))
    hz, per_cycle_j = points_of(table, "here")
    words = ", ".join(f"{j * 1e9:g}" for j in per_cycle_j[:4]) + f" and {per_cycle_j[4] * 1e9:g} nJ"
    assert words in example("Computing energy")
    assert efficient_points(hz, per_cycle_j)[0].tolist() == [2.4e9, 2e9, 1.5e9, 1e9]
    text = "fleet.cpu_table={hz=[1e9,1.2e9,1.5e9,2e9,2.4e9],power_w=[0.4,0.66,0.75,1.2,2.16]}"
    seen = one(text, "fleet.cpu_min_hz=1e9")
    energy_j = seen.laws.cpu.energy_j(np.full(2, 4e9), np.full(2, 1.75e9), np.zeros(2))[0]
    assert f"{energy_j / 4:.3f} nJ per cycle" in example("Computing energy")
    assert f"4e9 cycles take {4e9 / 1.75e9:.2f} s and {energy_j:.2f} J" in example(
        "Computing energy"
    )
    slower = (1 / 1.75 - 1 / 2) / (1 / 1.5 - 1 / 2)
    assert f"1.5 GHz for {100 * slower:.0f} % of the cycles" in example("Computing energy")


def test_idle_power():
    assert f"pays {0.05 * 3:.2f} J" in example("Idle power")


def test_every_law_has_its_section_and_its_setting():
    for name in ("Rate", "Power control", "Resource blocks", "Downlink", "Overheads"):
        assert example(name), name
    for setting in ("channel.law", "channel.power_control", "bandwidth.block_hz", "rx_power_w"):
        assert setting in TEXT
