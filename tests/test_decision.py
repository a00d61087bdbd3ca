"""The JSON contract of one decision: what is accepted, what is refused and how, what comes back."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support.junk import broken
from support.paths import EXAMPLES

import fedrt
from fedrt.decision import parse_state, plan_round, read_state
from fedrt.errors import InfeasibleError, InputError
from fedrt.plan import plan_problems
from fedrt.policies import POLICIES, make_policy

EXAMPLE = json.loads((EXAMPLES / "round.json").read_text())
POLICY_NAMES = list(POLICIES)


def changed(**at_top):
    state = copy.deepcopy(EXAMPLE)
    state.update(at_top)
    return state


def with_device(**fields):
    state = copy.deepcopy(EXAMPLE)
    state["edges"][0]["devices"][1].update(fields)
    return state


def problems_of(state) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_state(state)
    return caught.value.lines


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_answer_has_the_shape_of_the_contract(policy):
    answer = plan_round(EXAMPLE, policy)
    assert list(answer) == [
        "policy",
        "status",
        "round_time_s",
        "gossip_steps",
        "edges",
        "topology",
        "mixing",
    ]
    assert answer["policy"] == policy
    assert answer["gossip_steps"] == EXAMPLE["gossip_steps"]
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert len(answer["edges"]) == len(EXAMPLE["edges"])
    ends = []
    for given_edge, edge in zip(EXAMPLE["edges"], answer["edges"], strict=True):
        assert list(edge) == ["time_s", "backhaul_s", "devices"]
        assert len(edge["devices"]) == len(given_edge["devices"])
        ends.append(given_edge["elapsed_s"] + edge["time_s"] + edge["backhaul_s"])
        times = [d["upload_s"] + d["compute_s"] for d in edge["devices"]]
        assert edge["time_s"] == pytest.approx(max(times), rel=1e-12)
        for device in edge["devices"]:
            assert list(device) == [
                "bandwidth_hz",
                "cpu_hz",
                "local_steps",
                "upload_s",
                "compute_s",
                "energy_j",
                "over_budget_j",
            ]
    assert answer["round_time_s"] == max(ends)
    assert all(c < c2 for c, c2 in answer["topology"])


def test_statuses_say_what_is_proven():
    assert plan_round(EXAMPLE, "fedrt-plus")["status"] == "optimal"
    assert plan_round(EXAMPLE, "ce-fedavg")["status"] in ("feasible", "best-effort")
    without = {k: v for k, v in EXAMPLE.items() if "backhaul" not in k and "consensus" not in k}
    for policy in ("fedrt", "static-t", "fedrt-plus"):
        answer = plan_round(without, policy)
        assert answer["status"] == "optimal"
        assert answer["topology"] is None
        assert all(edge["backhaul_s"] == 0 for edge in answer["edges"])


def test_fedrt_claims_optimal_only_where_the_exact_search_agrees():
    greedy, exact = plan_round(EXAMPLE, "fedrt"), plan_round(EXAMPLE, "fedrt-plus")
    equal = greedy["round_time_s"] <= exact["round_time_s"] * (1 + 1e-12)
    assert (greedy["status"] == "optimal") == equal


def test_unknown_local_steps_come_back_as_null_and_mll_sgd_asks_for_them():
    state = copy.deepcopy(EXAMPLE)
    del state["local_steps"]
    assert plan_round(state)["edges"][0]["devices"][0]["local_steps"] is None
    with pytest.raises(InputError, match=r"^state\.local_steps: missing; the policy mll-sgd"):
        plan_round(state, "mll-sgd")


def test_an_edge_without_devices_only_mixes():
    state = copy.deepcopy(EXAMPLE)
    state["edges"][1]["devices"] = []
    for policy in POLICY_NAMES:
        edge = plan_round(state, policy)["edges"][1]
        assert edge["time_s"] == 0
        assert edge["backhaul_s"] > 0
        assert edge["devices"] == []


def test_a_single_edge_has_no_links():
    state = changed(
        edges=EXAMPLE["edges"][:1],
        backhaul_bps=[[0]],
        consensus_distance=[[0]],
        consensus_limit=0,
    )
    answer = plan_round(state, "fedrt-plus")
    assert answer["topology"] == []
    assert answer["edges"][0]["backhaul_s"] == 0
    assert answer["status"] == "optimal"


@pytest.mark.parametrize("limit", [1e-4, 1e-3, 1e-2, 0.1])
def test_a_choice_of_codecs_is_never_called_optimal(limit):
    """Codecs and links are chosen alternately: nothing proves that no other choice is faster."""
    state = changed(schema_version=2, codecs=["int3", "int4", "int8"], distortion_limit=limit)
    answer = plan_round(state, "fedrt-joint")
    assert answer["status"] == "feasible"
    codecs = {device["codec"] for edge in answer["edges"] for device in edge["devices"]}
    assert codecs <= {"int3", "int4", "int8"}


@pytest.mark.parametrize("allowance", [0, -3.5, 1e-9])
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_an_allowance_that_cannot_be_met(policy, allowance):
    state = with_device(energy_allowance_j=allowance)
    answer = plan_round(state, policy)
    assert answer["status"] == "best-effort"
    device = answer["edges"][0]["devices"][1]
    assert device["over_budget_j"] == pytest.approx(device["energy_j"] - allowance, rel=1e-12)
    with pytest.raises(InfeasibleError, match=r"edges\[0\]\.devices\[1\]\.energy_allowance_j"):
        plan_round(state, policy, strict=True)


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_limit_that_the_base_graph_breaks(policy):
    state = copy.deepcopy(EXAMPLE)
    state["backhaul_bps"][0][1] = state["backhaul_bps"][1][0] = 0
    state["consensus_limit"] = 0
    answer = plan_round(state, policy)
    assert answer["status"] == "best-effort"
    assert answer["topology"] == [[0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    with pytest.raises(InfeasibleError, match=r"state\.consensus_limit = 0: even with every link"):
        plan_round(state, policy, strict=True)


def test_strict_passes_a_plan_that_keeps_every_limit():
    assert plan_round(EXAMPLE, "fedrt", strict=True) == plan_round(EXAMPLE, "fedrt")


class Changed:
    """FedRT's plan, changed."""

    name, energy_horizon = "mine", "paper"

    def __init__(self, change):
        self.change = change

    def plan(self, seen, books):
        return self.change(make_policy("fedrt").plan(seen, books), seen)


