"""What happens when a plan meets what fails: by hand, and what holds whatever fails."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from support.three_devices import three_devices

from fedrt.cost.outcome import Deadline, FailureRules, carry_out
from fedrt.cost.round import price
from fedrt.rounds import Outcome
from fedrt.world.faults import Failures

pytestmark = pytest.mark.numerical


NONE = Deadline()
ALL = np.ones(3, dtype=bool)


def happens(silent=(0, 0, 0), speed=(1, 1, 1), deadline=NONE, spends="compute") -> Outcome:
    plan, seen = three_devices()
    return carry_out(plan, seen, failing(silent, speed), FailureRules(deadline, spends))


def failing(silent, speed) -> Failures:
    nobody = np.zeros(3, dtype=np.int64)
    return Failures(
        silent=np.array(silent, dtype=bool),
        cpu_fraction=np.array(speed, dtype=float),
        expected=np.array([2, 0, 1]),
        absent=nobody,
        idle=nobody,
        server_up=np.ones(3, dtype=bool),
        links_down=0,
    )


def test_with_nothing_failing_it_is_the_plans_price_to_the_bit():
    plan, seen = three_devices()
    cost, found = price(plan, seen), happens()
    for f in fields(cost):
        assert_array_equal(getattr(found.cost, f.name), getattr(cost, f.name))
        assert_array_equal(getattr(found.planned, f.name), getattr(cost, f.name))
    assert found.delivered.all()
    assert_allclose(cost.edge_time_s, [6, 0, 2])
    assert_array_equal(found.lost_s, 0)


@pytest.mark.parametrize(
    ("spends", "times", "joules"),
    [("nothing", [0, 0], [0, 0]), ("compute", [2, 0], [8, 0]), ("all", [2, 4], [8, 8])],
)
def test_a_silent_device_is_awaited_until_its_planned_end(spends, times, joules):
    """Device 1 (2 + 4 s) is silent: edge 0 waits 6 s for it, its other update came after 6 s too.

    Device 2 is silent on edge 2: nobody delivers there, and its server waits 2 s.
    """
    found = happens(silent=(0, 1, 1), spends=spends)
    assert [found.cost.compute_s[1], found.cost.upload_s[1]] == times
    assert [found.cost.compute_j[1], found.cost.upload_j[1]] == joules
    assert_array_equal(found.delivered, [True, False, False])
    assert_allclose(found.cost.edge_time_s, [6, 0, 2])
    assert_allclose(found.delivered_s, [6, 0, 0])
    assert_allclose(found.lost_s, [0, 0, 2])


def test_a_straggler_takes_longer_and_pays_for_its_speed():
    """Device 0 at half speed: 4 / 0.5 = 8 s and (1/2) 4 0.5^2 = 0.5 J; it ends after 8 + 2 s."""
    found = happens(speed=(0.5, 1, 1))
    assert_allclose(found.cost.compute_s, [8, 2, 1])
    assert_allclose(found.cost.compute_j, [0.5, 8, 32])
    assert_allclose(found.cost.edge_time_s, [10, 0, 2])
    assert_allclose(found.planned.edge_time_s, [6, 0, 2])
    assert found.delivered.all()


def test_late_devices_pay_until_the_deadline():
    """Deadline 7 s, device 0 at a quarter of its speed: 16 s to compute, of which it does 7.

    Energy at that speed (1/2) 4 / 16 = 0.125 J, 7 / 16 of it; no upload. At half speed, 8 + 2 s
    against 9 s: the upload gets 1 of its 2 s and pays 1 of its 2 J.
    """
    found = happens(speed=(0.25, 1, 1), deadline=Deadline(seconds=7))
    assert_array_equal(found.late, [True, False, False])
    assert_allclose([found.cost.compute_s[0], found.cost.upload_s[0]], [7, 0])
    assert_allclose([found.cost.compute_j[0], found.cost.upload_j[0]], [0.125 * 7 / 16, 0])
    assert_allclose(found.cost.edge_time_s, [7, 0, 2])
    assert_allclose(found.lost_s, [1, 0, 0])
    found = happens(speed=(0.5, 1, 1), deadline=Deadline(seconds=9))
    assert_allclose([found.cost.compute_s[0], found.cost.upload_s[0]], [8, 1])
    assert_allclose([found.cost.compute_j[0], found.cost.upload_j[0]], [0.5, 1])
    assert_allclose(found.cost.edge_time_s, [9, 0, 2])


def test_a_deadline_also_ends_the_wait_for_the_silent():
    found = happens(silent=(1, 0, 0), deadline=Deadline(seconds=5))
    # Device 1 needs 6 s: late. Nobody delivers on edge 0.
    assert_array_equal(found.late, [False, True, False])
    assert_allclose(found.cost.edge_time_s, [5, 0, 2])
    assert_allclose(found.cost.compute_s[:2], [4, 2])
    assert_allclose(found.cost.upload_s[:2], [0, 3])
    assert_allclose(found.delivered_s, [0, 0, 2])


def test_a_deadline_of_the_median():
    """Planned ends 6 and 6 on edge 0: median 6; 2 on edge 2. Factor 1.5: 9 and 3."""
    _, seen = three_devices()
    planned_s = np.array([6.0, 6.0, 2.0])
    assert_allclose(Deadline(factor=1.5).of_edges(seen, planned_s, ALL), [9, np.inf, 3])
    assert_allclose(
        Deadline(factor=2).of_edges(seen, np.array([3.0, 8.0, 2.0]), ALL), [11, np.inf, 4]
    )
    assert (Deadline().of_edges(seen, planned_s, ALL) == np.inf).all()
    found = happens(speed=(0.25, 1, 0.5), deadline=Deadline(factor=1.5))
    # Device 2 at half speed: 2 + 1 = 3 s, just in time.
    assert_array_equal(found.late, [True, False, False])
    assert_allclose(found.cost.edge_time_s, [9, 0, 3])


def test_a_silent_straggler_is_awaited_as_planned_and_pays_for_what_it_did():
    """Device 2 (1 + 1 s at full speed) is silent and at a fifth of its speed: 5 + 1 s.

    Its server waits until it was to be through, 2 s, not until it is. Without a deadline it trains
    to the end, 5 s at (1/2) 4 0.8^2 = 1.28 J; with one at 1.5 s it stops there, and at 5.5 s it
    would have sent for half a second of its one, 1.5 of 3 J.
    """
    slow = {"silent": (0, 0, 1), "speed": (1, 1, 0.2)}
    found = happens(**slow)
    assert_allclose(found.cost.edge_time_s, [6, 0, 2])
    assert_allclose([found.cost.compute_s[2], found.cost.upload_s[2]], [5, 0])
    assert_allclose(found.cost.compute_j[2], 1.28)
    found = happens(**slow, deadline=Deadline(seconds=1.5))
    assert_allclose(found.cost.edge_time_s, [1.5, 0, 1.5])
    assert_allclose([found.cost.compute_s[2], found.cost.upload_s[2]], [1.5, 0])
    assert_allclose(found.cost.compute_j[2], 1.28 * 1.5 / 5)
    assert not found.late[2]
    found = happens(**slow, deadline=Deadline(seconds=5.5), spends="all")
    assert_allclose(found.cost.edge_time_s, [5.5, 0, 2])
    assert_allclose([found.cost.compute_s[2], found.cost.upload_s[2]], [5, 0.5])
    assert_allclose([found.cost.compute_j[2], found.cost.upload_j[2]], [1.28, 1.5])


def test_a_late_device_holds_its_server_until_the_deadline_and_no_longer():
    """Device 1 at a tenth: 20 + 4 s. Its server has device 0's update after 6 s and waits on."""
    found = happens(speed=(1, 0.1, 1), deadline=Deadline(seconds=8))
    assert_array_equal(found.late, [False, True, False])
    assert_array_equal(found.delivered, [True, False, True])
    assert_allclose(found.cost.edge_time_s, [8, 0, 2])
    assert_allclose(found.delivered_s, [6, 0, 2])
    assert_allclose(found.lost_s, [2, 0, 0])
    # All others keep their times and pay in full.
    assert_allclose(found.cost.compute_s, [4, 8, 1])
    assert_allclose(found.cost.upload_s, [2, 0, 1])
    assert_allclose(found.cost.upload_j, [2, 0, 3])
    # Just in time is in time: 24 s.
    found = happens(speed=(1, 0.1, 1), deadline=Deadline(seconds=24))
    assert not found.late.any()
    assert_allclose(found.cost.edge_time_s, [24, 0, 2])
    assert_allclose(found.cost.upload_s, [2, 4, 1])


