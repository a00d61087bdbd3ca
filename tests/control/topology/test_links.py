"""Which links to keep: exact against exhaustive search, greedy by hand and never better."""

from __future__ import annotations

import numpy as np
import pytest
from reference.exhaustive_topology import least_round_time_s

from fedrt.control.topology.consensus import consensus_limit, meets_limit
from fedrt.control.topology.links import best_links, finish_time_s, prune_greedily
from fedrt.graph import is_connected

pytestmark = pytest.mark.numerical


def symmetric(size, values, fill=np.inf):
    matrix = np.full((size, size), fill)
    np.fill_diagonal(matrix, np.inf if np.isinf(fill) else 0.0)
    for (c, c2), value in values.items():
        matrix[c, c2] = matrix[c2, c] = value
    return matrix


def links(topology):
    return {(int(c), int(c2)) for c, c2 in zip(*np.nonzero(np.triu(topology)), strict=True)}


# Complete graph of four servers, all pairs one unit of distance apart.
LINK_S = symmetric(
    4, {(0, 1): 6.0, (0, 2): 5.0, (0, 3): 4.0, (1, 2): 3.0, (1, 3): 2.0, (2, 3): 1.0}
)
ONES = symmetric(4, {}, fill=1.0)


def test_greedy_by_hand():
    # All finish at 0, so the round takes as long as the slowest link. No limit but connection.
    # e = floor(sqrt(12)) = 3: drop 0-1, 0-2; dropping 0-3 would cut 0 off, it stays. 4 s < 6 s.
    # Left 0-3, 1-2, 1-3, 2-3; e = floor(sqrt(8)) = 2: 0-3 stays, 1-2 goes. Still 4 s: no gain,
    # so the trial is thrown away and e = 1: 0-3 stays, nothing changes, and e = 0 ends it.
    kept = prune_greedily(np.zeros(4), LINK_S, ONES, limit=100.0)
    assert links(kept) == {(0, 3), (1, 2), (1, 3), (2, 3)}
    assert finish_time_s(kept, np.zeros(4), LINK_S) == 4.0