def with_gossip(**changes):
    return lambda plan, seen: replace(plan, gossip=replace(plan.gossip, **changes))


def raising(plan, seen):
    raise KeyError("oops")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plan, seen: None, "returned null: must be a fedrt.plan.Plan"),
        (lambda plan, seen: replace(plan, cpu_hz=seen.cpu_max_hz * 2), "cpu_hz: must lie from"),
        (with_gossip(steps=10**400), "from 1 to 1000"),
        (
            lambda plan, seen: replace(plan, bandwidth_hz=plan.bandwidth_hz * 1e-320),
            "bandwidth_hz: must be finite and > 0",
        ),
        (lambda plan, seen: seen.cycles.fill(1), "read-only"),
        (raising, "KeyError: 'oops' (test_decision.py, line "),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_one_line(change, words):
    with pytest.raises(InputError) as caught:
        plan_round(EXAMPLE, Changed(change))
    (line,) = caught.value.lines
    assert line.startswith("policy mine: ")
    assert words in line


def test_numbers_of_numpy_become_plain_ones():
    change = Changed(
        lambda plan, seen: replace(
            with_gossip(steps=np.int64(3))(plan, seen), cpu_hz=seen.cpu_max_hz.astype(np.float32)
        )
    )
    assert json.loads(json.dumps(plan_round(EXAMPLE, change)))["gossip_steps"] == 3


