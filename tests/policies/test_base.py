"""What the policies share: when a plan may call itself optimal."""

from __future__ import annotations

import numpy as np
import pytest
from support.states import EVEN, random_state

from fedrt.decision import plan_round, read_state
from fedrt.policies import POLICIES
from fedrt.policies.base import keep_all_links

ALLOCATING = ("fedrt", "static-t", "fedrt-plus")


@pytest.mark.parametrize("edges", [1, 2])
@pytest.mark.parametrize("name", POLICIES)
def test_with_no_links_to_choose_the_allocation_alone_makes_a_plan_optimal(name, edges):
    """One server has no link and two have one: the best links are those of every rule."""
    state = random_state(4, edges=edges)
    answers = {each: plan_round(state, each) for each in POLICIES}
    assert answers[name]["status"] == ("feasible" if name in EVEN else "optimal")
    # Even splits are slower, so none of them may claim the least round time.
    best_s = min(answer["round_time_s"] for answer in answers.values())
    if name in EVEN:
        assert answers[name]["round_time_s"] > best_s * (1 + 1e-6)
    else:
        assert answers[name]["round_time_s"] == pytest.approx(best_s, rel=1e-9)


@pytest.mark.parametrize("name", EVEN)
def test_before_the_last_edge_round_an_even_split_is_feasible_at_most(name):
    assert plan_round(random_state(6, backhaul=False), name)["status"] == "feasible"


def test_an_optimal_allocation_with_slower_links_is_not_optimal():
    """All links, one of them slow: static-t's allocation is the best, its links are not."""
    state = random_state(6)
    for c, c2 in ((0, 1), (1, 0)):
        state["backhaul_bps"][c][c2] /= 100
    slow, quick = (plan_round(state, name) for name in ("static-t", "fedrt"))
    assert slow["status"] == "feasible"
    assert slow["round_time_s"] > quick["round_time_s"]


def test_all_links_are_the_base_graph():
    seen = read_state(random_state(1)).seen
    bps = seen.backhaul.bps.copy()
    bps[0, 2] = bps[2, 0] = 0.0
    with np.errstate(divide="ignore"):
        link_s = 1.0 / bps
    zero = np.zeros((5, 5))
    np.testing.assert_array_equal(keep_all_links(np.zeros(5), link_s, zero, 0.0), bps > 0)
