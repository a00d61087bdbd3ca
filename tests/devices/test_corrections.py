"""What is learned corrects what is planned: worked by hand, without a party or a network."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from support.parties import six

from fedrt.cost.round import price
from fedrt.devices.coordinator.edges import SilentEdgeError
from fedrt.devices.coordinator.executor import RemoteExecutor
from fedrt.devices.coordinator.learned import Learned
from fedrt.devices.coordinator.world import MeasuredWorld, slower_radio
from fedrt.devices.edge.states import START
from fedrt.plan import Plan
from fedrt.world.observation import Observation
from fedrt.world.simulated import SimulatedWorld

WHO = np.arange(6)
EVERYBODY = np.array([[False, True], [True, False]])
NOISE = 'channel={kind="uniform",low_db=-100,high_db=-95,law="noise-density",noise_figure_db=7}'


def plan_of(seen: Observation) -> Plan:
    """An even split at the highest frequency."""
    share_hz = (seen.edge_bandwidth_hz / seen.cluster_size)[seen.edge_of_device]
    return Plan("feasible", share_hz, seen.cpu_max_hz, np.full(6, seen.local_steps))


def measured_world(learned: Learned, *settings: str, reachable=EVERYBODY) -> MeasuredWorld:
    """The world of six connected devices."""
    fleet = SimpleNamespace(
        settings=SimpleNamespace(least_devices=6, wait_s=0.0),
        connected=lambda: set(range(6)),
        reachable=lambda: reachable,
        tell=print,
    )
    return MeasuredWorld(six(*settings), 0, fleet, learned)


@pytest.fixture
def learned() -> Learned:
    """Device 1 trains for twice as long, device 4's uploads take three times, links four times."""
    found = Learned(6, 2)
    found.cycles[1].add(2.0, 0)
    found.upload[4].add(3.0, 0)
    found.backhaul[1].add(4.0, 0)
    return found


def test_plans_are_made_for_devices_as_they_were_measured(learned):
    scenario = SimulatedWorld(six(), 0).observe(0, 0)
    seen = measured_world(learned).observe(0, 0)
    planned, described = price(plan_of(seen), seen), price(plan_of(scenario), scenario)
    np.testing.assert_allclose(planned.compute_s / described.compute_s, [1, 2, 1, 1, 1, 1])
    np.testing.assert_allclose(planned.upload_s / described.upload_s, [1, 1, 1, 1, 3, 1])


def test_where_noise_is_spread_the_carrier_falls_by_what_was_learned(learned):
    scenario = SimulatedWorld(six(NOISE), 0).observe(0, 0)
    seen = measured_world(learned, NOISE).observe(0, 0)
    factor = np.array([1, 1, 1, 1, 3, 1])
    np.testing.assert_allclose(scenario.laws.cn0_hz / seen.laws.cn0_hz, factor)
    np.testing.assert_allclose(scenario.snr / seen.snr, factor)
    planned, described = price(plan_of(seen), seen), price(plan_of(scenario), scenario)
    assert planned.upload_s[4] > described.upload_s[4]


def test_links_are_as_slow_as_was_learned_and_gone_where_servers_do_not_meet(learned):
    described = SimulatedWorld(six(), 0).backhaul_bps(0)
    bps = measured_world(learned).backhaul_bps(0)
    assert described[0, 1] > 0
    np.testing.assert_allclose(bps, described / 4)
    apart = measured_world(learned, reachable=np.zeros((2, 2), dtype=bool))
    apart._begun = True
    np.testing.assert_array_equal(apart.backhaul_bps(0), 0.0)


def test_the_latency_of_a_gossip_step_is_the_scenarios_and_what_was_learned(learned):
    described_s = SimulatedWorld(six(), 0).gossip_latency_s
    learned.gossip_latency_s = 0.25
    assert measured_world(learned).gossip_latency_s == pytest.approx(described_s + 0.25)


def executor_of(learned: Learned, scenario) -> RemoteExecutor:
    fleet = SimpleNamespace(settings=SimpleNamespace(scenario=scenario), labels=["", ""])
    return RemoteExecutor(fleet, learned, None, None)


