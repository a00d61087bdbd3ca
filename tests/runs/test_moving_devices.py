"""Devices that move from one edge server to another in mid-run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from kill_campaign import differences
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet
from support.failing import EVERYTHING, check_books
from support.halves import Halves
from support.learning_cases import small
from support.tiny import tiny
from support.trained import start, train, trained

from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import POLICIES, make_policy
from fedrt.records.summary import Account
from fedrt.runs.loop import simulate_rounds
from fedrt.studies.training import carry_on
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

HOME = [0, 0, 1, 1, 1, 2, 2]
AWAY = [0, 0, 1, 2, 1, 2, 2]


class Moving(SimulatedWorld):
    """Device 3 is at edge 1 until the first edge round of global round 1, and then at edge 2."""

    def edges_at(self, t, r):
        return np.array(AWAY if (t, r) >= (1, 1) else HOME)


def told(scenario, policy, world=Moving):
    found = world(scenario, 0)
    account, rounds = Account(found, policy, device_rows=True), []
    for done in simulate_rounds(found, policy):
        account.add(done)
        rounds.append(done)
    return account, rounds


def turns_of(rounds):
    return [turn for done in rounds for turn in done.edge_rounds]


@pytest.mark.parametrize("policy", [*POLICIES, "halves"])
def test_every_policy_plans_for_where_the_devices_are(policy):
    chosen = Halves() if policy == "halves" else make_policy(policy)
    account, rounds = told(tiny(), chosen)
    spent = np.zeros(7)
    for turn in turns_of(rounds):
        seen, moved = turn.seen, (turn.t, turn.r) >= (1, 1)
        order = [0, 1, 2, 4, 3, 5, 6] if moved else list(range(7))
        assert_array_equal(seen.device, order)
        assert_array_equal(seen.edge_of_device, [0, 0, 1, 1, 2, 2, 2] if moved else HOME)
        used_hz = seen.sum_by_edge(np.where(turn.plan.trained, turn.plan.bandwidth_hz, 0.0))
        assert (used_hz <= 1e6 * (1 + 1e-9)).all()
        # Its constants, its channel and its energy are its own, wherever it is.
        assert_array_equal(seen.capacitance, SimulatedWorld(tiny(), 0).fleet.capacitance[order])
        at_home = SimulatedWorld(tiny(), 0).observe(turn.t, turn.r)
        assert_array_equal(seen.snr, at_home.snr[order])
        spent[order] += turn.cost.energy_j
        assert_allclose(turn.after.spent_j, spent, rtol=1e-12)
        ends_s = turn.cost.compute_s + turn.cost.upload_s
        for edge in range(3):
            assert turn.cost.edge_time_s[edge] == ends_s[seen.edge_of_device == edge].max()
    devices = account.history.tables()["devices"].to_pylist()
    places = [row["edge"] for row in devices if row["device"] == 3]
    assert places == [1, 1, 1, 2, 2, 2, 2, 2]
    paid = sum(row["energy_j"] for row in devices if row["device"] == 3)
    assert paid == pytest.approx(rounds[-1].last.after.spent_j[3], rel=1e-12)


def test_the_allowance_goes_with_the_device():
    _, rounds = told(tiny("fleet.energy_budget_j=[8,8,8,3,8,8,8]"), make_policy("ce-fedavg"))
    for turn, left in zip(turns_of(rounds), range(8, 0, -1), strict=True):
        mine = int(np.flatnonzero(turn.seen.device == 3)[0])
        before = turn.after.left_j[3] + turn.cost.energy_j[mine]
        # The paper counts two edge rounds more than there are.
        assert turn.allowance_j[mine] == pytest.approx(before / (left + 2), rel=1e-12)


@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus", "static-r", "static-t"])
def test_what_fails_is_counted_where_the_device_is(policy):
    scenario = tiny("rounds.global_rounds=25", *EVERYTHING)
    account, rounds = told(scenario, make_policy(policy))
    edges = check_books(account, rounds)["edges"]
    moved = (edges["global_round"] > 1) | ((edges["global_round"] == 1) & (edges["edge_round"] > 0))
    expected = edges["expected"].reshape(-1, 3)
    assert_array_equal(expected[:3], [[2, 3, 2]] * 3)
    assert_array_equal(expected[3:], [[2, 2, 3]] * 47)
    assert moved.sum() == 47 * 3
    # Where edge 2 alone is down the device that has come to it is idle there.
    for turn in turns_of(rounds)[3:]:
        up = turn.outcome.failures.server_up
        if not up[2]:
            assert 3 not in turn.seen.device
            assert turn.outcome.failures.idle[2] + turn.outcome.failures.absent[2] == 3


def test_some_of_those_that_are_there_are_drawn():
    """Half of 2, 3 and 2 devices, rounded half up: 1, 2 and 1; then of 2, 2 and 3: 1, 1 and 2."""
    world = Moving(tiny("learning.participation=0.5", "rounds.global_rounds=8"), 0)
    drawn = set()
    for turn in turns_of(simulate_rounds(world, make_policy("fedrt"))):
        moved = (turn.t, turn.r) >= (1, 1)
        assert_array_equal(turn.seen.cluster_size, [1, 1, 2] if moved else [1, 2, 1])
        if moved:
            drawn |= set(turn.seen.device[turn.seen.edge_of_device == 2].tolist())
    assert drawn == {3, 5, 6}


# With training.


class Spy:
    """Writes down the models and the order of every edge round."""

    name = "spy"

    def __init__(self, engine) -> None:
        self.engine, self.seen = engine, []

    def train(self, models, order):
        trained = self.engine.train(models, order)
        self.seen.append((models, order, trained.models))
        return trained


def test_it_starts_from_its_new_edges_model_and_takes_its_data_along():
    """By hand: edge 2 after the move is the mean of what its three devices make of its model."""
    scenario = small('learning.averaging="uniform"', "rounds.global_rounds=2")
    setup = make_setup(Moving(scenario, 0))
    spy = Spy(setup.engine)
    list(simulate_rounds(setup.world, make_policy("fedrt"), Trainer(replace(setup, engine=spy))))
    before, order, after = spy.seen[3]
    assert (order.t, order.r) == (1, 1)
    assert_array_equal(order.devices, [0, 1, 2, 4, 3, 5, 6])
    assert_array_equal(order.edge_of_device, [0, 0, 1, 1, 2, 2, 2])
    assert not torch.equal(before[1], before[2])
    alone = []
    for place in (4, 5, 6):
        part = slice(place, place + 1)
        mine = replace(
            order,
            devices=order.devices[part],
            edge_of_device=order.edge_of_device[part],
            local_steps=order.local_steps[part],
            weight=np.ones(1),
        )
        alone.append(setup.engine.train(before, mine).models[2])
    assert_allclose(torch.stack(alone).mean(0), after[2], atol=1e-6)
    # Its batches are those of device 3 and not of whoever had its place.
    others = [setup.batches.draw(1, 1, 2, np.array([n])) for n in (3, 5)]
    assert not np.array_equal(*others)
    wrong = replace(order, devices=np.array([0, 1, 2, 3, 4, 5, 6]))
    assert not torch.equal(setup.engine.train(before, wrong).models[2], after[2])


def test_by_samples_it_counts_by_its_own():
    setup = make_setup(Moving(small('learning.averaging="samples"'), 0))
    spy = Spy(setup.engine)
    list(simulate_rounds(setup.world, make_policy("static-t"), Trainer(replace(setup, engine=spy))))
    sizes = setup.batches.sizes
    for (_, order, _), (t, r) in zip(spy.seen, np.ndindex(4, 2), strict=True):
        there = np.array(AWAY if (t, r) >= (1, 1) else HOME)
        for edge in range(3):
            mine = order.edge_of_device == edge
            assert_array_equal(order.devices[mine], np.flatnonzero(there == edge))
            share = sizes[there == edge] / sizes[there == edge].sum()
            assert_allclose(order.weight[mine], share, rtol=1e-12)


def test_engines_agree():
    exact = ('learning.model="smooth-cnn"', 'learning.dtype="float64"')
    found = []
    for engine, options in (("sequential", {}), ("stacked", {"chunk": 2, "workers": 1})):
        setup = make_setup(Moving(small(*exact), 0), engine=engine, **options)
        trainer = Trainer(setup)
        list(simulate_rounds(setup.world, make_policy("fedrt"), trainer))
        found.append(trainer.models)
    one, two = found
    assert float((one - two).abs().max()) <= 1e-12 * float((one - setup.first_model).norm())


SOME_FAIL = [line for line in EVERYTHING if "absent" not in line and "server_down" not in line]


class StopError(Exception):
    """As if somebody had pressed a key."""


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        ("fedrt", ()),
        ("fedrt-plus", SOME_FAIL),
        ("support.halves:Halves", ("learning.participation=0.7",)),
    ],
)
def test_a_run_that_was_stopped_goes_on_to_the_bit(policy, settings, tmp_path, monkeypatch):
    """Stopped before the move, in the round of it, and after it."""
    monkeypatch.setattr(
        "fedrt.studies.training.make_world", lambda scenario, seed, _: Moving(scenario, seed)
    )
    whole = train(tmp_path / "whole", trained(*settings), policy, device_rows=True)
    devices = parquet.read_table(whole / "devices.parquet").to_pylist()
    assert {row["edge"] for row in devices if row["device"] == 3} == {1, 2}
    for last in (0, 1, 3):
        cut = start(tmp_path / f"cut{last}", trained(*settings), policy, device_rows=True)

        def step(done, last=last):
            if done.last.t == last:
                raise StopError

        with pytest.raises(StopError):
            carry_on(cut, step, lambda line: None)
        carry_on(cut, note=lambda line: None)
        assert differences(whole, cut) == []
