"""Runs over real connections: equal to the simulator's, bit for bit; stopped and cut off."""

from __future__ import annotations

from dataclasses import replace
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.children import LIMIT_S
from support.parties import six
from support.running import running

import fedrt
from fedrt.devices.actuators.duty import DutyCycle
from fedrt.devices.actuators.pacer import Pacer
from fedrt.devices.coordinator.executor import RemoteExecutor
from fedrt.devices.device.agent import DeviceAgent
from fedrt.devices.edge.states import global_round_of
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.records.checkpoint import Checkpoints
from fedrt.records.directory import read_run
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import run_rounds
from fedrt.world.fleet import edge_of_devices
from fedrt.world.simulated import SimulatedWorld

NORMED = (
    "learning.model='support.trained:Normed'",
    "learning.model_bits=10176",
    "learning.model_buffers=9",
)
SMALL_CNN = ("learning.model='small-cnn'", "learning.model_bits=194880")
CASES = {
    "as they are": (),
    "float32": ("learning.upload=float32",),
    "momentum, augmentation, int4": (
        *SMALL_CNN,
        "learning.augment=true",
        "learning.momentum=0.9",
        "learning.upload=int4",
    ),
    "batch norm, int4, int8 gossip": (*NORMED, "learning.upload=int4", "learning.gossip=int8"),
    "scaffold": ("learning.scaffold=true", "learning.momentum=0"),
}


class Watched(Trainer):
    """A trainer that keeps its models after every edge round and gossip."""

    def __init__(self, setup):
        super().__init__(setup)
        self.seen = {}

    def train(self, seen, plan, outcome):
        found = super().train(seen, plan, outcome)
        self.seen[seen.t, seen.r] = self.models.clone().numpy()
        return found

    def mix(self, t, gossip):
        found = super().mix(t, gossip)
        self.seen[t, "mix"] = self.models.clone().numpy()
        return found


def simulated(scenario, policy):
    """The rounds of a simulated run, and the models after each."""
    world = SimulatedWorld(scenario, 0)
    setup = make_setup(world, engine="sequential", device="cpu")
    trainer = Watched(setup)
    executor = SimulatedExecutor(world, trainer)
    return list(run_rounds(world, make_policy(policy), executor)), trainer.seen


def edge_models(folder, edges):
    """The models in the states of all edge servers, by round."""
    found = {}
    for c in range(edges):
        for path in (folder / "state" / f"edge-{c}").glob("*/*.npz"):
            t, what = path.name.split("-")[:2]
            with np.load(path) as state:
                key = (int(t), what if what == "mix" else int(what))
                found.setdefault(key, {})[c] = state["models"][0]
    return found


@pytest.mark.parametrize("case", CASES)
def test_models_and_metrics_equal_the_sequential_engine(tmp_path, case):
    scenario = six(*CASES[case])
    rounds, models = simulated(scenario, "ce-fedavg")
    metrics = []
    with running(tmp_path, scenario) as fleet:
        fleet.start_all(keep_updates=True)
        fleet.coordinate(progress=lambda done: metrics.append(dict(done.metrics)))
    found = edge_models(tmp_path, 2)
    assert found.keys() == models.keys()
    for key, expected in models.items():
        for c in range(2):
            np.testing.assert_array_equal(found[key][c], expected[c], err_msg=str((key, c)))
    for done, own in zip(rounds, metrics, strict=True):
        expected = {k: v for k, v in done.metrics.items() if k not in MEASURED}
        assert {k: own[k] for k in expected} == expected


@pytest.mark.parametrize(
    "given",
    [("rounds.edge_rounds=1",), ("rounds.edge_rounds=1", "learning.gossip=int8"), ()],
    ids=["with the gossip", "before a coded gossip", "before the last edge round"],
)
def test_distances_are_those_before_the_gossip(tmp_path, given):
    scenario = six(*given)
    rounds, _ = simulated(scenario, "ce-fedavg")
    found = []
    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        fleet.coordinate(progress=lambda done: found.extend(done.edge_rounds))
    turns = [turn for done in rounds for turn in done.edge_rounds]
    known = [n for n, turn in enumerate(turns) if turn.outcome.distances is not None]
    assert known == [n for n, turn in enumerate(found) if turn.outcome.distances is not None]
    assert len(known) == scenario.rounds.global_rounds
    for n in known:
        measured = found[n].outcome.distances
        assert measured.compared[0, 1]
        np.testing.assert_array_equal(measured.true, turns[n].outcome.distances.true)


