"""The simulated executor: when models train, are compared and mix, and what an outcome says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support.tiny import tiny

from fedrt.control.topology.consensus import see_backhaul
from fedrt.cost.outcome import failure_rules, simulate
from fedrt.plan import Gossip, Plan
from fedrt.rounds import ModelDistances, Updates
from fedrt.runs.executor import Recorded, SimulatedExecutor, StandIn
from fedrt.world.simulated import SimulatedWorld


@dataclass
class Watched:
    """Models whose distances tell the round they were asked for, and that note what is asked."""

    updates: Updates | None = None
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def start(self) -> ModelDistances:
        return ModelDistances(np.full((3, 3), -1.0))

    def train(self, seen, plan, outcome):
        self.calls.append(("train", seen.t, seen.r, outcome.delivered.sum()))
        return self.updates

    def distances(self, t):
        self.calls.append(("distances", t))
        return ModelDistances(np.full((3, 3), float(t)))

    def mix(self, t, gossip):
        self.calls.append(("mix", t, gossip.steps))
        return {"accuracy": t / 10}


def asked(world, t, r):
    """What is seen, and a plan of it: all at full speed with equal shares of the bandwidth."""
    seen, last = world.observe(t, r), r == world.scenario.rounds.edge_rounds - 1
    share_hz = seen.edge_bandwidth_hz / np.maximum(seen.cluster_size, 1)
    steps = np.full(seen.num_devices, seen.local_steps)
    plan = Plan("feasible", share_hz[seen.edge_of_device], seen.cpu_max_hz, steps)
    if last:
        bps = world.backhaul_bps(t)
        seen = replace(seen, backhaul=see_backhaul(world.scenario, bps, np.zeros(bps.shape)))
        plan = replace(plan, gossip=Gossip(bps > 0, 4))
    return seen, plan


@pytest.mark.parametrize("edge_rounds", [1, 2, 3, 4])
def test_models_are_compared_when_the_next_choice_of_links_needs_it(edge_rounds):
    """Before the last edge round; with a single one, after it, for the round that follows."""
    world = SimulatedWorld(tiny(f"rounds.edge_rounds={edge_rounds}"), 0)
    models = Watched()
    executor = SimulatedExecutor(world, models)
    for t in (0, 2):
        for r in range(edge_rounds):
            models.calls.clear()
            seen, plan = asked(world, t, r)
            outcome = executor.run(seen, plan)
            last, compared_for = r == edge_rounds - 1, None
            if edge_rounds == 1:
                compared_for = t + 1
            elif r == edge_rounds - 2:
                compared_for = t
            calls = [("train", t, r, 7)]
            calls += [] if compared_for is None else [("distances", compared_for)]
            calls += [("mix", t, 4)] if last else []
            assert models.calls == calls
            found = None if outcome.distances is None else outcome.distances.true[0, 0]
            assert found == compared_for
            assert outcome.metrics == ({"accuracy": t / 10} if last else {})


def test_where_nothing_trains_the_outcome_is_what_the_cost_model_says():
    world = SimulatedWorld(tiny(), 0)
    seen, plan = asked(world, 1, 0)
    outcome = SimulatedExecutor(world).run(seen, plan)
    expected = simulate(plan, seen, None, failure_rules(world.scenario))
    for name, value in vars(expected.cost).items():
        assert_array_equal(getattr(outcome.cost, name), value)
    assert outcome.refused is None
    assert outcome.delivered.all()


def test_training_says_what_was_refused_and_sent_and_nothing_of_times():
    """Devices are slow, so that the charged cost is not the planned one."""
    slow = ("faults.straggler={kind='random',probability=1}", "faults.straggler_speed=0.5")
    world = SimulatedWorld(tiny(*slow), 0)
    seen, plan = asked(world, 0, 0)
    plain = SimulatedExecutor(world, Watched()).run(seen, plan)
    refused, sent = np.array([-1, 0, -1, 2, -1, -1, 1]), np.arange(7.0)
    outcome = SimulatedExecutor(world, Watched(Updates(refused, sent))).run(seen, plan)
    assert_array_equal(outcome.refused, refused)
    assert_array_equal(outcome.cost.upload_bytes, sent)
    assert_array_equal(outcome.planned.upload_bytes, plain.planned.upload_bytes)
    assert_array_equal(outcome.cost.compute_s, 2 * outcome.planned.compute_s)
    assert_array_equal(outcome.cost.edge_time_s, plain.cost.edge_time_s)
    # Without sizes of their own the updates are whole models, as the cost model has it.
    whole = SimulatedExecutor(world, Watched(Updates(refused))).run(seen, plan)
    assert_array_equal(whole.refused, refused)
    assert_array_equal(whole.cost.upload_bytes, plain.cost.upload_bytes)
    assert whole.cost.upload_bytes.tolist() == [1e6] * 7  # 8e6 bits


def test_stand_ins_are_drawn_and_known_to_every_pair():
    world = SimulatedWorld(tiny(), 0)
    executor = SimulatedExecutor(world)
    assert isinstance(executor.models, StandIn)
    for found, t in ((executor.start, 0), (executor.models.distances(3), 3)):
        assert_array_equal(found.true, world.stand_in_distance(t))
        assert found.compared.all()
    assert SimulatedExecutor(world, Watched()).start.true[0, 0] == -1.0


def test_recorded_distances_are_those_of_their_round_and_the_last_one_stays():
    by_round = [np.full((3, 3), value) for value in (5.0, 6.0, 7.0)]
    models = Recorded(by_round, [{"loss": 0.5}, {"loss": 0.25}])
    assert [models.distances(t).true[0, 0] for t in range(5)] == [5.0, 6.0, 7.0, 7.0, 7.0]
    assert models.start.true[0, 0] == 5.0
    assert models.start.compared.all()
    gossip = Gossip(np.ones((3, 3), dtype=bool), 1)
    assert models.mix(1, gossip) == {"loss": 0.25}
    assert Recorded(by_round).mix(1, gossip) == {}
