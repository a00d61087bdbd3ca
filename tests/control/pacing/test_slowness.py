"""Devices that turn out slow: what reports let expect, and the plan that is taken for it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference.instances import one_cluster
from support.allocations import as_plan
from support.outcomes import failures_of
from support.tiny import tiny

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.priced import cost_of
from fedrt.control.allocation.shares import Allocation, allocate_evenly
from fedrt.control.pacing.slowness import (
    Slowness,
    SlownessSeen,
    expected_end,
    no_later_than,
    quickest_expected,
)
from fedrt.cost.outcome import Deadline, FailureRules, carry_out
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

SEEN = SimulatedWorld(tiny("fleet.cycles_per_sample={uniform=[2e7,2e8]}"), 0).observe(0, 0)
ALLOWANCE_J = np.full(7, 8.0)
NONE = Deadline()
NOWHERE = np.zeros(3, dtype=bool)


def slowness_of(chance, slowdown=4.0, deadline=NONE, devices=7):
    return Slowness(np.broadcast_to(np.asarray(chance, dtype=float), devices), slowdown, deadline)


def by_trying_all(allocation, slowness, begin_s, seen=SEEN):
    """The same mean over all 2^N ways in which devices can be slow, each carried out."""
    plan = as_plan(seen, allocation)
    end_s = arrive = 0.0
    for slow in product([False, True], repeat=7):
        weight = np.prod(np.where(slow, slowness.chance, 1 - slowness.chance))
        speed = np.where(slow, 1 / slowness.slowdown, 1.0)
        rules = FailureRules(slowness.deadline)
        done = carry_out(plan, seen, failures_of(seen, speed=speed), rules)
        end_s += weight * (begin_s + done.cost.edge_time_s).max()
        arrive += weight * done.delivered.sum()
    return end_s, arrive


@pytest.mark.parametrize(
    "deadline", [NONE, Deadline(factor=1.0), Deadline(factor=1.3), Deadline(seconds=30.0)]
)
@pytest.mark.parametrize("allocation", [allocate, allocate_evenly])
@pytest.mark.parametrize("begin_s", [[0.0, 0.0, 0.0], [0.0, 40.0, 1e3]])
def test_the_expected_end_is_the_mean_over_all_ways_to_be_slow(deadline, allocation, begin_s):
    found = allocation(SEEN, ALLOWANCE_J)
    for chance in (0.0, 0.3, [0.9, 0.0, 0.2, 1.0, 0.1, 0.5, 0.4]):
        slowness = slowness_of(chance, 3.0, deadline)
        begins_s = np.array(begin_s)
        by_hand = by_trying_all(found, slowness, begins_s)
        # A sum of 128 products against one of 8.
        assert_allclose(expected_end(SEEN, found, slowness, begins_s), by_hand, rtol=1e-12)


OTHER_LAWS = (
    "channel.law=noise-density",
    "channel.reference_hz=3e5",
    "channel.power_control=true",
    "fleet.tx_power_w=0.3",
    "downlink={tx_power_w=0.05}",
    "overheads={round_trip_s=0.3,aggregation_s=2.0}",
)


@pytest.mark.parametrize("deadline", [NONE, Deadline(factor=1.3)])
@pytest.mark.parametrize("allocation", [allocate, allocate_evenly])
def test_the_expected_end_under_other_laws(deadline, allocation):
    """With downloads, overheads and lowered powers in it."""
    cycles = "fleet.cycles_per_sample={uniform=[2e7,2e8]}"
    seen = SimulatedWorld(tiny(cycles, *OTHER_LAWS), 0).observe(0, 0)
    found, begin_s = allocation(seen, np.full(7, 6.0)), np.array([0.0, 4.0, 1.0])
    slowness = slowness_of([0.9, 0.0, 0.2, 1.0, 0.1, 0.5, 0.4], 3.0, deadline)
    by_hand = by_trying_all(found, slowness, begin_s, seen)
    assert_allclose(expected_end(seen, found, slowness, begin_s), by_hand, rtol=1e-12)
    if allocation is allocate:
        assert (found.tx_power_w < seen.tx_power_w).any()


def test_computing_that_takes_longer_is_planned_for_at_the_same_energy():
    """Cycles that count twice in time and once in energy: half the capacitance."""
    columns = {name: getattr(SEEN, name)[2:5] for name in ("snr", "cpu_min_hz", "cpu_max_hz")}
    columns["tx_power_w"], slowdown = np.full(3, 0.5), np.array([1.0, 2.0, 4.0])
    cycles, capacitance = np.full(3, 1e10), np.full(3, 2e-28)
    plain = one_cluster(8e6, 2e6, cycles=cycles, capacitance=capacitance, **columns)
    scaled = one_cluster(
        8e6, 2e6, cycles=slowdown * cycles, capacitance=capacitance / slowdown, **columns
    )
    allowance_j = np.array([8.0, 9.0, 20.0])
    found, asked = allocate(plain, allowance_j, slowdown), allocate(scaled, allowance_j)
    assert_allclose(found.bandwidth_hz, asked.bandwidth_hz, rtol=1e-9)
    assert_allclose(found.cpu_hz, asked.cpu_hz, rtol=1e-9)
    assert found.relaxed.tolist() == asked.relaxed.tolist() == [False]
    usual = allocate(plain, allowance_j)
    assert found.bandwidth_hz[2] > 1.05 * usual.bandwidth_hz[2]


def test_reports_by_hand():
    seen, who = SlownessSeen.nothing(4), np.arange(4)
    first = seen.expected(who, NONE)
    assert_array_equal(first.chance, 0.0)
    assert first.slowdown == 1.0
    seen = seen.add(np.array([0, 1, 2]), np.array([1.0, 1.0, 3.0]))
    # One of three was slow; nothing is known of what comes after, and nothing of device 3.
    after = seen.expected(who, NONE)
    assert_allclose(after.chance, 1 / 3, rtol=1e-15)
    assert after.slowdown == 3.0
    seen = seen.add(np.array([0, 1, 2]), np.array([1.0, 5.0, 1.0]))
    # Two of six: 1/3. After full speed one of two, after slowness none of one, and 1/3 added.
    after = seen.expected(who, Deadline(factor=2.0))
    full, slow = (1 + 1 / 3) / 3, (0 + 1 / 3) / 2
    assert_allclose(after.chance, [full, slow, full, 1 / 3], rtol=1e-15)
    assert after.slowdown == 4.0
    assert after.deadline == Deadline(factor=2.0)
    assert_array_equal(seen.expected(np.array([1]), NONE).chance, [after.chance[1]])


def test_one_report_is_all_there_is_and_slow_devices_count_one_by_one():
    seen = SlownessSeen.nothing(3)
    seen = seen.add(np.array([1]), np.array([1.0]))
    assert seen.expected(np.array([1]), NONE).slowdown == 1.0
    seen = SlownessSeen.nothing(3)
    seen = seen.add(np.array([1]), np.array([2.0]))
    assert_array_equal(seen.expected(np.array([0]), NONE).chance, [1.0])
    seen = seen.add(np.array([0, 2]), np.array([4.0, 9.0]))
    # (2 + 4 + 9) / 3
    assert seen.expected(np.array([0]), NONE).slowdown == 5.0
    # A tenth more than planned is slow too, and of four reports all were.
    seen = seen.add(np.array([0]), np.array([1.1]))
    after = seen.expected(np.array([0]), NONE)
    assert after.slowdown == pytest.approx(16.1 / 4, rel=1e-15)
    assert_array_equal(after.chance, [1.0])


def test_a_cluster_without_devices_ends_when_it_begins():
    few = SimulatedWorld(tiny(), 0).observe(0, 0, np.array([0, 1, 2]))
    found, slowness = allocate(few, np.full(3, 8.0)), slowness_of(0.5, devices=3)
    assert expected_end(few, found, slowness, np.array([0.0, 0.0, 1e4]))[0] == 1e4


def test_what_is_expected_cannot_be_written_over():
    slowness = Slowness(np.zeros(7), 1.0, NONE)
    with pytest.raises(ValueError, match="read-only"):
        slowness.chance[0] = 1.0


@pytest.mark.parametrize(
    ("level", "chance", "slowdown"),
    [
        (0.0, [0.26, 0.26, 0.04, 0.1, 0.51, 0.19, 0.07], 4.0),
        (0.25, [0.43, 0.15, 0.1, 0.36, 0.21, 0.07, 0.74], 3.0),
        (0.25, [0.5] * 7, 4.0),  # as likely slow as not is not more likely
        (0.5, [0.66, 0.45, 0.08, 0.77, 0.33, 0.38, 0.63], 2.0),
        (0.75, [0.93, 0.23, 0.09, 0.89, 0.46, 0.47, 0.62], 3.0),
        (1.0, [0.63, 0.52, 0.48, 0.98, 0.34, 0.69, 0.23], 3.0),
    ],
)
def test_devices_that_may_be_slow_are_allowed_for_as_far_as_it_pays(level, chance, slowdown):
    """Likely slow ones in full, the others as far as the least expected end says."""
    usual, begin_s = allocate(SEEN, ALLOWANCE_J), np.zeros(3)
    slowness = slowness_of(chance, slowdown)
    tries = {}
    for each in (0.0, 0.25, 0.5, 0.75, 1.0):
        longer = np.where(slowness.chance > 0.5, slowdown, 1 + (slowdown - 1) * each)
        tries[each] = allocate(SEEN, ALLOWANCE_J, longer)
    ends_s = {each: by_trying_all(found, slowness, begin_s)[0] for each, found in tries.items()}
    assert min(ends_s, key=ends_s.get) == level
    found = quickest_expected(SEEN, ALLOWANCE_J, slowness, begin_s, usual, NOWHERE)
    assert_allclose(found.bandwidth_hz, tries[level].bandwidth_hz, rtol=1e-12)
    assert_allclose(found.cpu_hz, tries[level].cpu_hz, rtol=1e-12)


@pytest.mark.parametrize("chance", [0.02, 0.3, 0.7])
def test_no_try_is_expected_to_end_later_than_the_usual_or_the_even_one(chance):
    usual, even = allocate(SEEN, ALLOWANCE_J), allocate_evenly(SEEN, ALLOWANCE_J)
    slowness, begin_s = slowness_of(chance), np.zeros(3)
    found = quickest_expected(SEEN, ALLOWANCE_J, slowness, begin_s, usual, NOWHERE)
    end_s = by_trying_all(found, slowness, begin_s)[0]
    assert not even.relaxed.any()
    for other in (usual, even):
        assert end_s <= by_trying_all(other, slowness, begin_s)[0] * (1 + 1e-12)
    if chance == 0.7:
        assert end_s < 0.995 * by_trying_all(usual, slowness, begin_s)[0]


def test_who_is_slow_most_of_the_time_gets_more_and_the_others_less():
    usual = allocate(SEEN, ALLOWANCE_J)
    chance = np.array([0.0, 0.0, 0.98, 0.0, 0.0, 0.0, 0.0])
    found = quickest_expected(
        SEEN, ALLOWANCE_J, slowness_of(chance), np.array([0.0, 1e3, 0.0]), usual, NOWHERE
    )
    more = found.bandwidth_hz > usual.bandwidth_hz * (1 + 1e-9)
    assert more.tolist() == [False, False, True, False, False, False, False]
    assert (found.bandwidth_hz[3:5] < usual.bandwidth_hz[3:5]).all()
    assert_array_equal(found.bandwidth_hz[5:], usual.bandwidth_hz[5:])


def test_kept_clusters_and_those_out_of_reach_have_the_usual_plan():
    usual, kept = allocate(SEEN, ALLOWANCE_J), np.array([False, True, False])
    cap_j = ALLOWANCE_J.copy()
    cap_j[5] = 1e-6
    found = quickest_expected(
        SEEN, cap_j, slowness_of(0.95), np.array([1e3, 0.0, 0.0]), usual, kept
    )
    assert_array_equal(found.bandwidth_hz[2:], usual.bandwidth_hz[2:])
    assert_array_equal(found.cpu_hz[2:], usual.cpu_hz[2:])
    assert not np.array_equal(found.bandwidth_hz[:2], usual.bandwidth_hz[:2])


def test_no_update_is_given_up_for_an_earlier_end():
    """The median under the even split is early: its deadline would cut off the others."""
    usual, even = allocate(SEEN, ALLOWANCE_J), allocate_evenly(SEEN, ALLOWANCE_J)
    slowness, begin_s = slowness_of(0.3, 4.0, Deadline(factor=1.02)), np.zeros(3)
    ends = [by_trying_all(each, slowness, begin_s) for each in (usual, even)]
    assert ends[1][0] < ends[0][0]
    assert ends[1][1] < ends[0][1]
    found = quickest_expected(SEEN, ALLOWANCE_J, slowness, begin_s, usual, NOWHERE)
    assert by_trying_all(found, slowness, begin_s)[1] >= ends[0][1] * (1 - 1e-9)


def test_where_a_deadline_cuts_the_other_plan_short_that_one_is_taken():
    """The other plan does without the last device of the second cluster, this one waits for it."""
    together, cap_j, deadline = allocate(SEEN, ALLOWANCE_J), np.full(7, 1e9), Deadline(factor=1.0)
    # Devices 2, 3 and 4 are that cluster: nearly all bandwidth of 4 goes to 2 and 3. The median of
    # the three is then the slower of these, at which the deadline ends the round.
    hz = together.bandwidth_hz.copy()
    hz[2:4] += 0.495 * hz[4]
    hz[4] *= 0.01
    other = Allocation(hz, together.cpu_hz, NOWHERE)
    busy_s = cost_of(SEEN, other).busy_s
    assert max(busy_s[2:4]) < cost_of(SEEN, together).edge_time_s[1] < busy_s[4]
    found = no_later_than(other, together, SEEN, cap_j, deadline)
    assert_array_equal(found.bandwidth_hz, hz)
    # Not where it does not keep the caps, and not without a deadline.
    small_j = np.where(np.arange(7) == 4, 1e-9, 1e9)
    for caps_j, rule in ((small_j, deadline), (cap_j, NONE)):
        kept = no_later_than(other, together, SEEN, caps_j, rule)
        assert_array_equal(kept.bandwidth_hz, together.bandwidth_hz)
