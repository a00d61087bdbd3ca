"""Device classes: how they are read, layered and drawn, and one line for every mistake."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from support.paths import EXAMPLES
from support.tiny import tiny

from fedrt.errors import InputError
from fedrt.scenario import load_scenario, read_scenario, scenario_text
from fedrt.scenario.classes import with_setting
from fedrt.scenario.model import Fleet
from fedrt.scenario.placing import class_of_devices
from fedrt.scenario.tables.fields import PerDevice, table_of
from fedrt.scenario.tables.toml_text import plain_toml
from fedrt.world.fleet import FleetArrays, draw_fleet

# Of 7 devices in clusters of 2, 3 and 2: 0.7 x 7 = 4.9, so 5 phones: 1.43, 2.14, 1.43 of 5 are
# 1, 2, 1 and one more for the first of the largest remainders.
CLASSES = 'fleet.classes=[{name="phone",share=0.7},{name="watch",tx_power_w=0.5}]'
PHONES = [0, 0, 0, 0, 1, 0, 1]


def problems_of(*settings: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        tiny(*settings)
    return list(caught.value.lines)


def test_a_class_replaces_what_it_gives_and_nothing_else():
    plain, classed = draw_fleet(tiny(), 3), draw_fleet(tiny(CLASSES), 3)
    assert classed.class_of_device.tolist() == PHONES
    assert classed.class_names == ("phone", "watch")
    assert_array_equal(classed.tx_power_w, np.where(classed.class_of_device == 1, 0.5, 0.01))
    for name in ("capacitance", "cpu_min_hz", "cpu_max_hz", "energy_budget_j", "edge_of_device"):
        assert_array_equal(getattr(classed, name), getattr(plain, name))


def test_classes_that_give_nothing_change_nothing():
    """Drawn values are keyed by the device, whatever its class."""
    same = tiny('fleet.classes=[{name="a",share=0.5},{name="b"}]')
    plain, classed = draw_fleet(tiny(), 7), draw_fleet(same, 7)
    for field in fields(FleetArrays):
        if not field.name.startswith("class_"):
            assert_array_equal(getattr(plain, field.name), getattr(classed, field.name))


def test_which_device_is_of_which_class_does_not_depend_on_the_seed():
    fleets = [draw_fleet(tiny(CLASSES), seed) for seed in range(3)]
    assert {tuple(fleet.class_of_device.tolist()) for fleet in fleets} == {tuple(PHONES)}


def test_ranges_and_lists_of_a_class():
    settings = "fleet.classes.watch={cpu_max_hz=[4e9,5e9],capacitance={uniform=[1e-28,2e-28]}}"
    fleet = draw_fleet(tiny(CLASSES, settings), 0)
    watch = fleet.class_of_device == 1
    assert fleet.cpu_max_hz[watch].tolist() == [4e9, 5e9]
    assert ((fleet.capacitance[watch] >= 1e-28) & (fleet.capacitance[watch] < 2e-28)).all()
    assert (fleet.capacitance[~watch] < 2e-29).all()
    # The fleet's own list has one value for each device, of any class.
    listed = draw_fleet(tiny(CLASSES, "fleet.cpu_max_hz=[3e9,4e9,5e9,6e9,7e9,8e9,9e9]"), 0)
    assert listed.cpu_max_hz.tolist() == [3e9, 4e9, 5e9, 6e9, 7e9, 8e9, 9e9]


def test_what_all_classes_give_the_fleet_need_not():
    table = {"share": 0.5, "cpu_max_hz": 3e9}
    both = [{"name": "a", **table}, {"name": "b", **table, "cpu_max_hz": 4e9}]
    scenario = tiny().with_(fleet={"cpu_max_hz": None, "classes": both})
    assert scenario.fleet.cpu_max_hz is None
    assert sorted(set(draw_fleet(scenario, 0).cpu_max_hz)) == [3e9, 4e9]
    with pytest.raises(InputError) as caught:
        scenario.with_(fleet={"classes": {"b": {"cpu_max_hz": None}}})
    assert caught.value.lines == ["scenario.fleet.cpu_max_hz: missing"]


def test_budgets_of_classes_in_all_forms():
    # 4 x 2 edge rounds at 1 J are the fleet's 8 J.
    classes = (
        'fleet.classes=[{name="a",count=2,energy_budget_j=5},{name="b",count=1,'
        'energy_j_per_edge_round=2},{name="c",count=1,energy_budget_j="none"},{name="d"}]'
    )
    fleet = draw_fleet(tiny(classes, "fleet.cluster_sizes=even", "fleet.num_edges=1"), 0)
    assert fleet.energy_budget_j.tolist() == [5, 5, 16, math.inf, 8, 8, 8]
    other = draw_fleet(
        tiny(classes, "fleet.energy_budget_j=3", "fleet={cluster_sizes='even',num_edges=1}"), 0
    )
    assert other.energy_budget_j.tolist() == [5, 5, 16, math.inf, 3, 3, 3]


@pytest.mark.parametrize("form", ["energy_budget_j", "energy_j_per_edge_round"])
def test_a_budget_can_be_removed(form):
    free = tiny(f"fleet.{form}=none")
    assert free.fleet.energy_budget_j is None
    assert free.fleet.energy_j_per_edge_round is None
    assert free == tiny().with_(fleet={"energy_j_per_edge_round": None})
    assert tiny().with_(fleet={form: "none"}) == free


def test_what_need_not_be_given_can_be_removed():
    laws = ("fleet.idle_power_w=0.1", "fleet.cpu_table={hz=[2e9,3e9],power_w=[0.1,0.5]}")
    assert tiny(*laws, "fleet.idle_power_w=none", "fleet.cpu_table=none") == tiny()
    some = tiny(CLASSES, *laws, "fleet.classes.watch={cpu_table='none',idle_power_w='none'}")
    assert read_scenario(scenario_text(some)) == some
    fleet = draw_fleet(some, 0)
    assert_array_equal(fleet.idle_power_w, np.where(fleet.class_of_device == 1, 0.0, 0.1))
    assert fleet.cpu is not None
    assert_array_equal(fleet.cpu.of_device < 0, fleet.class_of_device == 1)
    (line,) = problems_of("fleet.cpu_max_hz=none")
    assert line.startswith('scenario.fleet.cpu_max_hz = "none": must be a finite number')


def test_the_text_of_a_scenario_keeps_its_classes():
    settings = 'fleet.classes.watch={edges=[0,2],count=1,per_edge=true,energy_budget_j="none"}'
    scenario = tiny(CLASSES, "fleet.classes.phone={share=1.0,cpu_max_hz={uniform=[3e9,4e9]}}")
    for each in (scenario, tiny(CLASSES, settings, "fleet.classes.phone.share=1")):
        assert read_scenario(scenario_text(each)) == each


def test_a_long_text_keeps_classes_with_and_without_tomli_w():
    """Long tables have sections of their own: [[fleet.classes]], [fleet.classes.capacitance]."""
    scenario = load_scenario(EXAMPLES / "own_fleet.toml")
    text = scenario_text(scenario)
    assert text.count("[[fleet.classes]]") == 2
    assert read_scenario(text) == scenario
    assert read_scenario(plain_toml(table_of(scenario))) == scenario


def test_what_is_measured_may_be_a_class_s():
    scenario = tiny(CLASSES, "fleet.classes.watch.cycles_per_sample=measured")
    assert scenario.needs_measuring
    fleet = with_setting(scenario.fleet, "cycles_per_sample", "measured", PerDevice(5.0, 5.0))
    assert not replace(scenario, fleet=fleet).needs_measuring
    found = draw_fleet(replace(scenario, fleet=fleet), 0)
    assert_array_equal(found.cycles_per_sample, np.where(found.class_of_device == 1, 5.0, 94.2e6))
    assert not tiny(CLASSES).needs_measuring


def test_classes_have_radios_and_cpus_of_their_own(tmp_path):
    (tmp_path / "cpu.csv").write_text("hz,power_w\n2e9,1\n3e9,4\n")
    tables = {"watch": {"idle_power_w": 0.2, "cpu_table": {"file": str(tmp_path / "cpu.csv")}}}
    scenario = tiny(CLASSES).with_(fleet={"classes": tables})
    fleet = draw_fleet(scenario, 0)
    watch = fleet.class_of_device == 1
    assert_array_equal(fleet.idle_power_w, np.where(watch, 0.2, 0.0))
    assert fleet.rx_power_w is None
    assert fleet.cpu is not None
    assert_array_equal(fleet.cpu.of_device >= 0, watch)
    with pytest.raises(InputError) as caught:
        scenario.with_(fleet={"classes": {"watch": {"cpu_table": {"hz": [1e9]}}}})
    (line,) = caught.value.lines
    assert line.startswith("scenario.fleet.classes.watch.cpu_table: must have ")


def test_classes_change_by_name_in_layers(tmp_path):
    fleet = tiny(CLASSES, "fleet.classes.phone.count=3").fleet
    assert fleet.classes is not None
    phone, watch = fleet.classes
    assert (phone.count, phone.share) == (3, None)
    assert watch.settings == {"tx_power_w": PerDevice(0.5, 0.5)}
    (tmp_path / "base.toml").write_text('extends = "quickstart"\n[[fleet.classes]]\nname="a"\n')
    (tmp_path / "own.toml").write_text('extends = "base.toml"\n[fleet.classes.b]\nshare = 0.5\n')
    own = load_scenario(tmp_path / "own.toml").fleet
    assert [each.name for each in own.classes or ()] == ["a", "b"]
    assert np.bincount(class_of_devices(own)).tolist() == [10, 10]
    fewer = tiny(CLASSES).with_(fleet={"classes": {"phone": None}}).fleet
    assert [each.name for each in fewer.classes or ()] == ["watch"]


def test_every_setting_of_a_device_may_be_a_class_s():
    """Also those that are added to the fleet later: it is the field that says so."""
    named = {f.name for f in fields(Fleet) if "per_device" in f.metadata}
    assert {"cycles_per_sample", "tx_power_w", "energy_budget_j"} <= named
    assert named.isdisjoint({"num_edges", "num_devices", "cluster_sizes", "classes"})


PATH = "scenario.fleet.classes"


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("fleet.classes=[]", f"{PATH} = []: must be a list of 1 to 100 classes"),
        ("fleet.classes=3", f"{PATH} = 3: must be a list of 1 to 100 classes"),
        ("fleet.classes=none", f'{PATH} = "none": must be a list of 1 to 100'),
        ("fleet.classes=[1]", f"{PATH} = [1]: must be a list of 1 to 100"),
        ('fleet.classes={name="a"}', f'{PATH} = {{"name": "a"}}: must be a list'),
        ("fleet.classes=[{share=1}]", f"{PATH}[0].name: missing"),
        ('fleet.classes=[{name="a b"}]', f'{PATH}[0].name = "a b": must be a letter and then'),
        ("fleet.classes=[{name=3}]", f"{PATH}[0].name = 3: must be a letter"),
        ('fleet.classes=[{name="a"},{name="a"}]', f"{PATH}.a: is given more than once"),
        ('fleet.classes=[{name="a",cpu_max=3}]', f"{PATH}.a.cpu_max: unknown field; did you mean"),
        ('fleet.classes=[{name="a",num_edges=3}]', f"{PATH}.a.num_edges: unknown field"),
        ('fleet.classes=[{name="a",share=1.5}]', f"{PATH}.a.share = 1.5: must be a finite"),
        ('fleet.classes=[{name="a",count=0.5}]', f"{PATH}.a.count = 0.5: must be a whole"),
        ('fleet.classes=[{name="a",count=7,share=1}]', f"{PATH}.a: give share or count, not both"),
        ('fleet.classes=[{name="a",per_edge=true}]', f"{PATH}.a.per_edge: only goes with share or"),
        ('fleet.classes=[{name="a",tx_power_w=-1}]', f"{PATH}.a.tx_power_w = -1: must be a finite"),
        ('fleet.classes=[{name="a",tx_power_w="none"}]', f'{PATH}.a.tx_power_w = "none": must be'),
        ('fleet.classes=[{name="a",edges=[3]}]', f"{PATH}.a.edges[0] = 3: must be one of the edge"),
        ('fleet.classes=[{name="a",edges=[0,0]}]', f"{PATH}.a.edges = [0, 0]: must be different"),
        ('fleet.classes=[{name="a",edges=[]}]', f"{PATH}.a.edges = []: must be a list of 1 to"),
        ('fleet.classes=[{name="a",cpu_min_hz=4e9}]', f"{PATH}.a.cpu_min_hz = 4000000000.0: must"),
        ('fleet.classes=[{name="a",tx_power_w=[1,2]}]', f"{PATH}.a.tx_power_w has 2 values: must"),
        (
            'fleet.classes=[{name="a",cpu_min_hz=[3e9,3e9,3e9,3e9,3e9,3e9,4e9]}]',
            "scenario.fleet.cpu_min_hz[6] = 4000000000.0: must be <= cpu_max_hz[6] = 3e+09",
        ),
        (
            'fleet.classes=[{name="a",energy_budget_j=1,energy_j_per_edge_round=2}]',
            f"{PATH}.a.energy_budget_j: give it or energy_j_per_edge_round, not both",
        ),
        (
            "fleet.classes.phone.share=0.5",
            f"{PATH}.phone: there is no such class; the",
        ),
    ],
)
def test_a_mistake_is_one_line(setting, line):
    (found,) = problems_of(setting)
    assert found.startswith(line)
    assert len(found) < 250


def test_a_mistyped_class_is_not_a_new_one():
    (line,) = problems_of(CLASSES, "fleet.classes.phnoe.share=0.5")
    assert line == (
        f"{PATH}.phnoe: there is no such class; the fleet has phone, watch; did you mean phone?"
    )


def test_all_mistakes_at_once():
    both = 'fleet.classes=[{name="a",share=2,color=1},{name="b",count=-1}]'
    assert [line.split(":")[0] for line in problems_of(both)] == [
        f"{PATH}.a.color",
        f"{PATH}.a.share = 2",
        f"{PATH}.b.count = -1",
    ]


VALUES = st.sampled_from([1.5, 0.25, {"uniform": [0.5, 1.0]}])
SOME = st.fixed_dictionaries(
    {},
    optional={
        "tx_power_w": VALUES,
        "idle_power_w": VALUES,
        "energy_budget_j": VALUES | st.just("none"),
        "edges": st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True),
        "share": st.sampled_from([0, 0.25, 0.5, 1.0]),
        "count": st.integers(0, 3),
        "per_edge": st.booleans(),
    },
)


@settings(max_examples=150)
@given(st.lists(SOME, min_size=1, max_size=4), st.integers(0, 3))
def test_any_classes_are_refused_in_lines_or_give_every_device_its_own(found, seed):
    tables = [{"name": f"c{k}", **table} for k, table in enumerate(found)]
    try:
        scenario = tiny().with_(fleet={"classes": tables})
    except InputError as error:
        lines = list(error.lines)
    else:
        lines = []
        assert read_scenario(scenario_text(scenario)) == scenario
        fleet = draw_fleet(scenario, seed)
        plain = draw_fleet(tiny(), seed)
        for device, k in enumerate(fleet.class_of_device.tolist()):
            given_power = tables[k].get("tx_power_w", 0.01)
            allowed = tables[k].get("edges", [0, 1, 2])
            assert fleet.edge_of_device[device] in allowed
            if isinstance(given_power, dict):
                assert 0.5 <= fleet.tx_power_w[device] < 1.0
            else:
                assert fleet.tx_power_w[device] == given_power
            if tables[k].get("energy_budget_j") == "none":
                assert fleet.energy_budget_j[device] == math.inf
        assert_array_equal(fleet.capacitance, plain.capacitance)
        counts = np.bincount(fleet.class_of_device, minlength=len(tables))
        for table, count in zip(tables, counts.tolist(), strict=True):
            if "count" in table:
                per_edge = len(table.get("edges", range(3))) if table.get("per_edge") else 1
                assert count == table["count"] * per_edge
    assert all("\n" not in line and len(line) < 300 for line in lines)
