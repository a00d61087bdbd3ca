"""Scenarios as values of Python code: equal to their TOML, checked with the same lines."""

from __future__ import annotations

import pickle
from dataclasses import fields
from functools import partial

import numpy as np
import pytest
from support.tiny import tiny

import fedrt
from fedrt import settings
from fedrt.cli import main
from fedrt.scenario import load_scenario, model, physical, read_scenario, scenario_text
from fedrt.scenario.tables.layers import given_path, import_path


def test_a_changed_value_equals_the_same_settings_typed():
    typed = load_scenario("quickstart", ["fleet.num_devices=100", "bandwidth.scale=2"])
    made = fedrt.scenario("quickstart").with_(fleet={"num_devices": 100}, bandwidth={"scale": 2})
    assert made == typed
    assert fedrt.scenario("quickstart", {"fleet.num_devices": 100, "bandwidth.scale": 2}) == typed
    assert fedrt.scenario(typed) == typed
    assert load_scenario(typed, ["fleet.num_devices=101"]).fleet.num_devices == 101


def test_a_scenario_written_in_python_equals_its_toml():
    made = fedrt.scenario(
        None,
        name="mine",
        fleet={
            "num_edges": 2,
            "num_devices": np.int64(4),
            "cycles_per_sample": 1e6,
            "capacitance": np.full(4, 1e-29),
            "tx_power_w": 0.01,
            "cpu_min_hz": 1e9,
            "cpu_max_hz": {"uniform": (2e9, 3e9)},
            "energy_j_per_edge_round": 1.0,
        },
        rounds={"global_rounds": 3},
        channel={"kind": "uniform", "low_db": 0, "high_db": 15},
        bandwidth={"kind": "constant", "hz": 1e6},
        backhaul={"kind": "constant", "bps": 1e6},
        learning={"dataset": "digits", "model": "small-cnn", "model_bits": 8e6}
        | {"learning_rate": 0.1},
    )
    assert read_scenario(scenario_text(made)) == made
    assert made.fleet.capacitance.values == (1e-29,) * 4


def test_a_section_may_be_a_section_of_another_scenario():
    quickstart, city = fedrt.scenario("quickstart"), fedrt.scenario("city")
    assert quickstart.with_(channel=city.channel).channel == city.channel
    both = {"energy_j_per_edge_round": None, "energy_budget_j": 3.0}
    assert quickstart.with_(fleet=both).fleet.energy_j_per_edge_round is None


@pytest.mark.parametrize(
    ("sections", "typed"),
    [
        ({"fleet": {"num_devices": -1}}, "fleet.num_devices=-1"),
        ({"fleet": {"num_devises": 3}}, "fleet.num_devises=3"),
        ({"channel": {"kind": "x"}}, 'channel={kind="x"}'),
        ({"learning": {"learning_rate": float("nan")}}, "learning.learning_rate=nan"),
        ({"nothing": {"a": 1}}, "nothing.a=1"),
    ],
)
def test_bad_settings_get_the_line_of_the_command(sections, typed, capsys):
    with pytest.raises(fedrt.InputError) as raised:
        fedrt.scenario("quickstart").with_(**sections)
    assert main(["scenario", "check", "quickstart", "--set", typed]) == 2
    assert capsys.readouterr().err == f"{raised.value}\n"


class Steady:
    """A channel of a user's own."""

    def __init__(self, fleet, seed, level=10.0):
        self.level, self.count = level, fleet.num_devices

    def snr_db(self, t, r):
        return np.full(self.count, self.level)


def test_an_object_stands_in_a_scenario_under_its_name(tmp_path):
    made = tiny().with_(channel={"kind": Steady, "level": 20.0})
    assert made.channel.kind == "python:Steady"
    assert made == read_scenario(scenario_text(made))
    world = fedrt.make_world(made, 0)
    np.testing.assert_allclose(world.observe(0, 0).snr, 100.0)
    with pytest.raises(fedrt.InputError, match="was an object of a Python program"):
        fedrt.make_world(read_scenario(scenario_text(made)), 0)
    done = fedrt.estimate(made, policies="fedrt", out=tmp_path / "out", progress=False)
    again = fedrt.estimate(
        tiny('channel={kind="uniform",low_db=20,high_db=20}'),
        policies="fedrt",
        out=tmp_path / "other",
        progress=False,
    )
    assert done.rounds.equals(again.rounds)


def test_what_can_be_imported_is_named_by_its_path():
    assert import_path(fedrt.policies.FedRT) == "fedrt.policies.fedrt:FedRT"
    assert import_path(Steady) is None
    assert given_path("lenet5") == "lenet5"
    assert given_path(partial(Steady, level=1.0)) == "python:Steady"
    assert given_path(lambda: None) == "python:function"
    assert given_path(3.0 + 1j) == "python:complex"


def test_a_maker_that_takes_nothing_is_called_with_nothing():
    path = given_path(lambda: "made")
    assert path.offer((1, 8, 8), 10) == "made"
    thing = [1]
    copied = given_path(thing).offer((1, 8, 8), 10)
    assert copied == thing
    assert copied is not thing


def test_a_given_path_goes_to_other_processes_with_its_object():
    path = given_path(partial(int, base=2))
    there = pickle.loads(pickle.dumps(given_path(len)))
    assert (path, there) == ("python:int", "python:len")
    assert there.offer([1, 2]) == 2


@pytest.mark.parametrize(
    ("typed", "section"),
    [
        (settings.FleetSettings, model.Fleet),
        (settings.RoundsSettings, model.Rounds),
        (settings.LearningSettings, model.Learning),
        (settings.ControlSettings, model.Control),
        (settings.CpuTableSettings, physical.CpuTable),
        (settings.DownlinkSettings, physical.Downlink),
        (settings.OverheadsSettings, physical.Overheads),
        (settings.Sections, model.Scenario),
    ],
)
def test_type_checkers_know_every_setting(typed, section):
    assert set(typed.__annotations__) == {field.name for field in fields(section)}
