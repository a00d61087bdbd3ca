"""The commands by which a testbed's network is made, without making one."""

from __future__ import annotations

import numpy as np
import pytest

from fedrt.devices.actuators.tc import TrafficError
from fedrt.scenario import load_scenario
from fedrt.testbed.layout import lay_out
from fedrt.testbed.network import Network


class Machine:
    """Notes the commands that it gets; may lack a piece of the kernel."""

    def __init__(self, missing: str | None = None) -> None:
        self.missing, self.told = missing, []

    def __call__(self, words, lines):
        whole = [" ".join(words), *lines.splitlines()]
        if self.missing is not None and any(self.missing in line for line in whole):
            raise TrafficError("tc: Error: Specified qdisc kind is unknown.")
        self.told += whole
        return ""

    def having(self, *parts):
        return [line for line in self.told if all(part in line for part in parts)]


@pytest.fixture
def layout():
    links = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=bool)  # a star
    given = ["fleet.num_edges=3", "fleet.num_devices=6"]
    return lay_out(load_scenario("quickstart", given), 0, links, 2, None)


def test_links_have_the_speeds_of_the_round_in_each_direction(layout):
    machine = Machine()
    network = Network(layout, run=machine)
    network.up()
    machine.told.clear()
    bps = np.array([[0, 20e6, 30e6], [20e6, 0, 7], [30e6, 7, 0]])
    network.shape(bps)
    assert len(machine.having("class replace")) == 4
    assert machine.having("dev p-edge-0", "classid 1:12", "rate 30000000bit")
    assert machine.having("dev p-edge-2", "classid 1:10", "rate 30000000bit")
    assert not machine.having("dev p-edge-1", "classid 1:12")


def test_servers_without_a_link_cannot_reach_each_other(layout):
    machine = Machine()
    Network(layout, run=machine).up()
    one, two = (layout.of("edge")[n].address for n in (1, 2))
    assert len(machine.having("route add unreachable")) == 2
    assert machine.having(f"route add unreachable {one}/32")
    assert machine.having(f"route add unreachable {two}/32")


def test_round_trips_are_emulated_where_the_kernel_can(layout):
    machine = Machine()
    network = Network(layout, 0.02, run=machine)
    network.up()
    assert network.missing == []
    for host in layout.of("device"):
        assert machine.having(f"qdisc add dev p-{host.name} root netem delay 10000us")
    assert len(machine.having("parent 1:", " tbf ")) == 4
    assert len(machine.having(":1 netem delay 10000us")) == 4


def test_without_netem_it_says_so_and_goes_on(layout):
    machine = Machine(missing="netem")
    network = Network(layout, 0.02, run=machine)
    network.up()
    (line,) = network.missing
    assert "netem is not in this kernel" in line
    assert len(machine.having("class replace")) == 4


def test_without_its_tcp_it_says_so_and_goes_on(layout):
    machine = Machine(missing="congctl")
    network = Network(layout, run=machine)
    network.up()
    assert network.missing == [
        "cubic is not in this kernel: TCP finds its rate as this machine does"
    ]
    assert len(machine.having("class replace")) == 4


def test_without_round_trips_netem_is_not_asked_for(layout):
    network = Network(layout, run=Machine(missing="netem"))
    network.up()
    assert network.missing == []
