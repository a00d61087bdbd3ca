"""Channels, bandwidths and link speeds: their statistics, and the same bits in any order."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.tiny import tiny

from fedrt.errors import InputError
from fedrt.scenario import load_scenario
from fedrt.world.fleet import draw_fleet
from fedrt.world.processes import make_channel
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

MANY = ("fleet.num_devices=20000", "fleet.cluster_sizes=even")
FIVE_ERRORS = 5 / np.sqrt(20_000)


def channel(settings: str, *more: str, seed: int = 0):
    scenario = tiny(f"channel={{{settings}}}", *more)
    return make_channel(scenario, draw_fleet(scenario, seed), seed)


def test_uniform_snr_fills_its_range_and_is_redrawn_every_edge_round():
    process = channel('kind="uniform",low_db=-5,high_db=25', *MANY)
    first, second, third = process.snr_db(0, 0), process.snr_db(0, 1), process.snr_db(1, 0)
    assert first.min() >= -5
    assert first.max() < 25
    # 30 dB wide: mean 10, deviation 30 / sqrt(12).
    assert abs(first.mean() - 10) < FIVE_ERRORS * 30 / np.sqrt(12)
    assert first.max() - first.min() > 29.9
    correlation = np.corrcoef([first, second, third]) - np.eye(3)
    assert np.abs(correlation).max() < FIVE_ERRORS


def gauss_markov(correlation: float, *more: str):
    return channel(f'kind="gauss-markov",mean_db=8,std_db=4,correlation={correlation}', *more)


def test_gauss_markov_is_stationary_and_correlated_as_asked():
    process = gauss_markov(0.9, *MANY)
    values = [process.snr_db(t, r) for t in range(4) for r in range(2)]
    for value in values:
        assert abs(value.mean() - 8) < 4 * FIVE_ERRORS
        assert abs(value.std() / 4 - 1) < FIVE_ERRORS  # a deviation's error is 1 / sqrt(2 n)
    # Between global rounds as within one; two steps apart rho^2. A correlation's error is below
    # 1 / sqrt(n).
    between = np.corrcoef(values)
    steps = np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    assert np.abs(between - 0.9**steps).max() < FIVE_ERRORS


def test_gauss_markov_is_the_same_in_any_order_of_asking():
    rounds = [(t, r) for t in range(4) for r in range(2)]
    in_order = {when: p.snr_db(*when) for p in [gauss_markov(0.7)] for when in rounds}
    process = gauss_markov(0.7)
    for i in np.random.default_rng(0).permutation(len(rounds) * 2) % len(rounds):
        assert_array_equal(process.snr_db(*rounds[i]), in_order[rounds[i]])


def test_gauss_markov_without_and_with_full_correlation():
    free, stuck = gauss_markov(0, *MANY), gauss_markov(1, *MANY)
    assert abs(np.corrcoef(free.snr_db(0, 0), free.snr_db(0, 1))[0, 1]) < FIVE_ERRORS
    assert_array_equal(stuck.snr_db(3, 1), stuck.snr_db(0, 0))
    assert stuck.snr_db(3, 1).std() > 3


def test_path_loss_worked_by_hand():
    places = "[[30,40],[0,100],[0.3,0.4],[0,0],[-10,0],[1,0],[0,-1000]]"
    process = channel(
        f'kind="path-loss",snr_at_1m_db=80,exponent=3,shadowing_db=0,positions_m={places}'
    )
    # 80 - 30 log10(d): 50 m 80 - 50.969 = 29.031; 100 m 20; below 1 m as at 1 m; 10 m 50; 1 km -10.
    assert_allclose(process.snr_db(2, 1), [29.0309, 20, 80, 80, 50, 80, -10], atol=1e-4)
    assert_array_equal(process.snr_db(0, 0), process.snr_db(3, 1))


def test_devices_without_positions_are_spread_over_the_disc():
    process = channel(
        'kind="path-loss",snr_at_1m_db=0,exponent=1,radius_m=1000,shadowing_db=0', *MANY
    )
    distance_m = 10 ** (-process.snr_db(0, 0) / 10)
    assert distance_m.max() <= 1000 * (1 + 1e-12)
    # A quarter of the area lies within half the radius.
    assert abs((distance_m < 500).mean() - 0.25) < FIVE_ERRORS * np.sqrt(0.25 * 0.75)


def test_shadowing_is_fixed_and_fading_is_not():
    spot = "exponent=0,snr_at_1m_db=20"
    shadowed = channel(f'kind="path-loss",{spot},shadowing_db=6', *MANY)
    assert_array_equal(shadowed.snr_db(0, 0), shadowed.snr_db(3, 1))
    assert abs(shadowed.snr_db(0, 0).std() / 6 - 1) < FIVE_ERRORS
    fading = channel(f'kind="path-loss",{spot},shadowing_db=0,fading_db=2', *MANY)
    before, after = fading.snr_db(0, 0), fading.snr_db(0, 1)
    assert abs(before.std() / 2 - 1) < FIVE_ERRORS
    assert abs(np.corrcoef(before, after)[0, 1]) < FIVE_ERRORS


def test_the_tails_of_a_channel_are_cut_where_no_radio_works():
    world = SimulatedWorld(tiny('channel={kind="path-loss",snr_at_1m_db=300,exponent=0}'), 0)
    assert_allclose(world.observe(0, 0).snr, np.full(7, 1e10))


def bandwidth(settings: str, t=0, r=0):
    return SimulatedWorld(tiny(f"bandwidth={{{settings}}}"), 0).observe(t, r).edge_bandwidth_hz


def test_bandwidth_constant_uniform_and_scaled():
    assert_array_equal(bandwidth('kind="constant",hz=2e6'), np.full(3, 2e6))
    assert_array_equal(bandwidth('kind="constant",hz=2e6,scale=1.5'), np.full(3, 3e6))
    plain = [bandwidth('kind="uniform",low_hz=1e6,high_hz=2e6', t, r) for t, r in ((0, 0), (0, 1))]
    assert np.min(plain) >= 1e6
    assert np.max(plain) < 2e6
    assert len(np.unique(plain)) == 6
    half = bandwidth('kind="uniform",low_hz=1e6,high_hz=2e6,scale=0.5', 0, 1)
    assert_allclose(half, plain[1] / 2, rtol=1e-15)


def backhaul(settings: str, t=0, graph="complete"):
    world = SimulatedWorld(tiny(f"backhaul={{{settings}}}", f'base_graph={{kind="{graph}"}}'), 0)
    return world.backhaul_bps(t)


def test_backhaul_constant_uniform_and_scaled():
    off = ~np.eye(3, dtype=bool)
    assert_array_equal(backhaul('kind="constant",bps=5e6,scale=2'), np.where(off, 1e7, 0))
    assert_array_equal(
        backhaul('kind="constant",bps=5e6', graph="star"), [[0, 5e6, 5e6], [5e6, 0, 0], [5e6, 0, 0]]
    )
    first, second = (backhaul('kind="uniform",low_bps=1e6,high_bps=1e7', t) for t in (0, 1))
    assert_array_equal(first, first.T)
    assert_array_equal(np.diag(first), np.zeros(3))
    assert first[off].min() >= 1e6
    assert first[off].max() < 1e7
    assert len(np.unique([first[off], second[off]])) == 6
    scaled = backhaul('kind="uniform",low_bps=1e6,high_bps=1e7,scale=3')
    assert_allclose(scaled, 3 * first, rtol=1e-15)


OWN = """
import numpy as np

