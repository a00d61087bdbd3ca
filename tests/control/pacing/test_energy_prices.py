"""Prices of energy: which way they move, what is kept back, and what is out of reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.priced import PricedFleet
from fedrt.control.allocation.shares import even_upload_energy_j, slowest_compute_energy_j
from fedrt.control.pacing.energy_prices import (
    MOST_MOVE,
    MOST_PRICE,
    WORTH,
    Prices,
    Spending,
    adjust,
    least_price_s_per_j,
    saved_w,
    spending,
)
from fedrt.control.pacing.expected_finish import (
    allocate_with_foresight,
    guessed_later_s,
    soft_share_last,
)
from fedrt.cost.uplink import hertz_seconds
from fedrt.ledger import Pace, ReferenceRound
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical

WORLD = SimulatedWorld(tiny(), 0)
SEEN = WORLD.observe(0, 0)


def pace_of(budget_j, spent_j=0.0, rounds_left=10.0, most_rounds_left=10):
    return Pace(
        device=np.arange(7),
        fleet_size=7,
        budget_j=np.broadcast_to(np.asarray(budget_j, dtype=float), 7),
        spent_j=np.broadcast_to(np.asarray(spent_j, dtype=float), 7),
        rounds_left=np.full(7, rounds_left),
        most_rounds_left=most_rounds_left,
        t=0,
        r=0,
        edge_rounds=2,
        time_s=0.0,
    )


def fedrt_of(spent_j, energy_j):
    """FedRT beside, that has spent this much and plans to spend that much."""
    return ReferenceRound(
        spent_j=np.broadcast_to(np.asarray(spent_j, dtype=float), 7),
        bandwidth_hz=np.ones(7),
        cpu_hz=np.ones(7),
        energy_j=np.broadcast_to(np.asarray(energy_j, dtype=float), 7),
        allowance_j=np.full(7, np.inf),
        elapsed_s=np.zeros(3),
        end_s=np.inf,
        time_s=0.0,
        links=None,
        contraction=1.0,
        slowness=None,
    )


def start(budget_j, energy_j=2.0):
    """The first edge round of ten; FedRT plans for `energy_j`."""
    pace = pace_of(budget_j)
    return pace, *spending(Prices.unknown(7), SEEN, pace, fedrt_of(0.0, energy_j))


def test_a_price_rises_after_spending_more_than_an_equal_part_and_falls_after_less():
    pace, prices, now = start(20.0)
    np.testing.assert_array_equal(now.target_j, 2.0)
    energy_j = np.array([1.0, 2.0, 3.0, 2.0, 2.0, 2.0, 100.0])
    moved = np.log(adjust(prices, pace, now, energy_j).price_s_per_j / prices.price_s_per_j)
    assert moved[0] < 0 < moved[2] < moved[6] <= MOST_MOVE
    np.testing.assert_array_equal(moved[[1, 3, 4, 5]], 0.0)


def test_no_price_falls_below_the_least():
    pace, prices, now = start(1e6)
    for _ in range(50):
        prices, now = spending(prices, SEEN, pace, fedrt_of(0.0, 2.0))
        prices = adjust(prices, pace, now, np.zeros(7))
    _, now = spending(prices, SEEN, pace, fedrt_of(0.0, 2.0))
    np.testing.assert_allclose(now.price_s_per_j, least_price_s_per_j(SEEN))


@pytest.mark.parametrize("ratio", [1.2, 25.0, 1e4])
def test_at_the_least_price_full_speed_is_worth_next_to_nothing_however_slow_f_min_is(ratio):
    """All joules of a cluster at f_max and the even share, priced: WORTH of a C-th of its time."""
    seen = replace(SEEN, cpu_min_hz=SEEN.cpu_max_hz / ratio)
    energy_j = seen.capacitance / 2 * seen.cycles * seen.cpu_max_hz**2 + even_upload_energy_j(seen)
    share_hz = (seen.edge_bandwidth_hz / seen.cluster_size)[seen.edge_of_device]
    upload_s = hertz_seconds(seen.model_bits, seen.snr) / share_hz
    time_s = seen.max_by_edge(seen.cycles / seen.cpu_max_hz + upload_s)
    worth_s = seen.sum_by_edge(least_price_s_per_j(seen) * energy_j)
    np.testing.assert_allclose(worth_s, WORTH * time_s / seen.num_edges, rtol=1e-12)
    # Without budgets the plan is then as quick as can be, to a part in a thousand.
    fleet = PricedFleet(seen, least_price_s_per_j(seen), np.full(7, np.inf))
    at_equal_worth_s = fleet.at_price(np.full(3, 1 / 3))
    assert np.all(at_equal_worth_s <= fleet.least_s * 1.001)


def test_a_device_may_have_spent_what_fedrt_has_and_no_more():
    """FedRT: 5 J and 3 J more. Who has spent the same may spend 3 J; who has spent 6 J, 2 J.

    Who has spent 1 J has saved 4 J, and may spend half of them now: 5 J.
    """
    reference = fedrt_of(5.0, 3.0)
    for spent_j, most_j in ((5.0, 3.0), (6.0, 2.0), (1.0, 5.0)):
        _, now = spending(Prices.unknown(7), SEEN, pace_of(40.0, spent_j), reference)
        np.testing.assert_allclose(now.cap_j, most_j)
    # In the run's last edge round all of it, and what FedRT leaves of the budget if that is wanted.
    last = pace_of(40.0, 1.0, 1.0, 1)
    _, now = spending(Prices.unknown(7), SEEN, last, reference)
    np.testing.assert_allclose(now.cap_j, 39.0)
    _, now = spending(Prices.unknown(7), SEEN, last, reference, may_use_rest=False)
    np.testing.assert_allclose(now.cap_j, 7.0)


@pytest.mark.parametrize("most_rounds_left", [2, 3, 4])
def test_the_rest_of_a_budget_waits_for_the_very_last_edge_round(most_rounds_left):
    """FedRT has spent 5 J and plans 3 J, the budget has 40 J: of 7 J it may spend 5 J."""
    pace = pace_of(40.0, 1.0, 1.0, most_rounds_left)
    _, now = spending(Prices.unknown(7), SEEN, pace, fedrt_of(5.0, 3.0))
    np.testing.assert_allclose(now.cap_j, 5.0)


def test_where_no_allocation_keeps_the_caps_the_given_one_is_taken():
    """Cluster 0 may spend less than computing at f_min takes: it gets the other allocation."""
    other = allocate(SEEN, np.full(7, 3.0))
    cap_j = np.where(SEEN.edge_of_device == 0, 0.5 * slowest_compute_energy_j(SEEN), 2.5)
    fleet = PricedFleet(SEEN, least_price_s_per_j(SEEN), cap_j, other)
    assert fleet.fastest.relaxed.tolist() == [True, False, False]
    own = allocate(SEEN, np.full(7, 2.5))
    first = SEEN.edge_of_device == 0
    for name in ("bandwidth_hz", "cpu_hz"):
        theirs, mine = getattr(other, name), getattr(own, name)
        np.testing.assert_array_equal(getattr(fleet.fastest, name), np.where(first, theirs, mine))


def test_no_limit_has_the_least_price_and_no_cap():
    pace, prices, now = start(np.inf)
    np.testing.assert_allclose(now.price_s_per_j, least_price_s_per_j(SEEN))
    assert np.isinf(now.cap_j).all()
    after = adjust(prices, pace, now, np.ones(7))
    np.testing.assert_array_equal(after.price_s_per_j, prices.price_s_per_j)


def test_budgets_that_fedrt_cannot_keep_pace_at_what_it_spends():
    """10 rounds, 20 J: 2 J a round. FedRT takes 3 J a round, so it ends at 30 J: 3 J a round."""
    _, prices, now = start(20.0, 3.0)
    np.testing.assert_allclose(now.target_j, 3.0)
    # 1 J in the first round, FedRT 3 and now 4 J: it will end at 3.5 J a round, 35 J in all.
    pace = pace_of(20.0, 1.0, 9.0, 9)
    _, now = spending(prices, SEEN, pace, fedrt_of(3.0, 4.0))
    np.testing.assert_allclose(now.target_j, (35.0 - 1.0) / 9)


def test_devices_that_stay_away_are_left_as_they_are():
    some = np.array([0, 2, 3])
    part = WORLD.observe(0, 0, some)
    whole, fedrt = pace_of(20.0), fedrt_of(0.0, 2.0)
    arrays = ("budget_j", "spent_j", "rounds_left")
    pace = replace(whole, device=some, **{name: getattr(whole, name)[some] for name in arrays})
    arrays = ("spent_j", "bandwidth_hz", "cpu_hz", "energy_j", "allowance_j")
    beside = replace(fedrt, **{name: getattr(fedrt, name)[some] for name in arrays})
    prices, now = spending(Prices.unknown(7), part, pace, beside)
    prices = adjust(prices, pace, now, np.full(3, 5.0))
    others = np.setdiff1d(np.arange(7), some)
    assert not prices.price_s_per_j[others].any()
    assert prices.price_s_per_j[some].all()
    prices, _ = spending(prices, SEEN, whole, fedrt)
    assert prices.price_s_per_j.all()


def test_no_cluster_takes_longer_than_it_may():
    """At dear energy those who are not last slow down; a limit below that binds, none does not."""
    dear = np.full(7, 1e3) * least_price_s_per_j(SEEN)
    fleet = PricedFleet(SEEN, dear, np.full(7, np.inf))
    nominal_s = fleet.at_price(np.full(3, 1 / 3))
    later_s, none_s = np.zeros((1, 3)), np.zeros(3)

    def times_s(most_s):
        found = allocate_with_foresight(fleet, none_s, nominal_s, later_s, most_s)
        upload_s = hertz_seconds(SEEN.model_bits, SEEN.snr) / found.bandwidth_hz
        return SEEN.max_by_edge(SEEN.cycles / found.cpu_hz + upload_s)

    free_s = times_s(np.full(3, np.inf))
    assert np.argmax(free_s) == 1
    assert np.all(free_s[[0, 2]] > fleet.least_s[[0, 2]] * 1.01)
    most_s = np.array([0.5 * (free_s[0] + fleet.least_s[0]), np.inf, 0.0])
    held_s = times_s(most_s)
    np.testing.assert_allclose(held_s, [most_s[0], free_s[1], fleet.least_s[2]], rtol=1e-6)


def test_the_slowest_to_come_is_worth_most():
    later_s = np.array([[10.0, 0.0], [0.0, 2.0], [0.0, 10.0], [0.0, 30.0]])
    share = soft_share_last(np.array([0.0, 0.0]) + later_s, 1e-3)
    np.testing.assert_allclose(share, [0.25, 0.75])
    np.testing.assert_allclose(soft_share_last(later_s, 1e9), 0.5)
    np.testing.assert_array_equal(guessed_later_s(np.array([1.0, 3.0]), 2), [[4.0, 4.0]])


def test_a_price_moves_by_a_part_of_what_was_spent_beyond_its_target():
    """Target 2 J: 3 J is half of it over, so exp(0.15 / 2); 1 J as much under; nothing, exp(-0.15).

    100 J is far over: exp(0.5) is the most. So it is for a device that has nothing left.
    """
    pace = pace_of(20.0)
    target_j = np.array([2.0, 2.0, 2.0, 2.0, 2.0, np.inf, -1.0])
    energy_j = np.array([3.0, 1.0, 0.0, 100.0, 2.0, 3.0, 3.0])
    prices = Prices(np.arange(1.0, 8.0), np.ones(7), np.full(7, 5.0))
    after = adjust(prices, pace, Spending(np.ones(7), np.ones(7), target_j), energy_j)
    move = [0.075, -0.075, -0.15, 0.5, 0.0, 0.0, 0.5]
    np.testing.assert_allclose(after.price_s_per_j, np.arange(1.0, 8.0) * np.exp(move), rtol=1e-12)
    assert after.rounds is prices.rounds
    assert after.fedrt_j is prices.fedrt_j
    # Those who are away keep theirs.
    some = replace(pace, device=np.array([2]))
    one = Spending(np.ones(1), np.ones(1), np.array([2.0]))
    after = adjust(prices, some, one, np.array([3.0]))
    np.testing.assert_allclose(after.price_s_per_j, [1, 2, 3 * np.exp(0.075), 4, 5, 6, 7])


def test_a_first_price_makes_the_budget_last_if_a_cluster_holds_up_one_round_in_three():
    """A device spends its target on average: at f in one round of three, at f_min in two.

    One more second of the cluster is then worth as much as what its devices save by it, an equal
    part each: N price d(a f^2) = d(W / f), with a f^2 joules and W / f seconds.
    """
    slow = replace(SEEN, cpu_min_hz=SEEN.cpu_min_hz / 10, cpu_max_hz=SEEN.cpu_max_hz * 10)
    upload_j = even_upload_energy_j(slow).mean()
    a = slow.capacitance / 2 * slow.cycles
    at_hz = np.linspace(1e9, 4e9, 7)
    target_j = upload_j + (a * at_hz**2 + 2 * a * slow.cpu_min_hz**2) / 3
    pace = pace_of(10 * target_j)
    prices, now = spending(Prices.unknown(7), slow, pace, fedrt_of(0.0, 1e-3))
    np.testing.assert_allclose(now.target_j, target_j, rtol=1e-12)
    size = np.array([2, 2, 3, 3, 3, 2, 2])
    saved_j_per_hz, lost_s_per_hz = 2 * a * at_hz, slow.cycles / at_hz**2
    by_hand = lost_s_per_hz / (size * saved_j_per_hz)
    np.testing.assert_allclose(now.price_s_per_j, by_hand, rtol=1e-9)
    np.testing.assert_array_equal(prices.price_s_per_j, now.price_s_per_j)
    # Who could go faster than f_max has the least price: its budget does not bind.
    rich = pace_of(10 * (upload_j + a * (SEEN.cpu_max_hz * 10) ** 2))
    _, now = spending(Prices.unknown(7), slow, rich, fedrt_of(0.0, 1e-3))
    np.testing.assert_array_equal(now.price_s_per_j, least_price_s_per_j(slow))
    # Who cannot even afford f_min starts as if it could.
    _, now = spending(Prices.unknown(7), SEEN, pace_of(1e-6), fedrt_of(0.0, 1e-9))
    by_hand = 1 / (SEEN.capacitance * SEEN.cpu_min_hz**3 * size)
    np.testing.assert_allclose(now.price_s_per_j, by_hand, rtol=1e-12)


def test_only_newcomers_get_a_first_price_and_all_stay_between_the_least_and_the_most():
    least = least_price_s_per_j(SEEN)
    known = np.array([0.0, 1e-3, 5.0, 5.0, 1e12, 5.0, 5.0]) * least
    seen_before = np.array([0.0, 3.0, 3.0, 0.0, 3.0, 3.0, 3.0])
    pace, fedrt = pace_of(np.inf), fedrt_of(0.0, 2.0)
    prices, now = spending(Prices(known, seen_before, 2 * seen_before), SEEN, pace, fedrt)
    # Without a limit a newcomer's is the least, whatever was written down for it.
    by_hand = np.array([1.0, 1.0, 5.0, 1.0, MOST_PRICE, 5.0, 5.0]) * least
    np.testing.assert_allclose(now.price_s_per_j, by_hand, rtol=1e-12)
    np.testing.assert_array_equal(prices.rounds, seen_before + 1)
    np.testing.assert_array_equal(prices.fedrt_j, 2 * seen_before + 2)


def test_what_was_saved_is_kept_for_later_unless_it_is_the_last_round():
    """FedRT has spent 5 J and plans 3 J; the budget of 7 J it will break by one."""
    fedrt = fedrt_of(5.0, 3.0)
    for most_rounds_left, cap_j in ((2, 5.0), (1, 7.0)):
        pace = pace_of(7.0, 1.0, 1.0, most_rounds_left)
        _, now = spending(Prices.unknown(7), SEEN, pace, fedrt)
        np.testing.assert_allclose(now.cap_j, cap_j)
        np.testing.assert_allclose(now.target_j, 7.0)


def table_world():
    """The tiny world in which all CPUs are one table: 1, 2 and 3 GHz at 1, 3 and 6 nJ a cycle."""
    table = "fleet.cpu_table={hz=[1e9,2e9,3e9],joules_per_cycle=[1e-9,3e-9,6e-9]}"
    ends = ("fleet.cpu_min_hz=1e9", "fleet.cpu_max_hz=3e9")
    return SimulatedWorld(tiny(*ends, table), 0).observe(0, 0)


def test_what_a_second_of_computing_saves_with_a_table():
    """Per cycle 1, 1/2 and 1/3 ns: from 1/3 to 1/2 ns it saves 3 nJ, so 18 W; then 2 nJ, 4 W."""
    seen = table_world()
    cpu_hz = np.array([3e9, 2.5e9, 2.1e9, 1.9e9, 1.5e9, 1.1e9, 1e9])
    np.testing.assert_allclose(saved_w(seen, cpu_hz), [18, 18, 18, 4, 4, 4, 4])
    np.testing.assert_allclose(saved_w(SEEN, cpu_hz), SEEN.capacitance * cpu_hz**3)


def test_the_first_price_with_a_table():
    """A device that can afford its top frequency where it matters has the least price.

    With less, a second of its cluster is worth 1, of which it bears its part: the price is one over
    the watts that slowing down saves there, 4 or 18, and over the devices of the cluster.
    """
    seen = table_world()
    allowance_j = slowest_compute_energy_j(seen) + even_upload_energy_j(seen).mean()
    _, ample = spending(Prices.unknown(7), seen, pace_of(1e6), fedrt_of(0.0, 1.0))
    np.testing.assert_allclose(ample.price_s_per_j, least_price_s_per_j(seen))
    _, scarce = spending(Prices.unknown(7), seen, pace_of(10 * allowance_j), fedrt_of(0.0, 0.0))
    size = seen.cluster_size[seen.edge_of_device]
    np.testing.assert_allclose(scarce.price_s_per_j, 1 / (4 * size))


def test_the_least_price_under_other_laws_knows_their_times():
    """Spread noise of the same SNR over an even share: the same times, so the same price."""
    even_hz = (SEEN.edge_bandwidth_hz / np.maximum(SEEN.cluster_size, 1))[SEEN.edge_of_device]
    spread = replace(SEEN, laws=replace(SEEN.laws, cn0_hz=SEEN.snr * even_hz))
    np.testing.assert_allclose(least_price_s_per_j(spread), least_price_s_per_j(SEEN))
    weaker = replace(SEEN, laws=replace(SEEN.laws, cn0_hz=SEEN.snr * even_hz / 4))
    assert (least_price_s_per_j(weaker) != least_price_s_per_j(SEEN)).all()
