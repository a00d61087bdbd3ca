"""What the coordinator believes about distances, worked by hand on three servers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_array_equal
from support.outcomes import outcome_of

from fedrt.rounds import ModelDistances
from fedrt.runs.belief import Belief

ALL = np.ones((3, 3), dtype=bool)
PATH = np.array([[False, True, False], [True, False, True], [False, True, False]])
TRUE = np.array([[0.0, 3.0, 4.0], [3.0, 0.0, 5.0], [4.0, 5.0, 0.0]])


def test_before_the_first_round_nothing_is_known():
    belief = Belief.first(PATH, ModelDistances(TRUE))
    assert_array_equal(belief.distances.believed, np.zeros((3, 3)))
    assert_array_equal(belief.distances.true, TRUE)
    assert_array_equal(belief.linked, PATH)


def test_pairs_without_a_link_are_the_shortest_path_away():
    belief = Belief.first(PATH, ModelDistances(TRUE)).update(ALL)
    # 0 and 2 cannot compare: by way of 1 they are 3 + 5 = 8 apart, where 4 is true.
    assert_array_equal(belief.distances.believed, [[0, 3, 8], [3, 0, 5], [8, 5, 0]])
    assert_array_equal(belief.distances.true, TRUE)
    assert_array_equal(belief.linked, PATH)
    assert belief.mean_error == 4.0


def test_only_servers_that_reach_each_other_now_can_compare():
    up = np.array([[False, True, True], [True, False, False], [True, False, False]])
    belief = Belief.first(PATH, ModelDistances(TRUE)).update(up)
    # 0-1 alone gossiped and is up; nothing leads to 2, of which nothing was known before.
    assert_array_equal(belief.distances.believed, [[0, 3, 0], [3, 0, 0], [0, 0, 0]])
    assert_array_equal(belief.linked, PATH & up)
    # 0 instead of 4 and 0 instead of 5.
    assert belief.mean_error == -4.5


def test_links_of_the_last_gossip_compare_and_what_was_measured_once_counts_half():
    belief = Belief.first(PATH, ModelDistances(TRUE)).update(ALL)
    star = np.array([[False, True, True], [True, False, False], [True, False, False]])
    belief = belief.after_gossip(star)
    assert_array_equal(belief.linked, star)
    belief = replace(belief, newest=ModelDistances(2 * TRUE)).update(ALL)
    # 0-1 and 0-2 are measured, 6 and 8. 1-2 was 5; by way of 0 it is 14: (5 + 14) / 2 = 9.5.
    assert_array_equal(belief.distances.believed, [[0, 6, 8], [6, 0, 9.5], [8, 9.5, 0]])
    assert belief.mean_error == -0.5


def test_models_that_are_all_the_same_one_teach_nothing():
    belief = Belief.first(PATH, ModelDistances(TRUE)).update(ALL)
    before = belief.distances.believed
    belief = replace(belief, newest=ModelDistances(np.zeros((3, 3)))).update(PATH)
    assert_array_equal(belief.distances.believed, before)
    assert_array_equal(belief.linked, PATH)


def test_pairs_that_are_said_to_know_their_distance_do_wherever_links_are():
    nowhere = np.zeros((3, 3), dtype=bool)
    belief = Belief.first(nowhere, ModelDistances(TRUE, PATH)).update(nowhere)
    assert_array_equal(belief.distances.believed, [[0, 3, 8], [3, 0, 5], [8, 5, 0]])
    assert_array_equal(belief.linked, PATH)


def test_pairs_that_are_said_to_know_their_distance_do_even_if_it_is_zero():
    belief = Belief.first(PATH, ModelDistances(TRUE)).update(ALL)
    known = ModelDistances(np.zeros((3, 3)), PATH)
    belief = replace(belief, newest=known).update(np.zeros((3, 3), dtype=bool))
    # 0-2 was never measured: the path over two zeros.
    assert_array_equal(belief.distances.believed, np.zeros((3, 3)))
    assert_array_equal(belief.linked, PATH)


def test_where_all_pairs_compare_the_truth_is_believed():
    belief = Belief.first(PATH, ModelDistances(TRUE, ALL)).update(np.zeros((3, 3), dtype=bool))
    assert_array_equal(belief.distances.believed, TRUE)
    assert belief.linked.all()
    assert np.isnan(belief.mean_error)


def test_an_outcome_that_tells_no_distances_leaves_the_newest():
    belief = Belief.first(PATH, ModelDistances(TRUE))
    outcome = outcome_of([1.0], [1.0])
    assert belief.after(outcome) is belief
    told = ModelDistances(7 * TRUE)
    after = belief.after(replace(outcome, distances=told))
    assert after.newest is told
    # It is used when links are next chosen, not before.
    assert_array_equal(after.distances.believed, np.zeros((3, 3)))
