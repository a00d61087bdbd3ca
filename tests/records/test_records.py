"""The record of a global round: all of it comes back to the bit, and nothing else passes for it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from support.failing import EVERYTHING
from support.halves import Halves
from support.laws import EVERY_LAW, Quiet
from support.learning_cases import small
from support.recorded import check_read_back, parts, rounds_of
from support.tiny import tiny

from fedrt.errors import InputError
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.records.checkpoint import Checkpoints
from fedrt.records.records import BadRecordError, RunSize, packed, unpacked
from fedrt.rounds import ACCEPTED, REASONS, ModelDistances
from fedrt.runs.executor import StandIn
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

SIZE = RunSize(7, 3, 2)


def trained_rounds(*settings, policy="fedrt"):
    setup = make_setup(SimulatedWorld(small(*settings), 0))
    return list(simulate_rounds(setup.world, make_policy(policy), Trainer(setup)))


class Partial(StandIn):
    """Some pairs of servers know their distance."""

    def distances(self, t):
        true = self.world.stand_in_distance(t)
        return ModelDistances(true, true > 1.1)


class Narrow:
    """A policy that plans with narrower numbers, as a user's may."""

    name, energy_horizon = "narrow", "exact"

    def plan(self, seen, books):
        plan = make_policy("ce-fedavg").plan(seen, books)
        gossip = plan.gossip and replace(plan.gossip, steps=np.int16(3))
        steps = plan.local_steps.astype(np.uint8)
        hz = (plan.bandwidth_hz * 0.9).astype(np.float32)
        return replace(plan, bandwidth_hz=hz, local_steps=steps, gossip=gossip)


class Coded:
    """A policy that has its gossip coded."""

    name, energy_horizon = "coded", "exact"

    def plan(self, seen, books):
        plan = make_policy("static-r").plan(seen, books)
        return replace(plan, gossip=plan.gossip and replace(plan.gossip, codec="int4"))


ATTACK = "faults.attack={kind='nan',devices=[2,5]}"
CASES = {
    "nothing trains": lambda: rounds_of(tiny(), make_policy("fedrt")),
    "one edge round": lambda: rounds_of(tiny("rounds.edge_rounds=1"), make_policy("fedrt")),
    "weights": lambda: rounds_of(tiny(), make_policy("fedrt-plus")),
    "coded gossip": lambda: rounds_of(tiny("learning.gossip=int4"), make_policy("fedrt-plus")),
    "a codec of its own": lambda: rounds_of(tiny(), Coded()),
    "some take part": lambda: rounds_of(tiny("learning.participation=0.5"), make_policy("fedrt")),
    "some know": lambda: rounds_of(
        tiny(), make_policy("fedrt"), Partial(SimulatedWorld(tiny(), 0))
    ),
    "left out": lambda: rounds_of(tiny(), Halves("fedrt-plus")),
    "things fail": lambda: rounds_of(
        tiny(*EVERYTHING, "rounds.global_rounds=8"), Halves("fedrt-plus")
    ),
    "every law": lambda: rounds_of(tiny(*EVERY_LAW), Quiet()),
    "things fail under every law": lambda: rounds_of(tiny(*EVERYTHING, *EVERY_LAW), Quiet()),
    "training": lambda: trained_rounds(policy="mll-sgd"),
    "refused": lambda: trained_rounds(*EVERYTHING, ATTACK),
}


@pytest.mark.parametrize("case", CASES)
def test_a_record_comes_back_to_the_bit(case, tmp_path):
    checkpoints, rounds = Checkpoints(tmp_path), CASES[case]()
    for done in rounds:
        checkpoints.save_record(done.last.t, done.edge_rounds)
    size = SIZE._replace(edge_rounds=len(rounds[0].edge_rounds))
    check_read_back(tmp_path, size, [done.edge_rounds for done in rounds])