def test_who_is_in_time_pays_in_full_whoever_is_late():
    """A deadline between the two devices of edge 0 at their true speeds, 4 + 2 and 4 + 4 s."""
    found = happens(speed=(1, 0.5, 1), deadline=Deadline(seconds=7), spends="nothing")
    assert_allclose(found.cost.compute_s, [4, 4, 1])
    assert_allclose(found.cost.upload_s, [2, 3, 1])
    assert_allclose(found.cost.compute_j, [2, 2, 32])
    assert_allclose(found.cost.upload_j, [2, 6, 3])
    assert_allclose(found.planned.compute_s, [4, 2, 1])


def test_a_deadline_in_a_cluster_of_many():
    """Five devices on edge 1, none on edge 0: the middle of 1, 3, 4, 8, 9 is 4; of four, 3.5."""
    _, seen = three_devices()
    five = replace(seen, edge_of_device=np.full(5, 1), cycles=np.ones(5))
    planned_s = np.array([9.0, 1.0, 4.0, 3.0, 8.0])
    assert_allclose(
        Deadline(factor=2).of_edges(five, planned_s, np.ones(5, dtype=bool)), [np.inf, 8, np.inf]
    )
    four = replace(five, edge_of_device=np.full(4, 1), cycles=np.ones(4))
    assert_allclose(
        Deadline(factor=2).of_edges(four, planned_s[:4], np.ones(4, dtype=bool)),
        [np.inf, 7, np.inf],
    )
    assert_allclose(
        Deadline(seconds=3).of_edges(four, planned_s[:4], np.ones(4, dtype=bool)), [3, 3, 3]
    )
    nobody = replace(five, edge_of_device=np.zeros(0, dtype=np.int64), cycles=np.ones(0))
    assert_array_equal(
        Deadline(factor=2).of_edges(nobody, np.ones(0), np.ones(0, dtype=bool)), np.full(3, np.inf)
    )