def test_strict_looks_at_the_plan_and_not_at_its_status():
    calm = changed(consensus_limit=10)
    for edge in calm["edges"]:
        for device in edge["devices"]:
            device["energy_allowance_j"] = 1000
    sayer = Changed(lambda plan, seen: replace(plan, status="best-effort"))
    with pytest.raises(InfeasibleError, match="policy mine calls its plan best-effort"):
        plan_round(calm, sayer, strict=True)
    spender = Changed(lambda plan, seen: replace(plan, cpu_hz=seen.cpu_max_hz, status="optimal"))
    assert plan_round(calm, spender, strict=True)["status"] == "optimal"
    with pytest.raises(InfeasibleError, match=r"energy_allowance_j = .*: policy mine spends"):
        plan_round(EXAMPLE, spender, strict=True)
    strict = copy.deepcopy(calm)
    strict["consensus_limit"] = 0
    line = Changed(with_gossip(links=np.eye(4, k=1, dtype=bool) | np.eye(4, k=-1, dtype=bool)))
    with pytest.raises(InfeasibleError, match=r"consensus_limit = 0: policy mine leaves"):
        plan_round(strict, line, strict=True)


NAN, INF = math.nan, math.inf
BAD_STATES = [
    ([], "state = []: must be a table of named fields"),
    (changed(model_bits="many"), 'state.model_bits = "many": must be a finite number >= 1'),
    (changed(model_bits=NAN), "state.model_bits = NaN: must be a finite number"),
    (changed(model_bits=True), "state.model_bits = true: must be a finite number"),
    (changed(gossip_steps=0), "state.gossip_steps = 0: must be a whole number from 1"),
    (changed(gossip_steps=2.5), "state.gossip_steps = 2.5: must be a whole number"),
    (changed(edges=[]), "state.edges = []: must be a list of at least one edge"),
    (changed(typo=1), "state.typo: unknown field"),
    (changed(modelbits=1), "state.modelbits: unknown field; did you mean model_bits?"),
    (changed(local_steps=-2), "state.local_steps = -2: must be a whole number"),
    (changed(contraction_limit=1.5), "state.contraction_limit = 1.5: must be a finite number"),
    (changed(gossip_bits=0), "state.gossip_bits = 0: must be a finite number >= 1"),
    (changed(buffer_bits=-1), "state.buffer_bits = -1: must be a finite number >= 0"),
    (changed(codecs=["int9"]), 'state.codecs[0] = "int9": must be one of'),
    (changed(distortion_limit=2), "state.distortion_limit = 2: must be"),
    (changed(consensus_limit=-1), "state.consensus_limit = -1: must be a finite number >= 0"),
    (with_device(snr_db=1e5), "state.edges[0].devices[1].snr_db = 100000.0: must be"),
    (with_device(snr_db=None), "state.edges[0].devices[1].snr_db = null: must be"),
    (with_device(tx_power_w=-0.1), "devices[1].tx_power_w = -0.1: must be a finite number >= 0"),
    (with_device(capacitance=0), "devices[1].capacitance = 0: must be a finite number"),
    (with_device(cycles=INF), "devices[1].cycles = Infinity: must be a finite number"),
    (with_device(cpu_min_hz=4e9), "cpu_min_hz = 4000000000.0: must be <= cpu_max_hz = 3e+09"),
    (with_device(energy_allowance_j="1 J"), 'energy_allowance_j = "1 J": must be'),
    (with_device(colour="red"), "state.edges[0].devices[1].colour: unknown field"),
    (changed(backhaul_bps=[[0, 1], [1, 0]]), "state.backhaul_bps has 2 rows: must be a square"),
    (
        changed(backhaul_bps=[[0, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]),
        "state.backhaul_bps[0] has 3 values: must be a square matrix",
    ),
    (
        changed(consensus_distance=[[0, 1, 1, 1], [2, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]),
        "state.consensus_distance[0][1] = 1.0: must be equal to consensus_distance[1][0] = 2",
    ),
    (
        changed(backhaul_bps=[[5, 9, 9, 9], [9, 0, 9, 9], [9, 9, 0, 9], [9, 9, 9, 0]]),
        "state.backhaul_bps[0][0] = 5.0: must be 0",
    ),
    (
        changed(backhaul_bps=[[0, 9, 0, 0], [9, 0, 0, 0], [0, 0, 0, 9], [0, 0, 9, 0]]),
        "state.backhaul_bps: its links must connect all edges",
    ),
]


@pytest.mark.parametrize(("state", "line"), BAD_STATES, ids=[line[:60] for _, line in BAD_STATES])
def test_bad_states_are_refused_in_one_line(state, line):
    (only,) = problems_of(state)
    assert line in only
    assert "\n" not in only


def test_missing_fields_are_named_one_by_one():
    state = copy.deepcopy(EXAMPLE)
    del state["model_bits"], state["consensus_limit"], state["edges"][2]["devices"][0]["cycles"]
    assert problems_of(state) == [
        "state.model_bits: missing",
        "state.edges[2].devices[0].cycles: missing",
        "state.consensus_limit: missing; backhaul_bps is given, and all three go together",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"model_bits": 1, "model_bits": 2}', '"model_bits" is given twice'),
    ],
)
def test_text_that_is_not_json(text, reason):
    with pytest.raises(InputError, match=reason) as caught:
        parse_state(text)
    assert len(caught.value.lines) == 1


