"""What the coordinator learns of gossip: a multiple for each link, and a latency for every step."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from support.parties import six

from fedrt.devices.coordinator.executor import RemoteExecutor
from fedrt.devices.coordinator.learned import LAST, GossipStep, Learned, Multiple, latency_of
from fedrt.policies import make_policy
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import run_rounds
from fedrt.world.simulated import SimulatedWorld


def gossips(x, y, servers=(0, 1)):
    return [GossipStep(float(a), float(b), servers) for a, b in zip(x, y, strict=True)]


def test_a_straight_line_worked_by_hand():
    """0.05 s and 1.5 times the message: 0.1 -> 0.2, 0.2 -> 0.35, 0.4 -> 0.65."""
    steps = gossips([0.1, 0.2, 0.4], [0.2, 0.35, 0.65])
    assert latency_of(steps) == pytest.approx(0.05)
    assert latency_of(steps[:2]) == 0.0  # too few to tell
    learned = Learned(2, 3)
    for now, step in enumerate(steps):
        learned.add_gossip(step, now)
    assert learned.gossip_latency_s == pytest.approx(0.05)
    assert [each.value for each in learned.backhaul] == pytest.approx([1.5, 1.5, 1.0])
    assert [each.at for each in learned.backhaul] == [2, 2, -1]


def test_a_message_takes_as_long_as_the_slower_of_two_servers_lets_it():
    """Medians 2, 0.5 and, without a report, 1: every pair has the greater of its two."""
    learned = Learned(2, 3)
    for ratio in (1.9, 2.0, 50.0):
        learned.backhaul[0].add(ratio, 0)
    learned.backhaul[1].add(0.5, 0)
    by_hand = [[2.0, 2.0, 2.0], [2.0, 0.5, 1.0], [2.0, 1.0, 1.0]]
    np.testing.assert_array_equal(learned.backhaul_factor(), by_hand)


@pytest.mark.parametrize("seed", range(20))
def test_noise_and_a_few_steps_that_went_wrong_change_little(seed):
    draw = np.random.default_rng(seed)
    x = draw.uniform(0.02, 0.4, 20)
    y = (0.06 + 1.1 * x) * draw.uniform(0.95, 1.05, 20)
    y[draw.choice(20, 3, replace=False)] *= 5
    assert latency_of(gossips(x, y)) == pytest.approx(0.06, abs=0.02)


def test_a_multiple_is_the_median_of_the_last_five_that_can_be_believed():
    """Of 9, 1, 2, 4, 3 and 7 the first is forgotten: 1, 2, 3, 4, 7 have the median 3."""
    multiple = Multiple()
    assert (multiple.value, multiple.spread, multiple.at) == (1.0, 0.0, -1)
    for now, ratio in enumerate((9.0, 1.0, 2.0, 4.0, 3.0, 7.0)):
        multiple.add(ratio, now)
    assert len(multiple.seen) == LAST
    assert (multiple.value, multiple.spread, multiple.at) == (3.0, 6.0, 5)
    for nonsense in (0.0, -1.0, np.nan, np.inf):
        multiple.add(nonsense, 9)
    assert (multiple.value, multiple.at) == (3.0, 5)
    for ratio in (1e9, 1e9, 1e9, 1e-9, 1e-9):
        multiple.add(ratio, 10)
    assert (multiple.value, multiple.spread) == (1e3, 1e3 - 1e-3)


def test_what_is_learned_is_shown_with_its_spread_and_its_age():
    learned = Learned(2, 1)
    learned.upload[1].add(1.5, 3)
    learned.upload[1].add(1.1, 7)
    table = learned.table(10)
    assert table["upload"][0] == {"value": 1.0, "spread": 0.0, "age": -1}
    assert table["upload"][1] == pytest.approx({"value": 1.3, "spread": 0.4, "age": 3})
    assert [len(table[name]) for name in ("cycles", "upload", "backhaul")] == [2, 2, 1]
    np.testing.assert_allclose(learned.upload_of(np.array([1, 0])), [1.3, 1.0])
    np.testing.assert_allclose(learned.cycles_of(np.array([1])), [1.0])
    assert learned.overhead_s == 0.0
    learned.beyond_s.extend([0.1, 0.4, 0.2])
    assert learned.overhead_s == 0.2


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([0.1, 0.1, 0.1], [0.2, 0.2, 0.2]),  # all the same: nothing can be told apart
        ([0.1, 0.2, 0.4], [0.1, 0.25, 0.5]),  # less than nothing
        ([0.1, 0.2, 0.4], [0.1, 0.2, 0.4]),
    ],
)
def test_where_there_is_no_latency_there_is_a_multiple(x, y):
    learned = Learned(2, 2)
    for now, step in enumerate(gossips(x, y)):
        learned.add_gossip(step, now)
    assert learned.gossip_latency_s == pytest.approx(0.0, abs=1e-12)
    ratio = np.median(np.array(y) / np.array(x))
    assert learned.backhaul[0].value == pytest.approx(ratio)


def test_longer_messages_take_less_time_in_noise_and_nothing_is_negative():
    steps = gossips([0.1, 0.2, 0.4], [0.3, 0.2, 0.1])
    assert latency_of(steps) == pytest.approx(0.2)
    learned = Learned(2, 2)
    for step in steps:
        learned.add_gossip(step, 0)
    assert all(each.value > 0 for each in learned.backhaul)


@pytest.mark.parametrize("trip_s", [0.0, 0.02])
def test_predictions_find_the_law_of_the_links(trip_s):
    """Real links take 1.2 times the scenario's time, and each step 0.03 s more."""
    scenario = six("rounds.global_rounds=12", f"overheads.round_trip_s={trip_s}")
    world = SimulatedWorld(scenario, 0)
    learned = Learned(6, 2)
    fleet = SimpleNamespace(settings=SimpleNamespace(scenario=scenario), labels=[""])
    executor = RemoteExecutor(fleet, learned, None, None)
    errors = []
    for done in run_rounds(world, make_policy("fedrt"), SimulatedExecutor(world)):
        turn = done.last
        scenario_s = turn.outcome.planned.backhaul_s
        steps = turn.plan.gossip.steps
        took_s = 1.2 * (scenario_s - steps * trip_s) + steps * (trip_s + 0.03)
        backhaul = turn.seen.backhaul
        told = SimpleNamespace(
            bps=backhaul.bps / learned.backhaul_factor(),
            latency_s=backhaul.latency_s + learned.gossip_latency_s,
        )
        links, bits = turn.plan.gossip.links, turn.seen.gossip_bits
        step_s = np.where(links, bits / np.where(links, told.bps, 1.0) + told.latency_s, 0.0)
        planned_s = steps * step_s.max(axis=1)
        errors.append(abs(planned_s.max() / took_s.max() - 1))
        outcome = SimpleNamespace(
            planned=SimpleNamespace(backhaul_s=planned_s), cost=SimpleNamespace(backhaul_s=took_s)
        )
        seen = SimpleNamespace(t=turn.t, r=turn.r, backhaul=told)
        executor.learn_gossip(seen, turn.plan, outcome)
    assert errors[0] > 0.1
    assert max(errors[4:]) < 1e-6
