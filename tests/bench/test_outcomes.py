"""Which work a policy did is read off its plans, whatever it is called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedrt.bench.outcomes import WORDS, other_work, run_task
from fedrt.policies import SHIPPED
from fedrt.policies.ce_fedavg import CEFedAvg
from fedrt.system.plugins import Offer, offered

SAME = {"fedrt", "static-t", "ce-fedavg", "fedrt-plus", "hfel", "proportional-fair", "max-min"}
LACKS = {
    "mll-sgd": {"other_steps"},
    "fedrt-joint": {"fewer_bits"},
    "even-int8": {"fewer_bits"},
    "even-int4": {"fewer_bits"},
    "fedcs": {"left_out"},
    "oort": {"left_out"},
    "tifl": {"left_out"},
    "lroa": {"left_out"},
    "static-r": {"over_rho"},
    "hierfavg": {"over_consensus_limit"},
    "d-psgd-ring": {"over_consensus_limit", "over_rho"},
    "d-psgd-mst": {"over_consensus_limit", "over_rho"},
    "d-psgd-mbst": {"over_consensus_limit", "over_rho"},
    "matcha": {"unconnected", "over_consensus_limit", "over_rho"},
}


@pytest.mark.parametrize("policy", SHIPPED)
def test_shipped_policies_do_the_work_that_their_papers_say(policy):
    found = run_task("digits", policy, 0)
    assert {name for name in WORDS if found[name]} == LACKS.get(policy, set())
    assert (policy in SAME) == (not other_work(found))


class LeavesOneOut(CEFedAvg):
    """As CE-FedAvg, but in one edge round of the run one device does not train."""

    def plan(self, seen, books):
        plan = super().plan(seen, books)
        if (seen.t, seen.r) != (3, 0):
            return plan
        trains = plan.trained.copy()
        trains[4] = False
        return replace(plan, trains=trains)


class SkipsAStep(CEFedAvg):
    """As CE-FedAvg, but in one edge round of the run one device trains a step less."""

    def plan(self, seen, books):
        plan = super().plan(seen, books)
        steps = plan.local_steps.copy()
        steps[2] -= (seen.t, seen.r) == (5, 1)
        return replace(plan, local_steps=steps)


@pytest.mark.parametrize(
    ("policy", "counts", "words"),
    [
        (LeavesOneOut, {"left_out": 1}, ["leaves devices out"]),
        (SkipsAStep, {"other_steps": 1}, ["other local steps"]),
    ],
)
def test_a_single_device_in_a_single_round_is_noticed(policy, counts, words):
    with offered({"python:Own": Offer(policy, policy)}):
        found = run_task("digits", "python:Own", 0)
    assert found["name"] == "ce-fedavg"
    assert {name: found[name] for name in WORDS} == {**dict.fromkeys(WORDS, 0), **counts}
    assert other_work(found) == words


def test_the_outcome_is_that_of_an_estimate():
    import fedrt
    from fedrt.runs.loop import make_world
    from fedrt.studies.estimates import estimate_run

    found = run_task("digits", "ce-fedavg", 1)
    world = make_world(fedrt.load_scenario("bench/digits"), 1)
    said = estimate_run(world, fedrt.make_policy("ce-fedavg"))
    assert found["time_s"] == pytest.approx(said["total_time_s"], rel=1e-12)
    for name in ("energy_j_mean", "over_budget_devices", "over_budget_j"):
        assert found[name] == pytest.approx(said[name], rel=1e-9)


def test_ours_mixes_as_well_as_rho_asks_also_while_a_server_is_down():
    found = run_task("faults", "fedrt-plus", 0)
    assert other_work(found) == []