def test_unknown_policy():
    with pytest.raises(InputError, match=r'policy = "fedtr": must be one of .*did you mean fedrt'):
        plan_round(EXAMPLE, "fedtr")


def test_many_problems_are_cut_with_a_count():
    state = copy.deepcopy(EXAMPLE)
    state["edges"][0]["devices"] = [{}] * 100
    with pytest.raises(InputError) as caught:
        read_state(state)
    assert len(caught.value.lines) == 700
    assert caught.value.report().splitlines()[-1] == "... and 500 more problems"


@settings(max_examples=400, deadline=None)
@given(broken(EXAMPLE))
def test_fuzz_any_state_gives_a_plan_or_plain_lines(state):
    lines: list[str] = []
    try:
        answer = plan_round(parse_state(json.dumps(state)), "fedrt-plus")
    except InputError as error:
        lines = error.lines
    else:
        json.dumps(answer, allow_nan=False)
        assert answer["round_time_s"] >= 0
    for line in lines:
        assert line.startswith("state")
        assert "\n" not in line


def test_library_names_are_exported():
    for name in fedrt.__all__:
        assert getattr(fedrt, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'plan_rounds'"):
        fedrt.plan_rounds  # noqa: B018


def test_weights_of_a_plan_must_be_weights():
    seen = read_state(EXAMPLE).seen
    plan = make_policy("fedrt-plus").plan(seen, read_state(EXAMPLE).books)
    assert plan_problems(plan, seen) == []
    size = len(plan.gossip.weights)
    skewed = plan.gossip.weights + np.triu(np.ones((size, size)), 1)
    unlinked = np.argwhere(np.triu(~plan.gossip.links, 1))[0]
    astray = plan.gossip.weights.copy()
    astray[unlinked[0], unlinked[1]] = astray[unlinked[1], unlinked[0]] = 0.1
    for weights, wrong in (
        (skewed, "symmetric"),
        (plan.gossip.weights * 2, "sum to one"),
        (astray, "not linked"),
        (plan.gossip.weights[:2], "shape"),
        (plan.gossip.weights * np.nan, "finite"),
    ):
        lines = plan_problems(with_gossip(weights=weights)(plan, seen), seen)
        (line, *_) = [line for line in lines if wrong in line]
        assert line.startswith("gossip.weights: ")
    early = replace(seen, backhaul=None)
    assert plan_problems(plan, early) == ["gossip: must be None before the last edge round"]
    assert plan_problems(replace(plan, gossip=None), early) == []
