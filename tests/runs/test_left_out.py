"""Plans that leave devices out: what they pay, what is trained, what is told, and going on."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from kill_campaign import differences
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet
from support.failing import EVERYTHING, check_books
from support.halves import Halves, Nobody, drawn_half
from support.learning_cases import small
from support.own_parts import ENGINES, set_up
from support.paths import EXAMPLES
from support.tiny import tiny
from support.trained import start, train, trained

from fedrt.cli import main
from fedrt.cost.round import price
from fedrt.decision import plan_round
from fedrt.errors import InfeasibleError, InputError
from fedrt.learning.setup import Setup, make_setup
from fedrt.learning.trainer import Trainer
from fedrt.plan import plan_problems
from fedrt.policies import make_policy
from fedrt.records.summary import Account
from fedrt.runs.loop import simulate_rounds
from fedrt.studies.training import carry_on
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

EXAMPLE = json.loads((EXAMPLES / "round.json").read_text())


def told(scenario, policy):
    """The rounds of a run and its account, device rows included."""
    world = SimulatedWorld(scenario, 0)
    account, rounds = Account(world, policy, device_rows=True), []
    for done in simulate_rounds(world, policy):
        account.add(done)
        rounds.append(done)
    return account, rounds


def columns_of(account, name):
    table = account.history.tables()[name]
    return {key: table[key].to_numpy(zero_copy_only=False) for key in table.column_names}


def test_who_is_left_out_takes_nothing_and_the_others_what_they_did():
    """Edges of 2, 3 and 2 devices; 0 alone trains on edge 0, 2 and 4 on edge 1, nobody on 2."""
    world = SimulatedWorld(tiny(), 0)
    seen = world.observe(0, 0)
    whole = next(simulate_rounds(world, make_policy("fedrt"))).edge_rounds[0].plan
    trains = np.array([1, 0, 1, 0, 1, 0, 0], dtype=bool)
    some = replace(whole, trains=trains)
    assert plan_problems(some, seen) == []
    full, cost = price(whole, seen), price(some, seen)
    for f in fields(cost):
        part, of_all = getattr(cost, f.name), getattr(full, f.name)
        if len(part) == 7:
            assert_array_equal(part[trains], of_all[trains], err_msg=f.name)
            assert_array_equal(part[~trains], 0, err_msg=f.name)
    ends_s = full.compute_s + full.upload_s
    assert_array_equal(cost.edge_time_s, [ends_s[0], max(ends_s[2], ends_s[4]), 0])
    assert_array_equal(cost.upload_bytes, np.where(trains, 1e6, 0))


@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus", "static-r"])
def test_the_books_and_the_tables_of_a_run(policy):
    scenario = tiny("rounds.global_rounds=6")
    account, rounds = told(scenario, Halves(policy))
    spent, clock, seen_out = np.zeros(7), 0.0, set()
    for done in rounds:
        edge_s = np.zeros(3)
        for turn in done.edge_rounds:
            out = ~drawn_half(turn.seen)
            assert_array_equal(turn.seen.sum_by_edge(~out), [1, 1, 1])
            assert_array_equal(turn.outcome.delivered, ~out)
            assert_array_equal((turn.after.spent_j - spent)[out], 0)
            assert ((turn.after.spent_j - spent)[~out] > 0).all()
            ends_s = turn.cost.compute_s + turn.cost.upload_s
            assert_array_equal(turn.cost.edge_time_s, turn.seen.max_by_edge(ends_s * ~out))
            edge_s += turn.cost.edge_time_s + turn.cost.backhaul_s
            spent = turn.after.spent_j
            seen_out |= set(np.flatnonzero(out).tolist())
        clock += edge_s.max()
        assert done.ends_at_s == pytest.approx(clock, rel=1e-12)
    assert seen_out == set(range(7))
    whole, devices = columns_of(account, "rounds"), columns_of(account, "devices")
    # One of 2, 3 and 2 devices trains on each edge, twice a round.
    assert_array_equal(whole["left_out"], 8)
    assert len(devices["device"]) == 7 * 12
    assert_array_equal(
        devices["trains"],
        np.concatenate([turn.plan.trains for done in rounds for turn in done.edge_rounds]),
    )
    for name in ("bandwidth_hz", "cpu_hz", "local_steps", "compute_s", "upload_s", "energy_j"):
        assert_array_equal(devices[name][~devices["trains"]], 0, err_msg=name)
        assert (devices[name][devices["trains"]] > 0).all(), name
    # The parts of every edge still add up to the round's time.
    edges = columns_of(account, "edges")
    parts = edges["compute_s"] + edges["upload_s"] + edges["backhaul_s"] + edges["waiting_s"]
    assert_allclose(parts.reshape(6, 2, 3).sum(axis=1).T, [whole["time_s"]] * 3, rtol=1e-9)


def test_who_is_left_out_is_not_over_its_allowance_however_little_is_left():
    """Budgets that one edge round breaks: only those that train in it are told to be over."""
    account, rounds = told(tiny("fleet.energy_budget_j=0.01"), Halves("ce-fedavg"))
    devices = columns_of(account, "devices")
    assert (rounds[-1].last.after.left_j < 0).all()
    assert_array_equal(devices["over_allowance_j"][~devices["trains"]], 0)
    assert (devices["over_allowance_j"][devices["trains"]] > 0).all()


def test_a_policy_that_leaves_nobody_out_tells_so():
    account, _ = told(tiny(), make_policy("fedrt"))
    assert_array_equal(columns_of(account, "rounds")["left_out"], 0)
    assert columns_of(account, "devices")["trains"].all()


@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus", "mll-sgd"])
def test_what_fails_is_counted_without_those_that_are_left_out(policy):
    scenario = tiny("rounds.global_rounds=25", *EVERYTHING)
    account, rounds = told(scenario, Halves(policy))
    columns = check_books(account, rounds)
    plain, _ = told(scenario, make_policy(policy))
    # The world is the same: whoever is not expected any more was left out, and nobody else.
    out = np.concatenate(
        [turn.seen.sum_by_edge(~turn.plan.trains) for done in rounds for turn in done.edge_rounds]
    )
    expected = columns_of(plain, "edges")["expected"]
    assert_array_equal(columns["edges"]["expected"] + out, expected)
    for name in ("absent", "idle"):
        assert_array_equal(columns["edges"][name], columns_of(plain, "edges")[name])
    assert columns["rounds"]["left_out"].sum() == out.sum()
    devices = columns["devices"]
    assert_array_equal(devices["outcome"] == "left out", ~devices["trains"])
    for name in ("silent", "late"):
        assert (devices["outcome"] == name).sum() > 0
    assert_array_equal(devices["energy_j"][~devices["trains"]], 0)


# With training.


class Spy:
    name = "spy"

    def __init__(self, setup: Setup) -> None:
        self.engine, self.orders = setup.engine, []

    def train(self, models, order):
        self.orders.append(order)
        return self.engine.train(models, order)


def test_only_those_train_that_the_plan_lets_train():
    setup = make_setup(SimulatedWorld(small('learning.averaging="samples"'), 0))
    spy = Spy(setup)
    trainer = Trainer(replace(setup, engine=spy))
    rounds = list(simulate_rounds(setup.world, Halves(), trainer))
    turns = [turn for done in rounds for turn in done.edge_rounds]
    for order, turn in zip(spy.orders, turns, strict=True):
        assert_array_equal(order.devices, np.flatnonzero(drawn_half(turn.seen)))
        assert_array_equal(order.edge_of_device, [0, 1, 2])
        assert_array_equal(order.local_steps, 2)
        assert_allclose(order.weight, 1)
    assert len({tuple(order.devices) for order in spy.orders}) > 3
    assert all(np.isfinite(done.metrics["loss"]) for done in rounds)


def test_an_edge_where_nobody_trains_keeps_its_model_and_takes_no_time():
    scenario = small("rounds={global_rounds=1,edge_rounds=3}")
    setup = make_setup(SimulatedWorld(scenario, 0))
    trainer, models = Trainer(setup), []
    trained = trainer.train

    def watched(*args):
        updates = trained(*args)
        models.append(trainer.models)
        return updates

    trainer.train = watched
    (done,) = simulate_rounds(setup.world, Nobody(), trainer)
    for turn, after in zip(done.edge_rounds, models, strict=True):
        assert torch.equal(after[1], setup.first_model)
        assert not torch.equal(after[0], setup.first_model)
        assert turn.cost.edge_time_s[1] == 0
        assert (turn.cost.edge_time_s[[0, 2]] > 0).all()
    assert_array_equal(done.last.after.spent_j[2:5], 0)
    # The gossip that ends the round mixes what the others have learned into it.
    assert not torch.equal(trainer.models[1], setup.first_model)


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_engines_agree(engine):
    faults = "faults.silent={kind='random',probability=0.2}"
    found = []
    for name in ("sequential", engine):
        setup = set_up(name, faults)
        try:
            trainer = Trainer(setup)
            rounds = list(
                simulate_rounds(setup.world, make_policy("support.halves:Halves"), trainer)
            )
        finally:
            setup.close()
        found.append((trainer.models, rounds))
    (one, first), (two, second) = found
    # Eight edge rounds of float64, relative to how far they went.
    assert float((one - two).abs().max()) <= 1e-12 * float((one - setup.first_model).norm())
    for a, b in zip(first, second, strict=True):
        assert a.time_s == b.time_s
        assert a.metrics["loss"] == pytest.approx(b.metrics["loss"], rel=1e-9)


class StopError(Exception):
    """As if somebody had pressed a key."""


def stopped(path, *settings, policy, after):
    start(path, trained(*settings), policy, device_rows=True)

    def step(done):
        if done.last.t == after - 1:
            raise StopError

    with pytest.raises(StopError):
        carry_on(path, step, lambda line: None)
    return path


@pytest.mark.parametrize("settings", [(), EVERYTHING], ids=["nothing fails", "things fail"])
def test_a_run_that_was_stopped_goes_on_to_the_bit(settings, tmp_path):
    policy = "support.halves:Halves(policy='fedrt-plus')"
    whole = train(tmp_path / "whole", trained(*settings), policy, device_rows=True)
    devices = parquet.read_table(whole / "devices.parquet")
    assert 0 < sum(devices["trains"].to_pylist()) < devices.num_rows
    for after in (1, 3):
        cut = stopped(tmp_path / f"cut{after}", *settings, policy=policy, after=after)
        notes = []
        carry_on(cut, note=notes.append)
        assert notes == [f"going on after global round {after}"]
        assert differences(whole, cut) == []
        assert parquet.read_table(cut / "devices.parquet").equals(devices)


# One decision.


class Picky:
    """Leaves out the first device of every edge, and says nothing usable about it."""

    name, energy_horizon = "picky", "exact"

    def __init__(self, policy="fedrt", trains=None):
        self.policy, self.trains = make_policy(policy), trains

    def plan(self, seen, books):
        plan = self.policy.plan(seen, books)
        trains = np.ones(seen.num_devices, dtype=bool)
        trains[seen.first_device[:-1][seen.cluster_size > 0]] = False
        cpu_hz = np.where(trains, plan.cpu_hz, np.nan)
        return replace(plan, cpu_hz=cpu_hz, trains=trains if self.trains is None else self.trains)


class Everyone(Picky):
    """Names every device."""

    def plan(self, seen, books):
        plan = self.policy.plan(seen, books)
        return replace(plan, trains=np.ones(seen.num_devices, dtype=bool))


class FreePicky(Picky):
    """Leaves out as before, and calls every plan feasible."""

    def plan(self, seen, books):
        return replace(super().plan(seen, books), status="feasible")


def test_a_decision_says_who_trains():
    answer = plan_round(EXAMPLE | {"schema_version": 2}, Picky())
    keys = ["schema_version", "policy", "status", "round_time_s", "edges", "gossip"]
    assert list(answer) == keys
    assert answer["schema_version"] == 2
    assert list(answer["gossip"]) == ["links", "steps", "weights"]
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    for edge in answer["edges"]:
        assert [device["trains"] for device in edge["devices"]] == [
            i > 0 for i in range(len(edge["devices"]))
        ]
        first = dict(edge["devices"][0])
        assert next(iter(first)) == "trains"
        assert first.pop("local_steps") in (0, None)
        assert set(first.values()) == {0}
        times = [d["compute_s"] + d["upload_s"] for d in edge["devices"][1:]]
        assert edge["time_s"] == max(times, default=0)


def test_both_versions_say_the_same_of_a_plan_for_everybody():
    old = plan_round(EXAMPLE, "fedrt-plus")
    assert plan_round(EXAMPLE | {"schema_version": 1}, "fedrt-plus") == old
    new = plan_round(EXAMPLE | {"schema_version": 2}, "fedrt-plus")
    gossip = new.pop("gossip")
    assert new.pop("schema_version") == 2
    assert (gossip["links"], gossip["steps"], gossip["weights"]) == (
        old.pop("topology"),
        old.pop("gossip_steps"),
        old.pop("mixing"),
    )
    for edge in new["edges"]:
        assert all(device.pop("trains") for device in edge["devices"])
    assert new == old
    early = {k: v for k, v in EXAMPLE.items() if "backhaul" not in k and "consensus" not in k}
    assert plan_round(early | {"schema_version": 2})["gossip"] is None


def test_the_older_version_cannot_say_who_is_left_out(tmp_path, capsys):
    for state in (EXAMPLE, EXAMPLE | {"schema_version": 1}):
        with pytest.raises(InputError, match='add "schema_version": 2 to the state'):
            plan_round(state, Picky())
    # Everybody by name is everybody: that it can say.
    assert plan_round(EXAMPLE, Everyone())["edges"] == plan_round(EXAMPLE)["edges"]
    file = tmp_path / "state.json"
    file.write_text(json.dumps(EXAMPLE))
    assert main(["plan", str(file), "--policy", "support.halves:Halves"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "leaves devices out of the round" in err
    file.write_text(json.dumps(EXAMPLE | {"schema_version": 2}))
    assert main(["plan", str(file), "--policy", "support.halves:Halves"]) == 0
    found = json.loads(capsys.readouterr().out)
    told = [device["trains"] for edge in found["edges"] for device in edge["devices"]]
    assert {True, False} == set(told)
    for version in (0, 3, "2"):
        file.write_text(json.dumps(EXAMPLE | {"schema_version": version}))
        assert main(["plan", str(file)]) == 2
        assert "state.schema_version = " in capsys.readouterr().err


def test_strict_asks_nothing_of_those_that_are_left_out():
    """Nothing is left for the first device of every edge, plenty for all others."""
    state = json.loads(json.dumps(EXAMPLE)) | {"schema_version": 2, "consensus_limit": 100}
    for edge in state["edges"]:
        for i, device in enumerate(edge["devices"]):
            device["energy_allowance_j"] = 1000 if i else -5
    answer = plan_round(state, FreePicky(), strict=True)
    assert all(d["over_budget_j"] == 0 for edge in answer["edges"] for d in edge["devices"])
    state["edges"][0]["devices"][1]["energy_allowance_j"] = 1e-6
    with pytest.raises(InfeasibleError) as caught:
        plan_round(state, FreePicky(), strict=True)
    (line,) = caught.value.lines
    assert line.startswith("state.edges[0].devices[1].energy_allowance_j = 1e-06: ")


@pytest.mark.parametrize(
    "trains",
    [
        np.ones(6, dtype=bool),
        np.ones((7, 1), dtype=bool),
        np.ones(7),
        np.ones(7, dtype=np.int64),
        [True] * 7,
        True,
        "all",
    ],
)
def test_wrong_words_on_who_trains_are_one_line(trains):
    world = SimulatedWorld(tiny(), 0)
    with pytest.raises(InputError) as caught:
        list(simulate_rounds(world, Picky(trains=trains)))
    (line,) = caught.value.lines
    assert line.startswith("policy picky, global round 0, edge round 0: trains = ")
    assert line.endswith(": must be None or a boolean array of shape (7,)")


def test_only_what_stands_for_those_that_train_is_looked_at():
    seen = SimulatedWorld(tiny(), 0).observe(0, 0)
    plan = next(simulate_rounds(SimulatedWorld(tiny(), 0), Halves())).edge_rounds[0].plan
    assert plan_problems(plan, seen) == []
    assert len(plan_problems(replace(plan, trains=None), seen)) == 3
    first = int(np.flatnonzero(plan.trains)[0])
    for name, value in (("bandwidth_hz", np.nan), ("cpu_hz", 0.0), ("local_steps", 0)):
        wrong = getattr(plan, name).copy()
        wrong[first] = value
        (line,) = plan_problems(replace(plan, **{name: wrong}), seen)
        assert line.startswith(f"{name}: must ")
    # Bandwidth that nobody uses does not count against the edge's; bandwidth in use does.
    much = np.where(plan.trains, plan.bandwidth_hz, 1e30)
    assert plan_problems(replace(plan, bandwidth_hz=much), seen) == []
    (line,) = plan_problems(replace(plan, bandwidth_hz=np.where(plan.trains, 1e30, 1.0)), seen)
    assert line == "bandwidth_hz: must add up to no more than its edge's bandwidth"
