"""Links under coded gossip: every policy that chooses them counts what each has to send first."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.states import decide, random_state

from fedrt.cost.round import global_round_time_s, price
from fedrt.graph import is_connected
from fedrt.plan import Gossip
from fedrt.policies.fedrt_plus import exact_links

pytestmark = pytest.mark.numerical

BITS = 1.8e6


def behind_state(seed, edges=4, **more):
    """A state whose links have missed between nothing and a whole copy, 1.4e7 bits."""
    state = random_state(seed, edges=edges, budget=1e3) | more
    rng = np.random.default_rng(seed)
    behind = np.triu(rng.choice([0.0, 3 * BITS, 1.4e7], size=(edges, edges)), 1)
    return state | {"gossip_bits": BITS, "behind_bits": (behind + behind.T).tolist()}


def least_end_s(plan, checked, steps):
    """The least end of the round over all links that connect and meet the limit, steps given."""
    seen, size = checked.seen, checked.seen.num_edges
    backhaul, books = seen.backhaul, checked.books
    cost = price(plan, seen)
    pairs = list(itertools.combinations(range(size), 2))
    ends = []
    for kept in itertools.product([False, True], repeat=len(pairs)):
        links = np.zeros((size, size), dtype=bool)
        for (c, j), keep in zip(pairs, kept, strict=True):
            links[c, j] = links[j, c] = keep
        left = np.where(links, 0.0, backhaul.consensus_distance).sum() / size**2
        if is_connected(links) and left <= backhaul.consensus_limit:
            own_s = [
                max((steps * BITS + backhaul.behind_bits[c, j]) / backhaul.bps[c, j] for j in at)
                for c, at in enumerate(np.flatnonzero(row) for row in links)
            ]
            ends.append(float(np.max(books.elapsed_s + cost.edge_time_s + own_s)))
    return min(ends)


@pytest.mark.parametrize("seed", range(12))
def test_exact_links_are_the_best_of_all(seed):
    state = behind_state(seed)
    _, checked = decide(state, "fedrt")
    plan = exact_links().plan(checked.seen, checked.books)
    end_s = global_round_time_s(checked.books.elapsed_s, price(plan, checked.seen))
    assert end_s == pytest.approx(least_end_s(plan, checked, 10), rel=1e-12)
    assert plan.status == "optimal"


@pytest.mark.parametrize("seed", range(12))
def test_greedy_links_are_called_optimal_only_where_they_are(seed):
    plan, checked = decide(behind_state(seed), "fedrt")
    end_s = global_round_time_s(checked.books.elapsed_s, price(plan, checked.seen))
    least_s = least_end_s(plan, checked, 10)
    assert (plan.status == "optimal") == (end_s <= least_s * (1 + 1e-12))


@pytest.mark.parametrize("name", ["fedrt", "static-r", "fedrt-plus"])
def test_a_link_that_has_missed_much_is_left_out(name):
    """Four servers ready at once, equal links: the one that has a copy to send is not used."""
    state = random_state(0, edges=4, budget=1e3, devices=0)
    for edge in state["edges"]:
        edge["elapsed_s"] = 1.0
    ones = np.ones((4, 4)) - np.eye(4)
    state |= {"backhaul_bps": (1e6 * ones).tolist(), "consensus_distance": ones.tolist()}
    state |= {"consensus_limit": 0.5, "gossip_bits": BITS, "contraction_limit": 0.5}
    behind = np.zeros((4, 4))
    behind[1, 2] = behind[2, 1] = 1.4e7
    for given, used in ((np.zeros((4, 4)), True), (behind, False)):
        plan, _ = decide(state | {"behind_bits": given.tolist()}, name)
        assert isinstance(plan.gossip, Gossip)
        assert plan.gossip.links[1, 2] == used