def outcome(planned_s, measured_s, delivered) -> SimpleNamespace:
    """Seconds of training and of uploads, as planned and as measured."""
    planned, cost = (
        SimpleNamespace(compute_s=np.array(compute_s), upload_s=np.array(upload_s))
        for compute_s, upload_s in (planned_s, measured_s)
    )
    refused = np.zeros(len(delivered), dtype=bool)
    return SimpleNamespace(
        planned=planned, cost=cost, delivered=np.array(delivered), is_refused=refused
    )


def test_a_ratio_to_the_corrected_plan_is_one_to_the_scenario(learned):
    """Device 1 was planned with twice its cycles, 4 s, and took 6 s: three times the scenario's.

    Its uploads, planned without a correction, took 1 of 2 s; those of device 4, with 3, 9 of 6 s:
    4.5. The median of (2, 3) is 2.5, of (3, 4.5) 3.75. Device 0 sent nothing, and teaches nothing.
    """
    seen = SimpleNamespace(t=3, r=1, device=np.array([0, 1, 4]))
    executor = executor_of(learned, six())
    planned_s = ([5.0, 4.0, 1.0], [1.0, 2.0, 6.0])
    measured_s = ([50.0, 6.0, 1.0], [9.0, 1.0, 9.0])
    executor.learn(seen, outcome(planned_s, measured_s, [False, True, True]))
    assert [learned.cycles[n].value for n in (0, 1, 4)] == [1.0, 2.5, 1.0]
    assert [learned.upload[n].value for n in (0, 1, 4)] == [1.0, 0.5, 3.75]
    # Two edge rounds a global round: this was the seventh after the first.
    assert [learned.cycles[n].at for n in (0, 1, 4)] == [-1, 7, 7]


def test_a_plan_of_no_time_teaches_nothing(learned):
    seen = SimpleNamespace(t=0, r=0, device=np.array([2]))
    executor_of(learned, six()).learn(seen, outcome(([0.0], [0.0]), ([1.0], [1.0]), [True]))
    assert (learned.cycles[2].value, learned.upload[2].value) == (1.0, 1.0)


def test_a_slower_radio_takes_so_much_longer():
    seen = SimulatedWorld(six(), 0).observe(0, 0)
    factor = np.array([1.0, 2.0, 0.5, 4.0, 1.0, 1.5])
    slower = slower_radio(seen, factor)
    ratio = price(plan_of(slower), slower).upload_s / price(plan_of(seen), seen).upload_s
    np.testing.assert_allclose(ratio, factor, rtol=1e-9)
    back = slower_radio(slower, 1 / factor)
    np.testing.assert_allclose(back.snr, seen.snr, rtol=1e-9)


def test_who_does_not_answer_an_order_is_left_out_and_says_so(learned, caplog):
    """Its state stays as it was, and nobody waits for it before the next round."""
    asked = []

    async def ask(c, kind, order, limit_s):
        asked.append((c, kind, [device.number for device in order.devices]))
        if c == 1:
            raise SilentEdgeError("edge-1: does not answer")
        return "report"

    fleet = SimpleNamespace(
        settings=SimpleNamespace(scenario=six(), least_deadline_s=5.0, deadline_factor=3.0),
        labels=[START, START],
        answered=np.ones(2, dtype=bool),
        samples={},
        run="run",
        calls=SimpleNamespace(ask=ask),
    )
    executor = RemoteExecutor(fleet, learned, None, None)
    seen = SimulatedWorld(six(), 0).observe(0, 0)
    reports = asyncio.run(executor._train(seen, plan_of(seen)))
    assert reports == ["report", None]
    assert sorted(asked) == [(0, "Train", [0, 1, 2]), (1, "Train", [3, 4, 5])]
    assert fleet.answered.tolist() == [True, False]
    assert fleet.labels[0] != START
    assert fleet.labels[1] == START
    words = "edge-1: does not answer: its devices are left out of this round"
    assert words in [record.getMessage() for record in caplog.records]