class Fixed:
    def __init__(self, fleet, seed, level=1.0, wrong=""):
        if wrong == "value":
            raise ValueError("level is off")
        self.fleet, self.level, self.wrong = fleet, level, wrong

    def _out(self, shape):
        match self.wrong:
            case "shape":
                return np.ones(5)
            case "scalar":
                return 1.0
            case "nan":
                return np.full(shape, np.nan)
            case "text":
                return "fast"
            case "ragged":
                return [[1.0], [1.0, 2.0]]
            case "none":
                return None
            case "complex":
                return np.ones(shape) * 1j
            case "raises":
                raise RuntimeError("sensor lost")
            case "quits":
                raise SystemExit(1)
            case "fleet":
                self.fleet.energy_budget_j[:] = 1e9
        return np.full(shape, self.level)

    def snr_db(self, t, r):
        return self._out(self.fleet.num_devices)

    def hz(self, t, r):
        return self._out(self.fleet.num_edges)

    def bps(self, t):
        table = self._out((self.fleet.num_edges,) * 2)
        if self.wrong == "lopsided":
            table[0, 1] += 1
        if self.wrong == "diagonal":
            table[np.diag_indices(self.fleet.num_edges)] = np.nan
        return table

class Mute:
    def __init__(self, fleet, seed):
        pass

