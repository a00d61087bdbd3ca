"""Who is where in a testbed, and how much of the machine it may take."""

from __future__ import annotations

import numpy as np
import pytest

from fedrt.errors import InputError
from fedrt.scenario import load_scenario
from fedrt.testbed.layout import MOST_LOAD, lay_out
from fedrt.testbed.leftovers import OURS


def small(**fleet):
    given = {"num_edges": 3, "num_devices": 6, "cpu_max_hz": 1.5e9, "cpu_min_hz": 3e8} | fleet
    return load_scenario("quickstart", [f"fleet.{key}={value}" for key, value in given.items()])


def laid_out(scenario, cores=2, core_ghz=None):
    edges = scenario.fleet.num_edges
    return lay_out(scenario, 0, ~np.eye(edges, dtype=bool), cores, core_ghz)


def test_every_party_has_its_own_namespace_and_address():
    layout = laid_out(small(num_edges=5, num_devices=400), cores=16)
    assert len(layout.hosts) == 406
    assert len({host.namespace for host in layout.hosts}) == 406
    assert len({host.address for host in layout.hosts}) == 406
    assert all(OURS.fullmatch(name) for name in layout.namespaces)
    assert layout.edge_of_device[399] == 4
    assert layout.edge_address(4).endswith(":7100")


@pytest.mark.parametrize("cores", [1, 2, 7, 64])
def test_by_default_devices_take_four_fifths_of_the_machine(cores):
    layout = laid_out(small(), cores)
    shares = [host.cpu_share for host in layout.of("device")]
    assert max(shares) <= 1
    assert sum(shares) == pytest.approx(min(0.8 * cores, 6))


def test_shares_are_those_of_each_devices_own_processor():
    layout = laid_out(small(cpu_max_hz="[1e9, 2e9, 1e9, 1e9, 1e9, 4e9]"), core_ghz=8.0)
    shares = [host.cpu_share for host in layout.of("device")]
    assert shares == pytest.approx([0.125, 0.25, 0.125, 0.125, 0.125, 0.5])


@pytest.mark.parametrize("core_ghz", [None, 2.05])
def test_a_device_with_a_whole_core_has_no_more_than_that(core_ghz):
    """2.05e9 / 1e9 * 1e9 is a little less than 2.05e9."""
    layout = laid_out(small(cpu_max_hz=2.05e9), cores=16, core_ghz=core_ghz)
    assert {host.cpu_share for host in layout.of("device")} == {1.0}


def test_more_than_the_machine_can_carry_is_refused_in_one_line():
    with pytest.raises(InputError) as caught:
        laid_out(small(), cores=2, core_ghz=5.0)
    assert caught.value.lines == [
        "at full speed all devices take 1.80 cores: must be at most 1.70, which is 85% of 2;"
        " give `core_ghz` 5.3 or more"
    ]
    assert laid_out(small(), cores=2, core_ghz=5.3).core_hz == 5.3e9
    assert MOST_LOAD * 2 >= 9 / 5.3


def test_a_device_has_one_core_at_most():
    with pytest.raises(InputError, match=r"a device takes 1\.50 cores: must be at most 1"):
        laid_out(small(), cores=64, core_ghz=1.0)
