"""A policy of a user's own in the loop: it runs, and where its plan is broken one line says how."""

from __future__ import annotations

import pytest
from support.looped import run
from support.tiny import tiny

from fedrt.cli import main
from fedrt.errors import InfeasibleError, InputError

pytestmark = pytest.mark.numerical

STRICT = 'control={budgets="strict"}'
OWN = """
from dataclasses import replace
import numpy as np
from fedrt.plan import Gossip
from fedrt.policies.ce_fedavg import CEFedAvg

class Own:
    name = "own"
    energy_horizon = "exact"
    def plan(self, seen, books):
        plan = CEFedAvg().plan(seen, books)
        return self.change(plan, seen)
    def change(self, plan, seen):
        return plan

def broken(**changes):
    class Broken(Own):
        def change(self, plan, seen):
            return replace(plan, **{k: f(plan, seen) for k, f in changes.items()})
    return Broken

def gossip(**changes):
    def change(plan, seen):
        if seen.backhaul is None:
            return None
        return replace(plan.gossip, **{k: f(plan.gossip, seen) for k, f in changes.items()})
    return broken(gossip=change)

def lonely(gossip, seen):
    links = gossip.links.copy()
    links[0] = links[:, 0] = False
    return links

def lopsided(gossip, seen):
    links = gossip.links.copy()
    links[0, 1] = False
    return links

Shape = broken(bandwidth_hz=lambda p, s: np.ones(3))
Wide = broken(bandwidth_hz=lambda p, s: p.bandwidth_hz * 1.01)
NoHz = broken(bandwidth_hz=lambda p, s: p.bandwidth_hz * 0)
Nan = broken(bandwidth_hz=lambda p, s: p.bandwidth_hz * np.nan)
List = broken(bandwidth_hz=lambda p, s: p.bandwidth_hz.tolist())
Fast = broken(cpu_hz=lambda p, s: s.cpu_max_hz * 1.01)
NanCpu = broken(cpu_hz=lambda p, s: p.cpu_hz * np.nan)
Lazy = broken(local_steps=lambda p, s: p.local_steps * 0)
Half = broken(local_steps=lambda p, s: p.local_steps + 0.5)
Mute = gossip(steps=lambda g, s: 0)
NanGossip = gossip(steps=lambda g, s: float("nan"))
Lonely = gossip(links=lonely)
Lopsided = gossip(links=lopsided)
Outside = gossip(links=lambda g, s: ~np.eye(s.num_edges, dtype=bool))
Early = broken(gossip=lambda p, s: Gossip(np.ones((3, 3), dtype=bool), 1))
Late = broken(gossip=lambda p, s: None)
Pair = broken(gossip=lambda p, s: p.gossip and (p.gossip.links, p.gossip.steps))
Gone = gossip(links=lambda g, s: None)
Numbers = gossip(links=lambda g, s: g.links.astype(float))
Listed = gossip(links=lambda g, s: g.links.tolist())
Small = gossip(links=lambda g, s: g.links[1:, 1:])
Word = broken(status=lambda p, s: "great")
Array = broken(status=lambda p, s: np.ones(2))
Endless = gossip(steps=lambda g, s: 10**400)
Yes = gossip(steps=lambda g, s: True)
Wide16 = broken(cpu_hz=lambda p, s: p.cpu_hz.astype(np.longdouble))
Sliver = broken(bandwidth_hz=lambda p, s: p.bandwidth_hz * 1e-320)

class Nothing(Own):
    def change(self, plan, seen):
        return None

class Many(Own):
    def change(self, plan, seen):
        return replace(plan, bandwidth_hz=plan.bandwidth_hz * 2, cpu_hz=plan.cpu_hz * 2)

class Spender(Own):
    def change(self, plan, seen):
        return replace(plan, cpu_hz=seen.cpu_max_hz.copy(), status="feasible")

class Sayer(Own):
    def change(self, plan, seen):
        return replace(plan, status="best-effort")

def acting(act):
    class Acting(Own):
        def plan(self, seen, books):
            act(seen, books)
            return super().plan(seen, books)
    return Acting

def frees(seen, books): seen.cycles[:] /= 10
def hurries(seen, books): seen.edge_bandwidth_hz[0] = 1e15
def forgets(seen, books): books.ledger.spent_j[:] = 0
def rewinds(seen, books):
    ends_s = books.elapsed_s
    ends_s += 1
def swaps(seen, books): books.pace("exact").device[:] = 0

Frees, Hurries, Forgets = acting(frees), acting(hurries), acting(forgets)
Rewinds, Swaps = acting(rewinds), acting(swaps)

class Raises(Own):
    def change(self, plan, seen):
        raise KeyError("oops")

class Quits(Own):
    def change(self, plan, seen):
        raise SystemExit(3)

class Unlicensed(Own):
    def __init__(self):
        raise ValueError("no licence")

class Shy(Own):
    @property
    def name(self):
        raise ValueError("no name today")

class Leaver(Own):
    def __init__(self):
        raise SystemExit(0)

class NoName:
    energy_horizon = "exact"
    def plan(self, seen, books): ...

class Horizon(Own):
    energy_horizon = "far"
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_loop_policy.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own")
def test_a_policy_of_ones_own():
    mine, theirs = run(tiny(), "own_loop_policy:Own"), run(tiny(), "ce-fedavg")
    assert mine[-1].ends_at_s == theirs[-1].ends_at_s


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Shape", "bandwidth_hz has the shape (3,): must be (7,)"),
        ("Wide", "bandwidth_hz: must add up to no more"),
        ("NoHz", "bandwidth_hz: must be finite and > 0"),
        ("Nan", "bandwidth_hz: must be finite and > 0"),
        ("List", "must be a numpy array of floats"),
        ("Fast", "cpu_hz: must lie from"),
        ("NanCpu", "cpu_hz: must lie from"),
        ("Lazy", "local_steps: must be >= 1"),
        ("Half", "must be a numpy array of whole numbers"),
        ("Mute", "gossip.steps = 0: must be a whole number from 1"),
        ("NanGossip", "gossip.steps = NaN: must be a whole number from 1"),
        ("Lonely", "gossip.links: must connect all edge servers"),
        ("Lopsided", "gossip.links: must be symmetric"),
        ("Outside", "inside the base graph"),
        ("Early", "gossip: must be None before the last edge round"),
        ("Late", "gossip = null: must be a fedrt.plan.Gossip in the last edge round"),
        ("Pair", "must be a fedrt.plan.Gossip in the last edge round"),
        ("Gone", "gossip.links: must be a boolean array of the shape (3, 3)"),
        ("Numbers", "gossip.links: must be a boolean array of the shape (3, 3)"),
        ("Listed", "gossip.links: must be a boolean array of the shape (3, 3)"),
        ("Small", "gossip.links: must be a boolean array of the shape (3, 3)"),
        ("Word", 'status = "great": must be one of'),
        ("Array", "must be one of optimal"),
        ("Endless", "must be a whole number from 1 to 1000"),
        ("Yes", "gossip.steps = true: must be a whole number"),
        ("Wide16", "must be a numpy array of floats, 64 bit at most"),
        ("Sliver", "bandwidth_hz: must be finite and > 0"),
        ("Nothing", "returned null: must be a fedrt.plan.Plan"),
        ("Raises", "KeyError: 'oops' (own_loop_policy.py, line "),
        ("Quits", "SystemExit: 3 (own_loop_policy.py, line "),
        ("Frees", "ValueError: output array is read-only"),
        ("Hurries", "ValueError: assignment destination is read-only"),
        ("Forgets", "ValueError: assignment destination is read-only"),
        ("Rewinds", "ValueError: output array is read-only"),
        ("Swaps", "ValueError: assignment destination is read-only"),
    ],
)
def test_a_broken_plan_is_one_line(name, words):
    with pytest.raises(InputError) as caught:
        run(tiny('base_graph={kind="star"}'), f"own_loop_policy:{name}")
    (line,) = caught.value.lines
    links = {"Lonely", "Lopsided", "Outside", "Numbers", "Listed", "Small", "Gone"}
    gossip = links | {"Late", "Pair", "Mute", "NanGossip", "Endless", "Yes"}
    turn = int(name in gossip)  # gossip is planned in the last edge round
    assert line.startswith(f"policy own, global round 0, edge round {turn}: ")
    assert words in line


@pytest.mark.usefixtures("own")
def test_every_problem_of_a_plan_at_once(capsys, tmp_path):
    with pytest.raises(InputError) as caught:
        run(tiny(), "own_loop_policy:Many")
    assert len(caught.value.lines) == 2


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NoName", "has no name"),
        ("Horizon", "energy_horizon"),
        ("Missing", "Missing"),
        ("Unlicensed", "cannot be made: ValueError: no licence"),
        ("Leaver", "cannot be made: SystemExit: 0"),
        ("Shy", "ValueError: no name today"),
    ],
)
def test_a_policy_that_cannot_be_had_is_one_line(name, words, capsys, tmp_path):
    out = tmp_path / "out"
    args = ["estimate", "--policies", f"own_loop_policy:{name}", "--out", str(out)]
    assert main(args) == 2
    text, err = capsys.readouterr()
    assert text == ""
    assert err.count("\n") == 1
    assert words in err
    assert not out.exists()


@pytest.mark.usefixtures("own")
def test_strict_believes_the_books_and_not_the_policy():
    # Device 5 computes with 1.05 J at f_min and 2.36 J at f_max: 1.5 J can be kept.
    strict = tiny(STRICT, "fleet.energy_budget_j=1.5", "rounds={global_rounds=1,edge_rounds=1}")
    assert len(run(strict, "fedrt-plus")) == 1
    with pytest.raises(
        InfeasibleError, match=r"device 5: its budget is 1\.5 J, but policy own has"
    ):
        run(strict, "own_loop_policy:Spender")
    with pytest.raises(InfeasibleError, match="policy own calls its plan best-effort"):
        run(tiny(STRICT, "fleet.energy_j_per_edge_round=100"), "own_loop_policy:Sayer")