class Kept(Fixed):
    def __init__(self, fleet, seed):
        self.values = np.full(fleet.num_edges, 1e6)

    def hz(self, t, r):
        self.values += 1
        return self.values

thing = 3
"""
SECTIONS = {"channel": "snr_db", "bandwidth": "hz", "backhaul": "bps"}


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_world_process.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


def see(section: str, options: str, name="Fixed"):
    world = SimulatedWorld(tiny(f'{section}={{kind="own_world_process:{name}"{options}}}'), 0)
    if section == "backhaul":
        return world.backhaul_bps(2)
    seen = world.observe(2, 1)
    return seen.snr if section == "channel" else seen.edge_bandwidth_hz


@pytest.mark.usefixtures("own")
def test_a_process_of_ones_own():
    assert_allclose(see("channel", ",level=20"), np.full(7, 100.0))
    assert_array_equal(see("bandwidth", ",level=3e6"), np.full(3, 3e6))
    assert_array_equal(see("backhaul", ",level=4e6"), np.where(np.eye(3), 0, 4e6))
    # What is not in the base graph is ignored, whatever it is.
    assert_array_equal(see("backhaul", ',level=4e6,wrong="diagonal"'), np.where(np.eye(3), 0, 4e6))


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (',wrong="shape"', "has the shape (5,): must be "),
        (',wrong="scalar"', "has the shape (): must be "),
        (',wrong="none"', "has the shape (): must be "),
        (',wrong="nan"', " = nan: must be "),
        (",level=1e300", " = 1e+300: must be "),
        (',wrong="text"', "must be an array of numbers"),
        (',wrong="ragged"', "must be an array of numbers"),
        (',wrong="complex"', "must be an array of numbers: it has complex ones"),
        (',wrong="raises"', "in global round 2"),
        (',wrong="raises"', ": RuntimeError: sensor lost (own_world_process.py, line "),
        (',wrong="quits"', ": SystemExit: 1 (own_world_process.py, line "),
        (',wrong="fleet"', ": ValueError: assignment destination is read-only"),
        (",colour=3", "cannot be made: "),
        (',wrong="value"', "cannot be made: ValueError: level is off"),
    ],
)
def test_a_broken_process_of_ones_own_is_one_line(section, options, words):
    with pytest.raises(InputError) as caught:
        see(section, options)
    (line,) = caught.value.lines
    assert line.startswith(f"scenario.{section}.")
    assert words in line
    assert "\n" not in line


@pytest.mark.usefixtures("own")
def test_what_a_process_goes_on_changing_was_copied():
    world = SimulatedWorld(tiny('bandwidth={kind="own_world_process:Kept"}'), 0)
    first, second = world.observe(0, 0), world.observe(0, 1)
    assert_array_equal(first.edge_bandwidth_hz, np.full(3, 1e6 + 1))
    assert_array_equal(second.edge_bandwidth_hz, np.full(3, 1e6 + 2))


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("level", [0.0, -1.0])
def test_a_link_without_speed_is_refused(level):
    with pytest.raises(InputError, match=r"scenario.backhaul.bps in global round 2.*must be"):
        see("backhaul", f",level={level}")


@pytest.mark.usefixtures("own")
def test_lopsided_links_are_refused():
    with pytest.raises(InputError, match="must be symmetric"):
        see("backhaul", ',level=4e6,wrong="lopsided"')


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("own_world_process:Mute", "must have a method "),
        ("own_world_process:Missing", "has no Missing"),
        ("own_world_process:thing", "must be a class or a function"),
        ("own_world_proces:Fixed", "cannot be imported"),
        ("own_world_process:", "import path"),
        (":Fixed", "import path"),
        ("own_world_process:a b", "import path"),
    ],
)
def test_a_process_that_cannot_be_had_is_one_line(section, kind, words):
    with pytest.raises(InputError) as caught:
        SimulatedWorld(tiny(f'{section}={{kind="{kind}"}}'), 0)
    (line,) = caught.value.lines
    assert line.startswith(f"scenario.{section}.kind = ")
    assert words in line


def test_a_scenario_with_a_process_of_ones_own_survives_its_file(tmp_path):
    from fedrt.scenario import scenario_text

    scenario = tiny('channel={kind="a.b:C",level=3}')
    path = tmp_path / "own.toml"
    path.write_text(scenario_text(scenario))
    assert load_scenario(path) == scenario