def test_greedy_respects_the_limit_by_hand():
    # A limit of 2 * 1 / 16 lets one link go. Of the three slowest 0-1 goes, 0-2 and 0-3 must stay.
    kept = prune_greedily(np.zeros(4), LINK_S, ONES, limit=2 / 16)
    assert links(kept) == {(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}


def test_greedy_keeps_the_base_graph_when_nothing_gains():
    # Server 3 finishes so late that its link of 1 s decides: no pruning makes the round faster.
    finish = np.array([0.0, 0.0, 0.0, 100.0])
    link = symmetric(4, {(0, 1): 6.0, (0, 2): 5.0, (1, 2): 3.0, (2, 3): 1.0})
    kept = prune_greedily(finish, link, ONES, limit=100.0)
    assert links(kept) == {(0, 1), (0, 2), (1, 2), (2, 3)}


def test_exact_beats_greedy_by_hand():
    # Server 0 ends at 10, the others at 0. The link 0-1 (2 s) ends at 12, 0-2 (3 s) at 13; 1-2
    # takes 4 s but is done at 4. Greedy drops the slowest, 1-2, gains nothing and gives up at 13;
    # the exact search sees that 0-2 is what costs, and keeps 0-1 and 1-2: 12.
    finish = np.array([10.0, 0.0, 0.0])
    link = symmetric(3, {(0, 1): 2.0, (0, 2): 3.0, (1, 2): 4.0})
    ones = symmetric(3, {}, fill=1.0)
    greedy = prune_greedily(finish, link, ones, limit=100.0)
    exact = best_links(finish, link, ones, limit=100.0)
    assert finish_time_s(greedy, finish, link) == 13.0
    assert links(exact) == {(0, 1), (1, 2)}
    assert finish_time_s(exact, finish, link) == 12.0


def test_exact_keeps_links_of_equal_cost():
    # 0-1, 1-2 connect at cost 2; 0-2 costs the same and only helps consensus.
    link = symmetric(3, {(0, 1): 2.0, (1, 2): 2.0, (0, 2): 2.0})
    kept = best_links(np.zeros(3), link, symmetric(3, {}, fill=1.0), limit=100.0)
    assert links(kept) == {(0, 1), (0, 2), (1, 2)}


@pytest.mark.parametrize("search", [best_links, prune_greedily])
def test_a_single_server_has_no_links(search):
    kept = search(np.zeros(1), np.full((1, 1), np.inf), np.zeros((1, 1)), 0.0)
    assert kept.tolist() == [[False]]


@pytest.mark.parametrize("search", [best_links, prune_greedily])
def test_a_base_graph_that_breaks_the_limit_is_kept_whole(search):
    link = symmetric(3, {(0, 1): 2.0, (1, 2): 3.0})
    kept = search(np.zeros(3), link, symmetric(3, {}, fill=1.0), limit=0.01)
    assert links(kept) == {(0, 1), (1, 2)}


def random_problem(rng):
    """A connected base graph of two to six servers with all that can be awkward about it."""
    size = int(rng.integers(2, 7))
    base = np.zeros((size, size), dtype=bool)
    for c in range(1, size):
        base[c, rng.integers(c)] = True
    base |= rng.uniform(size=(size, size)) < rng.choice([0.0, 0.2, 0.5, 1.0])
    base = (base | base.T) & ~np.eye(size, dtype=bool)
    whole = rng.uniform() < 0.4  # whole numbers make ties
    link = rng.integers(1, 5, (size, size)) if whole else 10 ** rng.uniform(-1, 1, (size, size))
    link = np.where(base, np.triu(link, 1) + np.triu(link, 1).T, np.inf)
    finish = rng.integers(0, 4, size).astype(float) if whole else rng.uniform(0, 5, size)
    distance = (
        rng.integers(0, 3, (size, size)).astype(float) if whole else rng.uniform(0, 1, (size, size))
    )
    if rng.uniform() < 0.1:
        distance[:] = 0.0
    distance = np.triu(distance, 1) + np.triu(distance, 1).T
    kind = rng.choice(["kappa", "zero", "free", "broken"], p=[0.6, 0.15, 0.15, 0.1])
    kappa = {"kappa": rng.uniform(), "zero": 0.0, "free": 1.0, "broken": 0.0}[kind]
    limit = consensus_limit(base, distance, kappa) * (0.5 if kind == "broken" else 1.0)
    return finish, link, distance, limit


def check_problem(finish, link, distance, limit):
    least_s = least_round_time_s(finish, link, distance, limit)
    exact = best_links(finish, link, distance, limit)
    greedy = prune_greedily(finish, link, distance, limit)
    for kept in (exact, greedy):
        np.testing.assert_array_equal(kept, kept.T)
        assert not np.any(kept & ~np.isfinite(link)), "a link outside the base graph"
        assert is_connected(kept)
    if least_s is None:
        np.testing.assert_array_equal(exact, np.isfinite(link))
        return False
    assert meets_limit(exact, distance, limit)
    assert meets_limit(greedy, distance, limit)
    assert finish_time_s(exact, finish, link) == least_s
    assert finish_time_s(greedy, finish, link) >= least_s
    return finish_time_s(greedy, finish, link) > least_s


def test_exact_equals_exhaustive_search_and_greedy_never_beats_it():
    rng = np.random.default_rng(3)
    worse = sum(check_problem(*random_problem(rng)) for _ in range(600))
    assert worse > 0, "greedy was never worse: the problems are too easy to tell the two apart"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 8))
def test_exact_equals_exhaustive_search_on_thousands(seed):
    rng = np.random.default_rng(seed)
    for _ in range(1000):
        check_problem(*random_problem(rng))
