"""Runs in which things fail: the books balance, models stay where nobody came, and all is told."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet
from support.failing import EVERYTHING, check_books
from support.learning_cases import small
from support.tiny import as_options, tiny
from support.trained import train, trained

from fedrt.cli import main
from fedrt.graph import parts_of
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import POLICIES, make_policy
from fedrt.records.columns.failures import COUNTS
from fedrt.records.summary import Account
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical


def account_of(scenario, policy="fedrt", seed=0, learner=None):
    world = SimulatedWorld(scenario, seed)
    account, made = Account(world, make_policy(policy), device_rows=True), make_policy(policy)
    rounds = []
    for done in simulate_rounds(world, made, learner):
        account.add(done)
        rounds.append(done)
    return account, rounds


@pytest.mark.parametrize("policy", POLICIES)
def test_the_books_balance_whatever_fails(policy):
    account, rounds = account_of(tiny("rounds.global_rounds=25", *EVERYTHING), policy)
    columns = check_books(account, rounds)
    told = account.summary()["faults"]
    assert all(told["updates"][name] > 0 for name in COUNTS if name != "refused")
    assert told["server_rounds_down"] > 0
    assert told["rounds_in_parts"] > 0
    assert 0 < (columns["devices"]["cpu_fraction"] < 1).sum() == told["straggling"]


def test_every_policy_sees_the_same_failures():
    scenario = tiny("rounds.global_rounds=12", "learning.participation=0.7", *EVERYTHING)
    told = []
    for policy in POLICIES:
        account, rounds = account_of(scenario, policy)
        check_books(account, rounds)
        told.append(
            [
                [*(array.tolist() for array in list(vars(turn.outcome.failures).values())[:-1])]
                for done in rounds
                for turn in done.edge_rounds
            ]
        )
    assert all(each == told[0] for each in told)


def test_each_part_stays_connected_and_heals():
    scenario = tiny("rounds.global_rounds=30", *EVERYTHING)
    world = SimulatedWorld(scenario, 0)
    seen = set()
    for done in simulate_rounds(world, make_policy("fedrt-plus")):
        links, topology = world.links_up(done.last.t), done.last.plan.gossip.links
        together = [part.tolist() for part in parts_of(links)]
        assert [part.tolist() for part in parts_of(topology)] == together
        seen.add(len(together))
    assert seen == {1, 2, 3}


def test_with_all_servers_down_a_round_costs_nothing():
    for policy in POLICIES:
        account, rounds = account_of(
            tiny("faults.server_down={kind='random',probability=1}"), policy
        )
        check_books(account, rounds)
        assert account.summary()["total_time_s"] == 0
        assert account.summary()["energy_j_mean"] == 0


def test_faults_that_never_happen_change_no_number():
    plain, _ = account_of(tiny())
    never = (
        "faults.silent={kind='random',probability=0}",
        "faults.server_down={kind='markov',mean_up=1e9,mean_down=1}",
        "faults.deadline_factor=1000",
    )
    account, rounds = account_of(tiny(*never))
    check_books(account, rounds)
    for name, table in plain.history.tables().items():
        other = account.history.tables()[name].select(table.column_names)
        assert table.equals(other), name
    summary = account.summary()
    assert summary.pop("faults")["updates"]["delivered"] == 7 * 2 * 4
    assert summary == plain.summary()


# With training.


def test_who_did_not_deliver_does_not_count_and_an_edge_without_anybody_keeps_its_model():
    """Edge 1 is down in every round, device 0 is always silent: device 1 alone makes edge 0."""
    settings = (
        "rounds.edge_rounds=2",
        "faults.server_down={kind='random',probability=1,only=[1]}",
        "faults.silent={kind='random',probability=1,only=[0]}",
    )
    setup = make_setup(SimulatedWorld(small(*settings), 0))
    orders, first = [], setup.first_model

    class Spy:
        name = "spy"

        def train(self, models, order):
            orders.append(order)
            return setup.engine.train(models, order)

    trainer = Trainer(replace(setup, engine=Spy()))
    account, rounds = account_of(small(*settings), learner=trainer)
    check_books(account, rounds)
    assert len(orders) == 8
    for order in orders:
        assert order.devices.tolist() == [1, 5, 6]
        assert_allclose(order.weight, [1, 0.5, 0.5])
    assert torch.equal(trainer.models[1], first)
    # The two that are up have mixed over the one link between them: they agree.
    assert not torch.equal(trainer.models[0], first)
    assert_allclose(trainer.models[0], trainer.models[2], atol=1e-6)
    # A silent device trains for nothing and does not send.
    turn = rounds[0].last
    assert turn.cost.compute_j[0] > 0
    assert turn.cost.upload_j[0] == 0


def test_nobody_at_all_leaves_every_model_and_no_loss(tmp_path):
    run = train(tmp_path / "run", trained("faults.absent={kind='random',probability=1}"))
    table = parquet.read_table(run / "rounds.parquet").to_pydict()
    assert np.isnan(table["loss"]).all()
    assert set(table["delivered"]) == {0}
    assert table["absent"] == [14] * 5
    summary = json.loads((run / "summary.json").read_text())
    assert summary["final_loss"] is None
    assert summary["best_accuracy"] == summary["final_accuracy"]


ATTACKED = (
    "fleet={num_edges=2,num_devices=8,cluster_sizes=[4,4]}",
    "faults.attack={kind='nan',devices=[2,5]}",
    "faults.silent={kind='random',probability=0.2}",
)


def test_refused_updates_are_counted_and_named(tmp_path, capsys):
    run = train(tmp_path / "run", trained(*ATTACKED), device_rows=True)
    summary = json.loads((run / "summary.json").read_text())
    told = summary["faults"]
    devices = parquet.read_table(run / "devices.parquet").to_pylist()
    named = [
        (row["global_round"], row["edge_round"], row["edge"], row["device"])
        for row in devices
        if row["outcome"] == "refused"
    ]
    assert {place[3] for place in named} == {2, 5}
    # After three refusals in a row a device is left out for ten edge rounds.
    assert told["updates"]["refused"] == len(named) == 6
    keys = ("global_round", "edge_round", "edge", "device")
    assert [tuple(each[key] for key in keys) for each in told["refused"]] == named
    assert {each["reason"] for each in told["refused"]} == {"not finite"}
    # A refused update was trained and sent: its device pays like any other.
    paid = [row["energy_j"] for row in devices if row["outcome"] == "refused"]
    assert min(paid) > 0
    assert not np.isnan(parquet.read_table(run / "rounds.parquet")["loss"].to_numpy()).any()
    assert main(["run", "--allow-code", "--resume", str(run)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"{len(named)} refused" in out
    assert "device 2, edge 0, round 1.1: not finite" in out


def test_without_refusal_a_bad_update_stops_the_run(capsys, tmp_path):
    settings = [*ATTACKED, "faults.refuse=false"]
    args = [word for text in settings for word in ("--set", text)]
    out = ["--out", str(tmp_path / "run"), "--engine", "sequential"]
    assert main(["run", "quickstart", *out, *args]) == 4
    assert "the model of device 2 on edge 0" in capsys.readouterr().err


def test_estimate_tells_what_failed(capsys, tmp_path):
    options = as_options(*EVERYTHING, "rounds.global_rounds=20")
    args = ["estimate", "quickstart", "--policies", "fedrt,ce-fedavg", *options]
    assert main([*args, "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "what failed" in out
    assert "silent" in out
    assert main([*args, "--json", "--out", str(tmp_path / "again")]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]["fedrt"]["faults"]
    assert found["updates"]["expected"]["mean"] == 7 * 2 * 20
    assert sum(found["updates"][name]["mean"] for name in COUNTS[1:]) == 280


def test_policies_side_by_side_train_as_each_alone():
    scenario = small(*EVERYTHING, "faults.attack={kind='nan',share=0.34}")
    setup, shared, refused = make_setup(SimulatedWorld(scenario, 0)), {}, 0
    for policy in ("fedrt", "static-t", "ce-fedavg"):
        together = Trainer(setup, shared)
        account, rounds = account_of(scenario, policy, learner=together)
        check_books(account, rounds)
        alone = Trainer(setup)
        _, again = account_of(scenario, policy, learner=alone)
        assert torch.equal(together.models, alone.models)
        for one, two in zip(rounds, again, strict=True):
            for a, b in zip(one.edge_rounds, two.edge_rounds, strict=True):
                assert_array_equal(a.outcome.refused, b.outcome.refused)
                refused += int(a.outcome.is_refused.sum())
    assert refused > 0
