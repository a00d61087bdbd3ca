"""The choice of codecs: against exhaustive search, and the rules that its docstring states."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.shares import least_energy_j
from fedrt.control.coding.choice import Coding
from fedrt.control.coding.kernel import longest_upload_s
from fedrt.control.coding.menu import convex_menu, gossip_codec, make_menu, menu_of
from fedrt.cost.uplink import hertz_seconds
from fedrt.errors import InputError
from fedrt.messages import distortion
from fedrt.scenario import load_scenario
from fedrt.world.observation import Menu, Observation

pytestmark = pytest.mark.numerical

CODECS = ("int3", "int4", "int6", "int8")


def instance(seed: int, sizes: tuple[int, ...], limit: str = "int4") -> tuple[Coding, np.ndarray]:
    """A few devices with random channels and budgets, and what clusters have behind them."""
    rng = np.random.default_rng(seed)
    count = sum(sizes)
    seen = Observation(
        model_bits=8.7e6,
        local_steps=10,
        gossip_steps=10,
        edge_of_device=np.repeat(np.arange(len(sizes)), sizes),
        cycles=np.full(count, 3e9) * rng.uniform(0.5, 2, count),
        snr=10 ** rng.uniform(0, 1.5, count),
        tx_power_w=rng.choice([0.0, 0.05, 0.5], count),
        capacitance=2e-28 * rng.uniform(0.1, 1, count),
        cpu_min_hz=np.full(count, 0.5e9),
        cpu_max_hz=np.full(count, 3e9),
        edge_bandwidth_hz=rng.uniform(0.5e6, 1e6, len(sizes)),
        menu=make_menu(CODECS, limit, 8.7e6, 0.0, "state"),
    )
    uniform = replace(seen, upload_bits=np.full(count, seen.menu.bits[seen.menu.uniform]))
    least_j = least_energy_j(uniform)
    cap_j = np.where(rng.random(count) < 0.3, np.inf, least_j * rng.uniform(1.05, 3, count))
    return Coding(seen, cap_j), rng.uniform(0, 3, len(sizes))


def end_s(coding: Coding, codec: np.ndarray, offset_s: np.ndarray) -> float:
    """When the last cluster ends with the given codecs, all devices allocated for least time."""
    seen = coding.coded(codec)
    found = allocate(seen, coding.cap_j)
    if found.relaxed.any():
        return np.inf
    upload_s = hertz_seconds(seen.upload_bits, seen.snr) / found.bandwidth_hz
    return float(np.max(offset_s + seen.max_by_edge(seen.cycles / found.cpu_hz + upload_s)))


@pytest.mark.parametrize("limit", ["int4", "int6"])
@pytest.mark.parametrize("sizes", [(3,), (2, 3), (1, 2, 1), (4, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_codecs_end_earlier(seed, sizes, limit):
    coding, offset_s = instance(seed, sizes, limit)
    menu, count = coding.menu, sum(sizes)
    assert len(menu.names) == 4
    every = (np.array(codec) for codec in product(range(4), repeat=count))
    allowed = [c for c in every if menu.distortion[c].mean() <= menu.limit * (1 + 1e-12)]
    least_s = min(end_s(coding, codec, offset_s) for codec in allowed)
    codec, said_s = coding.earliest(offset_s)
    assert menu.distortion[codec].mean() <= menu.limit * (1 + 1e-9)
    assert end_s(coding, codec, offset_s) == pytest.approx(least_s, rel=1e-8)
    assert said_s == pytest.approx(least_s, rel=1e-8)
    assert least_s <= end_s(coding, coding.uniform, offset_s) * (1 + 1e-9)


def test_choices_gain_over_one_codec_for_all():
    """Not in every instance, but in most of these; else the test above would show little."""
    gains = []
    for seed in range(12):
        coding, offset_s = instance(seed, (5, 5, 5))
        codec, _ = coding.earliest(offset_s)
        gains.append(1 - end_s(coding, codec, offset_s) / end_s(coding, coding.uniform, offset_s))
    assert min(gains) >= -1e-9
    assert np.median(gains) > 0.01


@pytest.mark.parametrize("seed", range(8))
def test_before_the_last_edge_round_the_limit_is_kept_too(seed):
    coding, begin_s = instance(seed, (4, 5, 3))
    later_s = np.random.default_rng(seed).uniform(2, 6, (10, 3))
    codec = coding.expected(begin_s, later_s, 0.3)
    assert coding.menu.distortion[codec].mean() <= coding.menu.limit * (1 + 1e-9)
    assert np.isfinite(end_s(coding, codec, begin_s))


def test_clusters_whose_caps_cannot_be_kept_use_one_codec():
    coding, offset_s = instance(1, (3, 3))
    cap_j = coding.cap_j.copy()
    cap_j[:3] = 0.0
    codec, _ = Coding(coding.seen, cap_j).earliest(offset_s)
    assert (codec[:3] == coding.menu.uniform).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_longest_upload_is_the_best_over_frequencies(seed):
    rng = np.random.default_rng(seed)
    w, a, p = rng.uniform(1e9, 5e9), rng.uniform(1e-19, 1e-18), rng.choice([0.0, 0.01, 0.5])
    f_min, f_max = 0.5e9, 3e9
    spare_j, tau = rng.uniform(0.05, 3), rng.uniform(1, 12)
    f = np.linspace(f_min, f_max, 400_001)
    with np.errstate(divide="ignore"):
        afford_s = (spare_j - a * (f**2 - f_min**2)) / p if p else np.inf
    best = float(
        np.max(
            np.where(spare_j >= a * (f**2 - f_min**2), np.minimum(tau - w / f, afford_s), -np.inf)
        )
    )
    found = longest_upload_s(tau, w, a, p, spare_j, f_min, f_max)
    if best > 0:
        assert found == pytest.approx(best, rel=1e-4)
        assert found >= best * (1 - 1e-9)
    else:
        assert found <= 1e-9


# --- menus -----------------------------------------------------------------------------------


def test_a_menu_keeps_its_lower_convex_hull():
    bits, lost = np.array([5.0, 3.0, 4.0, 8.0, 6.0]), np.array([0.5, 1.0, 0.9, 0.0, 0.6])
    kept = convex_menu(Menu(("e", "c", "d", "h", "f"), bits, lost, 0.5))
    assert kept.names == ("c", "e", "h")
    assert kept.uniform == 1


def test_the_limit_is_a_number_the_scenarios_codec_or_that_of_int4():
    def menu(*settings: str) -> Menu:
        return menu_of(load_scenario("quickstart", settings))

    assert menu().limit == distortion("int4")
    assert menu("learning.upload=int8").limit == distortion("int8")
    assert menu("learning.upload=int8", "control.distortion_limit=0.05").limit == 0.05
    assert (
        menu("control.distortion_limit=int3").names[menu("control.distortion_limit=int3").uniform]
        == "int3"
    )
    assert menu('control.codecs=["int8","int4"]').names == ("int4", "int8")
    with pytest.raises(
        InputError, match=r"scenario.control.distortion_limit = 1e-06: must be at least"
    ):
        menu('control.codecs=["int8","int4"]', "control.distortion_limit=1e-6")


def test_gossip_takes_the_codec_for_all_or_the_next_that_servers_can_use():
    def codec(names: tuple[str, ...], limit: str, given: str = "none") -> str:
        return gossip_codec(make_menu(names, limit, 8.7e6, 0.0, "state"), given, 8.7e6, 0.0)

    assert codec(("int3", "int4", "int8"), "int4") == "int4"
    assert codec(("int2", "int4"), "int2") == "int4"
    assert codec(("int2",), "int2") == "int3"
    assert codec(("int4", "int8"), "int4", "float16") == "float16"
