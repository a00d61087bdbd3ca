"""A trainer's state: saved and taken up again, shared among equal runs, and the same for a seed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from support.learning_cases import small
from support.watched import UNEVEN, replay, run, spied

from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import POLICIES, make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

RING = ("fleet.num_edges=4", "fleet.cluster_sizes=[2,2,2,1]", 'base_graph={kind="ring"}')


@pytest.mark.parametrize(
    "settings", [(), ("rounds.edge_rounds=1",), RING], ids=["R2", "R1", "ring"]
)
def test_a_saved_state_goes_on_as_if_nothing_had_happened(settings, tmp_path):
    extra = ("rounds.global_rounds=5", "control.kappa=1", "learning.evaluate_every=1")
    trainer, rounds = run(small(*extra, *settings))
    first = Trainer(trainer.setup)
    anew = make_setup(SimulatedWorld(small(*extra, *settings), 0))
    for stop in range(5):
        replay(first, rounds[stop - 1 : stop] if stop else [])
        np.savez(tmp_path / "state.npz", **first.state())
        second = Trainer(anew)
        with np.load(tmp_path / "state.npz") as saved:
            second.restore(saved)
        said = replay(second, rounds[stop:])
        for done, (distances, metrics) in zip(rounds[stop:], said, strict=True):
            told = [
                (turn.outcome.distances, d)
                for turn, d in zip(done.edge_rounds, distances, strict=True)
            ]
            assert any(found is not None for found, _ in told)
            for found, true in told:
                assert found is None or np.array_equal(found.true, true)
            assert_equal_but_wall(metrics, done.last.outcome.metrics)
        assert torch.equal(second.models, trainer.models)
        assert {k: v.tobytes() for k, v in second.state().items()} == {
            k: v.tobytes() for k, v in trainer.state().items()
        }


def assert_equal_but_wall(one: Mapping[str, float], two: Mapping[str, float]) -> None:
    assert list(one) == list(two)
    for name in one:
        if name != "wall_s":
            assert_array_equal(one[name], two[name], err_msg=name)


def test_a_saved_state_does_not_move_with_the_trainer():
    trainer, rounds = run(small())
    other = Trainer(trainer.setup)
    replay(other, rounds[:1])
    state = other.state()
    kept = {name: value.copy() for name, value in state.items()}
    replay(other, rounds[1:])
    for name in state:
        assert_array_equal(state[name], kept[name])


def test_equal_work_is_done_once():
    """Static-T and CE-FedAvg use the same links and steps; MLL-SGD's steps are its own."""
    shared: dict = {}
    setup, spy = spied(small(*UNEVEN))
    evaluations = []
    setup.model.module.register_forward_hook(
        lambda m, *_: None if m.training else evaluations.append(1)
    )
    trainers, counts, metrics = {}, {}, {}
    for policy in ("static-t", "ce-fedavg", "mll-sgd"):
        before = len(spy.orders), len(evaluations)
        trainers[policy] = Trainer(setup, shared)
        rounds = list(simulate_rounds(setup.world, make_policy(policy), trainers[policy]))
        metrics[policy] = [done.metrics for done in rounds]
        counts[policy] = len(spy.orders) - before[0], len(evaluations) - before[1]
    assert counts["static-t"][0] == counts["mll-sgd"][0] == 4
    assert counts["static-t"][1] == counts["mll-sgd"][1] > 0
    assert counts["ce-fedavg"] == (0, 0)
    assert torch.equal(trainers["static-t"].models, trainers["ce-fedavg"].models)
    assert not torch.equal(trainers["static-t"].models, trainers["mll-sgd"].models)
    for one, two in zip(metrics["static-t"], metrics["ce-fedavg"], strict=True):
        assert_equal_but_wall(one, two)


def test_sharing_changes_nothing():
    """All six policies side by side give what each gives alone, bit for bit."""
    scenario, shared = small("rounds.global_rounds=3", "control.kappa=1"), {}
    setup = make_setup(SimulatedWorld(scenario, 0))
    for policy in POLICIES:
        together = Trainer(setup, shared)
        rounds = list(simulate_rounds(setup.world, make_policy(policy), together))
        alone, by_itself = run(scenario, policy)
        assert torch.equal(together.models, alone.models)
        for one, two in zip(rounds, by_itself, strict=True):
            assert_equal_but_wall(one.metrics, two.metrics)
            assert_array_equal(one.distances.believed, two.distances.believed)


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    one, first = run(small())
    two, second = run(small())
    assert torch.equal(one.models, two.models)
    for a, b in zip(first, second, strict=True):
        assert_equal_but_wall(a.metrics, b.metrics)
    other = Trainer(make_setup(SimulatedWorld(small(), 1)))
    list(simulate_rounds(other.setup.world, make_policy("fedrt"), other))
    assert not torch.equal(one.models, other.models)