def test_paced_and_slowed_devices_keep_to_their_orders_and_train_the_same(tmp_path, monkeypatch):
    scenario = six()
    rounds, models = simulated(scenario, "ce-fedavg")
    rates, shares = set(), set()

    class Spied(Pacer):
        def apply(self, given):
            rates.update((share.device, round(share.rate_bps)) for share in given)
            super().apply(given)

    class Slowed(DutyCycle):
        def apply(self, share, *more):
            shares.add(round(share, 9))
            return super().apply(share, *more)

    monkeypatch.setattr("fedrt.devices.actuators.device.Pacer", Spied)
    monkeypatch.setattr("fedrt.devices.actuators.choices.DutyCycle", Slowed)
    with running(tmp_path, scenario) as fleet:
        for number in range(2):
            fleet.start_edge(number, keep_updates=True)
        for number in range(6):
            fleet.start_device(number, bandwidth="pacer", cpu="duty")
        fleet.coordinate()
    found = edge_models(tmp_path, 2)
    for key, expected in models.items():
        for c in range(2):
            np.testing.assert_array_equal(found[key][c], expected[c], err_msg=str((key, c)))
    turns = [turn for done in rounds for turn in done.edge_rounds]
    cpu = {round(s, 9) for turn in turns for s in turn.plan.cpu_hz / turn.seen.cpu_max_hz}
    assert shares == cpu
    bps = [8 * t.outcome.planned.upload_bytes / t.outcome.planned.upload_s for t in turns]
    assert rates == {(n, round(rate)) for turn in bps for n, rate in enumerate(turn)}


MEASURED = {"wall_s", "distance_error"}
"""What a real run measures otherwise: its own clock, and errors that only a simulator knows."""


def test_a_coordinator_goes_on_where_it_stopped(tmp_path):
    scenario = six()
    _, models = simulated(scenario, "ce-fedavg")

    def stop(done):
        if done.last.t == 1:
            raise KeyboardInterrupt

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        with pytest.raises(KeyboardInterrupt):
            fleet.coordinate(progress=stop)
        half = Checkpoints(tmp_path / "run").newest_models()
        summary = fleet.coordinate()
    np.testing.assert_array_equal(half, models[1, "mix"])
    assert summary["global_rounds"] == 3
    last = edge_models(tmp_path, 2)[2, "mix"]
    for c in range(2):
        np.testing.assert_array_equal(last[c], models[2, "mix"][c])
    assert read_run(tmp_path / "run").summary == summary


def test_models_are_exported_as_those_of_a_simulated_run(tmp_path):
    scenario = six(*NORMED, "rounds.global_rounds=2")
    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        fleet.coordinate()
    options = {"engine": "sequential", "device": "cpu", "progress": False}
    simulated = fedrt.run(scenario, policy="ce-fedavg", out=tmp_path / "simulated", **options)
    for which in ("average", "edge:1"):
        found = []
        for folder in (tmp_path / "run", simulated.folder):
            file = fedrt.export(folder, folder / "model.pt", model=which)
            found.append(torch.load(file, weights_only=True))
        weights, expected = (each.pop("state_dict") for each in found)
        assert found[0] == found[1]
        assert weights.keys() == expected.keys()
        for name, tensor in expected.items():
            torch.testing.assert_close(weights[name], tensor, rtol=0, atol=0)


def test_a_device_that_is_cut_off_is_left_out_and_comes_back(tmp_path):
    scenario = six()
    came = []
    with running(tmp_path, scenario) as fleet:
        fleet.start_all()

        def cut(done):
            came.append([int(turn.outcome.delivered.sum()) for turn in done.edge_rounds])
            if done.last.t == 0:
                fleet.cut("device-1")
            if done.last.t == 1:
                fleet.start_device(1)

        fleet.coordinate(progress=cut, least_deadline_s=3.0, deadline_factor=1.0)
    assert came[0] == [6, 6]
    assert min(came[1]) == 5
    assert sum(came[1]) <= 11