def test_the_cases_have_what_they_are_named_for():
    """So that the test above shows something."""
    some = {case: CASES[case]()[1].edge_rounds for case in CASES}
    assert some["nothing trains"][0].plan.gossip is None
    assert some["nothing trains"][1].seen.backhaul.contraction_limit is None
    assert some["weights"][1].plan.gossip.weights is not None
    assert some["weights"][1].seen.backhaul.contraction_limit is not None
    assert some["some know"][0].outcome.distances.compared is not None
    assert some["training"][0].outcome.distances.compared is None
    assert "loss" in some["training"][1].outcome.metrics
    assert len(some["some take part"][0].seen.device) == 4
    assert np.isnan(some["left out"][0].plan.bandwidth_hz).any()
    assert some["things fail"][0].outcome.planned is not some["things fail"][0].outcome.cost
    laws = some["every law"][0].seen.laws
    assert laws.power_control
    assert laws.header_factor == 1.1
    none = {f.name for f in fields(laws) if getattr(laws, f.name) is None}
    assert none == set()
    assert some["every law"][1].seen.backhaul.latency_s == 0.05
    refused = [t for done in CASES["refused"]() for t in done.edge_rounds]
    assert any(turn.outcome.is_refused.any() for turn in refused)


def test_narrower_numbers_of_a_users_policy_come_back_as_the_same_numbers():
    (done, *_) = rounds_of(tiny(), Narrow())
    for turn, other in zip(
        done.edge_rounds, unpacked(packed(done.edge_rounds), SIZE, 0), strict=True
    ):
        for name in ("bandwidth_hz", "cpu_hz", "local_steps"):
            np.testing.assert_array_equal(getattr(other.plan, name), getattr(turn.plan, name))
        assert parts(other.outcome) == parts(turn.outcome)
        assert other.plan.local_steps.dtype == np.int64
    assert other.plan.gossip.steps == 3


def test_what_stays_as_it_was_is_written_once():
    """Constants of devices that are seen again take no room; what comes and goes does not stay."""
    done = rounds_of(tiny("rounds.edge_rounds=3"), make_policy("fedrt"))[0]
    arrays = packed(done.edge_rounds)
    assert "0.seen.capacitance" in arrays
    assert "1.seen.capacitance" not in arrays
    assert {"0.seen.snr", "1.seen.snr", "2.seen.snr"} <= arrays.keys()
    assert [f"{r}.gossip.links" in arrays for r in range(3)] == [False, False, True]
    assert [f"{r}.distances.true" in arrays for r in range(3)] == [False, True, False]
    again = unpacked(arrays, RunSize(7, 3, 3), 0)
    assert [turn.outcome.distances is None for turn in again] == [True, False, True]


def test_what_the_paper_does_not_have_takes_no_room():
    """Its names are those of records before there were other laws."""
    arrays = packed(rounds_of(tiny(), make_policy("fedrt"))[0].edge_rounds)
    new = ("laws", "cpu", "latency_s", "download_s", "download_j", "idle_j", "gossip_bits")
    assert not [name for name in arrays if name.split(".")[-1] in new or ".laws." in name]
    under = packed(rounds_of(tiny(*EVERY_LAW), Quiet())[0].edge_rounds)
    more = {name.partition(".")[2] for name in under} - {n.partition(".")[2] for n in arrays}
    assert {"seen.laws.cn0_hz", "seen.cpu.first", "cost.idle_j", "plan.tx_power_w"} <= more
    # A table of points is written once.
    assert "1.seen.cpu.s_per_cycle" not in under


BAD_TABLES = {
    "no first point": ("first", lambda a: a + 1),
    "an empty table": ("first", lambda a: np.array([0, 0, *a[1:]])),
    "no end": ("first", lambda a: a[:0]),
    "too few points": ("s_per_cycle", lambda a: a[:-1]),
    "too few joules": ("j_per_cycle", lambda a: a[:-1]),
    "another table": ("of_device", lambda a: a + 1),
    "below none": ("of_device", lambda a: a - 2),
}


@pytest.mark.parametrize("what", BAD_TABLES)
def test_tables_of_computing_energy_without_points_are_no_record(what):
    arrays = dict(packed(rounds_of(tiny(*EVERY_LAW), Quiet())[0].edge_rounds))
    name, change = BAD_TABLES[what]
    arrays[f"0.seen.cpu.{name}"] = change(arrays[f"0.seen.cpu.{name}"])
    with pytest.raises(BadRecordError, match="its tables of computing energy have no points"):
        unpacked(arrays, SIZE, 0)


