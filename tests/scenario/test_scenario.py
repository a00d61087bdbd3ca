"""Scenarios: the presets say what the paper says, layers override as documented, all is checked."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from fedrt.bench.worlds import WORLDS
from fedrt.errors import InputError
from fedrt.scenario import load_scenario, preset_names, scenario_text
from fedrt.scenario.load import read_scenario
from fedrt.scenario.model import DirichletPartition, WriterPartition
from fedrt.scenario.processes import UniformBackhaul
from fedrt.scenario.tables.fields import PerDevice

PAPER = ["cifar10-iid", "cifar10-dirichlet", "fmnist-iid", "fmnist-dirichlet", "femnist"]


def problems_of(source, *settings) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_scenario(source, settings)
    return caught.value.lines


def test_all_presets_are_there():
    expected = {"quickstart", "city"}
    expected |= {f"{family}/{name}" for family in ("paper", "paper-literal") for name in PAPER}
    expected |= {f"bench/{name}" for name in WORLDS}
    assert set(preset_names()) == expected


@pytest.mark.parametrize("name", preset_names())
def test_a_shown_scenario_loads_as_the_same(name, tmp_path):
    scenario = load_scenario(name)
    path = tmp_path / "copy.toml"
    path.write_text(scenario_text(scenario))
    assert load_scenario(path) == scenario
    assert scenario.name == name


# The paper's settings: rounds, parameters x 32 bit, cycles per sample, learning rate.
@pytest.mark.parametrize(
    ("name", "rounds", "parameters", "cycles", "rate"),
    [
        ("cifar10-iid", 300, 269_722, 123.9e6, 0.1),
        ("cifar10-dirichlet", 350, 269_722, 123.9e6, 0.1),
        ("fmnist-iid", 100, 431_080, 3.9e6, 0.01),
        ("fmnist-dirichlet", 150, 431_080, 3.9e6, 0.01),
        ("femnist", 200, 272_814, 94.2e6, 0.1),
    ],
)
def test_paper_presets(name, rounds, parameters, cycles, rate):
    scenario = load_scenario(f"paper/{name}")
    assert scenario.rounds.global_rounds == rounds
    assert (scenario.rounds.edge_rounds, scenario.rounds.local_steps) == (2, 10)
    assert (scenario.rounds.gossip_steps, scenario.learning.batch_size) == (10, 32)
    assert scenario.learning.model_bits == 32 * parameters
    assert scenario.learning.learning_rate == rate
    assert scenario.fleet.cycles_per_sample == PerDevice(cycles, cycles)
    assert (scenario.fleet.num_edges, scenario.fleet.num_devices) == (8, 72)
    assert scenario.fleet.capacitance == PerDevice(2e-30, 2e-29)
    assert scenario.backhaul == UniformBackhaul(1e6, 10e6)
    literal = load_scenario(f"paper-literal/{name}")
    assert literal.backhaul == UniformBackhaul(0.1e6, 10e6)
    same = dataclasses.replace(
        literal,
        name=scenario.name,
        description=scenario.description,
        backhaul=scenario.backhaul,
    )
    assert same == scenario


def test_paper_partitions():
    assert load_scenario("paper/femnist").learning.partition == WriterPartition()
    assert load_scenario("paper/fmnist-dirichlet").learning.partition == DirichletPartition(1.0)


def test_a_scenario_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_scenario("quickstart").fleet.num_edges = 3


def test_settings_override_and_later_ones_win():
    scenario = load_scenario(
        "quickstart", ["fleet.num_devices=100", "fleet.num_devices = 50", "control.kappa=1"]
    )
    assert scenario.fleet.num_devices == 50
    assert scenario.control.kappa == 1


def test_words_need_no_quotes_and_kinds_start_afresh():
    scenario = load_scenario(
        "quickstart", ["backhaul.kind=constant", "backhaul.bps=2e6", "fleet.cluster_sizes=uneven"]
    )
    assert scenario.backhaul.bps == 2e6
    assert scenario.fleet.cluster_sizes == "uneven"


def test_budgets_per_round_or_in_total_one_value_or_one_per_device():
    each = load_scenario("quickstart", [f"fleet.energy_j_per_edge_round={[0.1] * 20}"])
    assert each.fleet.energy_j_per_edge_round.values == (0.1,) * 20
    total = load_scenario("quickstart", ["fleet.energy_budget_j=40"])
    assert total.fleet.energy_budget_j == PerDevice(40, 40)
    assert total.fleet.energy_j_per_edge_round is None
    both = "fleet={energy_j_per_edge_round=1, energy_budget_j=40}"
    (line,) = problems_of("quickstart", both)
    assert line == "scenario.fleet.energy_budget_j: give it or energy_j_per_edge_round, not both"


def test_a_file_may_extend_a_preset(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('extends = "paper/femnist"\n[rounds]\nglobal_rounds = 7\n')
    scenario = load_scenario(path)
    assert scenario.name == "mine"
    assert scenario.rounds.global_rounds == 7
    assert scenario.fleet == load_scenario("paper/femnist").fleet
    path.write_text('extends = "paper/femnits"\n')
    (line,) = problems_of(path)
    assert line.endswith("did you mean paper/femnist?")


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("fleet.tx_power_w=-0.1", "scenario.fleet.tx_power_w = -0.1: must be a finite number >= 0"),
        ("fleet.tx_power_w=nan", "scenario.fleet.tx_power_w = NaN: must be"),
        ("fleet.num_devices=4", "scenario.fleet.num_devices = 4: must be >= num_edges = 5"),
        ("fleet.num_device=4", "scenario.fleet.num_device: unknown field; did you mean num_dev"),
        ("fleet.tx_power_w=[0.1, 0.2]", "tx_power_w has 2 values: must be one for all or one per"),
        ("fleet.cluster_sizes=[1, 2]", "cluster_sizes has 2 sizes that add up to 3: must be 5"),
        ("fleet.cpu_min_hz=7e8", "cpu_min_hz = 700000000.0: must be <= cpu_max_hz of every"),
        ("fleet.capacitance={uniform=[2, 1]}", "scenario.fleet.capacitance.uniform[0] = 2: must"),
        ("fleet.cpu_max_hz={uniform=[2e9, 1e9]}", "must be [low, high], low <= high"),
        ("channel.low_db=20", "scenario.channel.low_db = 20.0: must be <= high_db = 15"),
        ("channel.kind=magic", 'scenario.channel.kind = "magic": must be one of uniform, gauss-'),
        ("base_graph={}", "scenario.base_graph.probability: missing"),
        ("base_graph={kind='links',links=[[0,1]]}", "links: must connect all edge servers"),
        ("base_graph={kind='links',links=[[0,9]]}", "links[0] = [0, 9]: must be two different"),
        ("schema_version=2", "scenario.schema_version = 2: must be a whole number from 1 to 1"),
        ("learning.augment=1", "scenario.learning.augment = 1: must be true or false"),
        ("rounds.global_rounds=0", "scenario.rounds.global_rounds = 0: must be a whole number"),
    ],
)
def test_bad_settings_name_field_value_and_rule(setting, line):
    first, *_ = problems_of(
        "quickstart",
        *(["base_graph.kind=erdos-renyi"] if "base_graph={}" in setting else []),
        setting,
    )
    assert line in first


def test_all_problems_of_a_file_at_once():
    lines = problems_of("quickstart", "fleet.tx_power_w=-1", "rounds.local_steps=0", "colour=1")
    assert len(lines) == 3


def test_any_options_of_a_process_survive_the_file():
    options = (
        'channel={kind="a.b:C", "a b"=1, "y.z"={"ü"=[true, {"="="x"}]}, "\\""=2, day=2026-11-15,'
        " clock=07:32:00.5, when=2026-11-15T07:32:00, zone=2026-11-15T07:32:00-03:00,"
        f" long=0x{'f' * 5000}}}"
    )
    scenario = load_scenario("quickstart", [options])
    assert scenario.channel.options["day"] == datetime.date(2026, 11, 15)
    assert scenario.channel.options["y.z"] == {"ü": [True, {"=": "x"}]}
    assert read_scenario(scenario_text(scenario)) == scenario


def test_files_are_named_as_seen_from_the_scenario_file(tmp_path, monkeypatch):
    path = tmp_path / "own.toml"
    path.write_text(
        'extends = "quickstart"\n[learning]\ndataset = "my.npz"\n'
        '[channel]\nkind = "a:B"\nfile = "as given"\n[bandwidth]\nkind = "trace"\nfile = "b.csv"\n'
    )
    # Not there: it may be in the folder of data sets.
    assert load_scenario(path).learning.dataset == "my.npz"
    (tmp_path / "sub").mkdir()
    for name in ("my.npz", "sub/my.npz"):
        (tmp_path / name).touch()
    scenario = load_scenario(path)
    assert scenario.learning.dataset == str(tmp_path / "my.npz")
    assert scenario.bandwidth.file == str(tmp_path / "b.csv")
    assert scenario.channel.options == {"file": "as given"}
    monkeypatch.chdir(tmp_path)
    given = load_scenario("quickstart", ["learning.dataset=sub/my.npz", "learning.model=a:b"])
    assert given.learning.dataset == "sub/my.npz"
    kept = read_scenario(scenario_text(given, anywhere=True)).learning
    assert (kept.dataset, kept.model) == (str(tmp_path / "sub" / "my.npz"), "a:b")
    digits = read_scenario(scenario_text(load_scenario("quickstart"), anywhere=True))
    assert digits.learning.dataset == "digits"
    assert read_scenario(scenario_text(scenario, anywhere=True)) == scenario


def test_a_scenario_that_is_not_there_is_answered_with_what_was_meant_or_what_there_is():
    with pytest.raises(InputError) as near:
        load_scenario("paper/femnst")
    said = 'the scenario "paper/femnst" does not exist; did you mean paper/femnist?'
    assert str(near.value) == said
    with pytest.raises(InputError, match=r"such as city, quickstart, bench/\.\.\., paper/\.\.\.,"):
        load_scenario("nofile.toml")