def left_out(trains, silent=(0, 0, 0), speed=(1, 1, 1), deadline=NONE, spends="all") -> Outcome:
    """What happens when only some are to train; what stands for the others is no number."""
    plan, seen = three_devices()
    who = np.array(trains, dtype=bool)
    some = replace(
        plan,
        bandwidth_hz=np.where(who, plan.bandwidth_hz, np.nan),
        cpu_hz=np.where(who, plan.cpu_hz, 0.0),
        local_steps=np.where(who, plan.local_steps, 0),
        trains=who,
    )
    return carry_out(some, seen, failing(silent, speed), FailureRules(deadline, spends))


def test_who_is_left_out_neither_fails_nor_is_awaited():
    """Device 1 is left out, silent and slow; device 0 (4 + 2 s) at half its speed, 8 + 2 s."""
    found = left_out((1, 0, 1), silent=(0, 1, 0), speed=(0.5, 0.1, 1))
    assert_array_equal(found.delivered, [True, False, True])
    assert not found.late.any()
    for values in vars(found.cost).values():
        if len(values) == 3 and values is not found.cost.edge_time_s:
            assert values[1] == 0
    assert_allclose(found.cost.edge_time_s, [10, 0, 2])
    assert_allclose(found.delivered_s, [10, 0, 2])
    assert_allclose(found.planned.edge_time_s, [6, 0, 2])
    assert_allclose(found.cost.upload_bytes, [1, 0, 1])
    # Nobody is to train on edge 0: it takes no time, whoever would have failed there.
    found = left_out((0, 0, 1), silent=(1, 1, 0), speed=(0.1, 0.1, 1), deadline=Deadline(seconds=9))
    assert_allclose(found.cost.edge_time_s, [0, 0, 2])
    assert_array_equal(found.lost_s, 0)
    assert_allclose(found.cost.energy_j, [0, 0, 35])


def test_a_deadline_is_of_those_that_train():
    """Planned ends 3 and 8 on edge 0: twice the median is 11, of one alone 6 or 16."""
    _, seen = three_devices()
    twice, planned_s = Deadline(factor=2), np.array([3.0, 8.0, 2.0])

    def of(*trains):
        return twice.of_edges(seen, planned_s, np.array(trains, dtype=bool))

    assert_allclose(of(1, 1, 1), [11, np.inf, 4])
    assert_allclose(of(0, 1, 1), [16, np.inf, 4])
    assert_allclose(of(1, 0, 0), [6, np.inf, np.inf])
    assert_array_equal(of(0, 0, 0), [np.inf] * 3)
    # Late by the deadline of those that train: device 0 at half its speed ends after 10 s.
    found = left_out((1, 0, 1), speed=(0.5, 1, 1), deadline=Deadline(factor=1.5))
    assert_array_equal(found.late, [True, False, False])
    assert_allclose(found.cost.edge_time_s, [9, 0, 2])


@given(
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
    st.one_of(
        st.builds(Deadline),
        st.builds(Deadline, seconds=st.floats(0.1, 30)),
        st.builds(Deadline, factor=st.floats(1, 4)),
    ),
    st.sampled_from(["nothing", "compute", "all"]),
)
def test_whatever_fails(silent, speed, deadline, spends):
    plan, seen = three_devices()
    found = happens(silent, speed, deadline, spends)
    each = found.failures.silent.astype(int) + found.late + found.delivered
    assert_array_equal(each, 1)
    slow = price(replace(plan, cpu_hz=plan.cpu_hz * speed), seen)
    # Nobody pays for more than a whole edge round at its true speed, and who delivers pays it.
    assert (found.cost.energy_j <= slow.energy_j * (1 + 1e-12)).all()
    assert_array_equal(found.cost.energy_j[found.delivered], slow.energy_j[found.delivered])
    assert (found.cost.energy_j >= 0).all()
    assert (found.lost_s >= 0).all()
    ends_s = deadline.of_edges(seen, found.planned.compute_s + found.planned.upload_s, ALL)
    assert (found.cost.edge_time_s <= ends_s * (1 + 1e-9)).all()
    # An edge waits for nothing that nobody planned or did.
    longest = np.maximum(found.planned.edge_time_s, slow.edge_time_s)
    assert (found.cost.edge_time_s <= longest * (1 + 1e-9)).all()