def spoiled(**changes):
    """The arrays of a record with some changed, or gone where the change is None."""

    def damage(arrays):
        for name, change in changes.items():
            value = change(arrays.get(name)) if callable(change) else change
            arrays.pop(name, None)
            if value is not None:
                arrays[name] = value

    return damage


def on(name, change):
    return spoiled(**{name: change})


WRONG = {
    "no count": (on("edge_rounds", None), "how many edge rounds"),
    "a count of floats": (on("edge_rounds", np.array(2.0)), "how many edge rounds"),
    "many counts": (on("edge_rounds", np.array([2])), "how many edge rounds"),
    "none": (on("edge_rounds", np.array(0)), "it has 0 edge rounds, the run 2"),
    "too many": (on("edge_rounds", np.array(10**9)), "it has 1000000000 edge rounds, the run 2"),
    "another round": (on("0.seen.t", np.array(1)), "edge round 0 of global round 1 in another's"),
    "another edge round": (on("1.seen.r", None), "edge round 0 of global round 0 in another's"),
    "nobody seen": (on("0.seen.device", None), "what was seen"),
    "no bandwidths": (on("0.seen.edge_bandwidth_hz", None), "what was seen"),
    "a table of devices": (on("0.seen.device", lambda a: a[:, None]), "what was seen"),
    "another fleet's edges": (on("0.seen.edge_bandwidth_hz", np.ones(4)), "of 4 edge servers"),
    "flat": (on("0.seen.edge_bandwidth_hz", np.array(1.0)), "what was seen"),
    "a name of its own": (on("0.seen.mood", np.zeros(3)), "it holds seen.mood"),
    "a part of its own": (on("0.mood.of", np.zeros(3)), "it holds mood.of"),
    "a round of its own": (on("7.seen.snr", np.zeros(3)), "it holds 7.seen.snr"),
    "no channel": (on("0.seen.snr", None), "it lacks seen.snr"),
    "too few": (on("0.seen.snr", lambda a: a[:-1]), "its seen.snr is float64 of shape (6,)"),
    "words": (on("0.seen.snr", np.array(["a"] * 7)), "its seen.snr is <U1"),
    "single": (on("0.seen.snr", lambda a: a.astype(np.float32)), "its seen.snr is float32"),
    "not finite": (on("0.seen.snr", lambda a: a * np.nan), "its seen.snr is not finite"),
    "unknown device": (on("0.seen.device", lambda a: a + 1), "not those of the run"),
    "twice": (on("0.seen.device", lambda a: a * 0), "not those of the run"),
    "unordered": (on("0.seen.edge_of_device", lambda a: a[::-1].copy()), "not ordered"),
    "unknown edge": (on("0.seen.edge_of_device", lambda a: a + 1), "not ordered"),
    "no plan": (
        spoiled(
            **{f"0.plan.{n}": None for n in ("status", "bandwidth_hz", "cpu_hz", "local_steps")}
        ),
        "it lacks a part",
    ),
    "a status": (on("0.plan.status", np.array("great")), "cannot be carried out: status"),
    "fast": (on("0.plan.cpu_hz", lambda a: a * 9), "cannot be carried out: cpu_hz"),
    "no hertz": (on("0.plan.bandwidth_hz", lambda a: a * np.nan), "carried out: bandwidth_hz"),
    "numbers for who trains": (on("0.trains.trains", np.ones(7)), "its trains.trains is float64"),
    "no links": (on("1.gossip.links", None), "it lacks gossip.links"),
    "lonely": (on("1.gossip.links", lambda a: a & False), "carried out: gossip.links"),
    "endless": (on("1.gossip.steps", np.array(10**9)), "carried out: gossip.steps"),
    "early gossip": (
        spoiled(**{"0.gossip.links": np.ones((3, 3), dtype=bool), "0.gossip.steps": np.array(1)}),
        "must be None before the last edge round",
    ),
    "no backhaul": (
        spoiled(
            **{f"1.backhaul.{n}": None for n in ("bps", "consensus_distance", "consensus_limit")}
        ),
        "cannot be carried out: gossip: must be None",
    ),
    "no joules": (on("0.cost.compute_j", None), "it lacks cost.compute_j"),
    "endless seconds": (on("0.cost.edge_time_s", lambda a: a + np.inf), "is not finite"),
    "numbers for who delivered": (
        on("0.outcome.delivered", np.ones(7)),
        "outcome.delivered is float64",
    ),
    "half a failure": (on("0.failures.silent", np.zeros(7, dtype=bool)), "it lacks failures."),
    "half a prediction": (on("0.planned.compute_s", np.zeros(7)), "it lacks planned."),
    "reasons": (
        on("0.refused.refused", np.zeros((2, 2), dtype=np.int64)),
        "refused.refused is int64",
    ),
    "unheard of reasons": (on("0.refused.refused", np.full(7, len(REASONS))), "have no reason"),
    "less than accepted": (on("0.refused.refused", np.full(7, -2)), "have no reason"),
    "no gossip": (
        spoiled(
            **{f"1.gossip.{n}": None for n in ("links", "steps")},
            **{f"1.backhaul.{n}": None for n in ("bps", "consensus_distance", "consensus_limit")},
        ),
        "a backhaul is for the last edge round",
    ),
    "distances": (on("0.distances.true", np.zeros((2, 2))), "distances.true is float64"),
    "metrics without names": (on("1.metrics.values", np.zeros(2)), "it lacks metrics.names"),
    "a name too many": (
        spoiled(**{"1.metrics.names": np.array('["loss"]'), "1.metrics.values": np.zeros(2)}),
        "its metrics have no names",
    ),
    "no list": (
        spoiled(**{"1.metrics.names": np.array("{"), "1.metrics.values": np.zeros(1)}),
        "its metrics have no names",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_record_is_one_line(what, tmp_path):
    damage, words = WRONG[what]
    arrays = dict(packed(rounds_of(tiny(), make_policy("fedrt"))[0].edge_rounds))
    unpacked(arrays, SIZE, 0)
    damage(arrays)
    with pytest.raises(BadRecordError) as caught:
        unpacked(arrays, SIZE, 0)
    assert words in str(caught.value)
    path = tmp_path / "records" / "000000.npz"
    path.parent.mkdir()
    np.savez(path, allow_pickle=False, **arrays)
    with pytest.raises(InputError) as told:
        Checkpoints(tmp_path).load_records(1, SIZE)
    (line,) = told.value.lines
    assert line.startswith(f"{path}: cannot be read: is not the record of a round of this run: ")


def test_every_reason_to_refuse_an_update_can_be_recorded():
    arrays = dict(packed(rounds_of(tiny(), make_policy("fedrt"))[0].edge_rounds))
    reasons = np.array([*range(len(REASONS)), ACCEPTED])
    arrays["0.refused.refused"] = reasons
    np.testing.assert_array_equal(unpacked(arrays, SIZE, 0)[0].outcome.refused, reasons)


def test_records_in_another_order_are_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for done in rounds_of(tiny(), make_policy("fedrt")):
        checkpoints.save_record(3 - done.last.t, done.edge_rounds)
    with pytest.raises(InputError, match="edge round 0 of global round 3 in another's place"):
        checkpoints.load_records(4, SIZE)


def test_the_record_of_another_run_is_refused():
    arrays = packed(rounds_of(tiny(), make_policy("fedrt"))[0].edge_rounds)
    with pytest.raises(BadRecordError, match="of 3 edge servers, the run of 4"):
        unpacked(arrays, RunSize(7, 4, 2), 0)
    with pytest.raises(BadRecordError, match="not those of the run"):
        unpacked(arrays, RunSize(6, 3, 2), 0)
    with pytest.raises(BadRecordError, match="it has 2 edge rounds, the run 1"):
        unpacked(arrays, RunSize(7, 3, 1), 0)