def test_a_device_killed_while_it_trains_gets_its_order_again(tmp_path, monkeypatch):
    """What its codec had left over is on its disk: models are those of a run without the kill."""
    scenario = six("learning.upload=int4")
    _, models = simulated(scenario, "ce-fedavg")
    trained, killed, again = DeviceAgent._trained, Event(), Event()

    def train(self, job):
        if (self.settings.number, job.order.key.t) == (1, 1) and not killed.is_set():
            killed.set()
            fleet.cut("device-1")
            fleet.start_device(1)
            assert again.wait(LIMIT_S)
            raise RuntimeError("killed")
        if killed.is_set() and self.settings.number == 1:
            again.set()
        return trained(self, job)

    monkeypatch.setattr(DeviceAgent, "_trained", train)
    came = []
    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        fleet.coordinate(
            progress=lambda done: came.extend(t.outcome.delivered.all() for t in done.edge_rounds)
        )
    assert again.is_set()
    assert all(came)
    last = edge_models(tmp_path, 2)[2, "mix"]
    for c in range(2):
        np.testing.assert_array_equal(last[c], models[2, "mix"][c])


def test_edge_servers_keep_the_states_that_a_restart_may_need_and_no_others(tmp_path):
    scenario = six("rounds.global_rounds=5", "rounds.edge_rounds=1")
    kept = []

    def look(done):
        found = [path for path in (tmp_path / "state").glob("edge-0/*/*") if path.is_file()]
        kept.append({global_round_of(path.name.partition(".")[0]) for path in found})
        with np.load(max((tmp_path / "run" / "checkpoints").iterdir())) as saved:
            label = bytes(saved["labels"][0]).decode()
        assert {f"{label}.npz", f"{label}.report"} <= {path.name for path in found}

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        fleet.coordinate(progress=look)
    # As round t begins, what is older than the two rounds before it goes.
    assert kept == [{0}, {0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3, 4}]


def test_a_server_that_was_away_for_long_keeps_the_state_that_it_is_in(tmp_path):
    settings = SimpleNamespace(scenario=six())
    fleet = SimpleNamespace(settings=settings, labels=["000007-mix-a", "000002-01-a"])
    executor = RemoteExecutor(fleet, None, None, np.ones((2, 2), dtype=bool))
    executor.began.append(list(fleet.labels))
    assert [executor._forgettable(9, c) for c in range(2)] == [7, 2]
    executor.began.append(["000008-mix-a", "000008-mix-a"])
    assert [executor._forgettable(9, c) for c in range(2)] == [7, 2]
    executor.began.append(["000009-mix-a", "start"])
    assert [executor._forgettable(10, c) for c in range(2)] == [8, 0]


def test_an_edge_server_that_restarts_goes_on_from_its_states(tmp_path):
    scenario = six("learning.upload=int4")
    _, models = simulated(scenario, "ce-fedavg")
    with running(tmp_path, scenario) as fleet:
        fleet.start_all()

        def restart(done):
            if done.last.t == 0:
                fleet.cut("edge-1")
                fleet.start_edge(1)

        fleet.coordinate(progress=restart, least_devices=6)
    last = edge_models(tmp_path, 2)[2, "mix"]
    for c in range(2):
        np.testing.assert_array_equal(last[c], models[2, "mix"][c])


def test_a_run_goes_on_without_an_edge_server_that_does_not_come_back(tmp_path, monkeypatch):
    """It is waited for once in each round, and not for its model again."""
    monkeypatch.setattr("fedrt.devices.edge.links.ANSWER_S", 0.3)
    monkeypatch.setattr("fedrt.devices.coordinator.fleet.ANSWER_S", 2.0)
    monkeypatch.setattr("fedrt.devices.coordinator.executor.GRACE_S", 1.0)
    scenario, trained, gone, came = six(), DeviceAgent._trained, Event(), []
    theirs = edge_of_devices(scenario) == 1

    def train(self, job):
        if theirs[self.settings.number] and job.order.key.t == 1 and not gone.is_set():
            gone.set()
            fleet.cut("edge-1")
        return trained(self, job)

    monkeypatch.setattr(DeviceAgent, "_trained", train)
    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        summary = fleet.coordinate(
            progress=lambda done: came.extend(turn.outcome for turn in done.edge_rounds),
            least_deadline_s=5.0,
            deadline_factor=1.0,
        )
    assert summary["global_rounds"] == 3
    assert came[0].delivered.all()
    for outcome in came[4:]:
        assert set(outcome.device[outcome.delivered].tolist()) <= set(np.flatnonzero(~theirs))
    assert came[-1].delivered.any()


def test_another_scenario_is_one_line(tmp_path):
    from fedrt.errors import InputError

    scenario = six()
    with running(tmp_path, scenario) as fleet:
        fleet.start_edge(0)
        fleet.start_edge(1)
        settings = fleet.settings()
        other = replace(settings, seed=1)
        from fedrt.devices.coordinator.run import coordinate

        with pytest.raises(InputError, match="seed"):
            coordinate(other, tmp_path / "other", "")
