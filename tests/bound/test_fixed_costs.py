"""What a run takes whatever the plan: worked by hand, and what limits leave beyond it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.bound.other_laws import LEAST_PART, Fixed
from fedrt.bound.whole_run import round_links
from fedrt.studies.bound import beyond_limits
from fedrt.world.laws import Laws
from fedrt.world.observation import Menu, Observation
from fedrt.world.simulated import SimulatedWorld

SEEN = Observation(
    model_bits=1e6,
    local_steps=1,
    gossip_steps=1,
    edge_of_device=np.array([0, 0]),
    cycles=np.full(2, 1e9),
    snr=np.ones(2),
    tx_power_w=np.array([0.2, 0.1]),
    capacitance=np.full(2, 1e-28),
    cpu_min_hz=np.full(2, 1e9),
    cpu_max_hz=np.full(2, 3e9),
    edge_bandwidth_hz=np.array([1e6, 1e6]),
    laws=Laws(
        listen_s=np.array([1.0, 3.0]),
        rx_power_w=np.array([0.5, 0.4]),
        idle_power_w=np.array([0.1, 0.0]),
        overhead_s=2.0,
    ),
)
"""Two devices on the first of two servers. Both listen for the 3 s of the slower one."""


def test_broadcasts_overheads_and_waiting_are_added_up_over_the_run():
    """Per edge round 3 s and 2 s; 1.5 J and 0.2 J of the first device, 1.2 J of the second.

    Computing takes 0.01 J and 0.02 J beyond its cubic law. Two global rounds of two edge rounds.
    """
    fixed = Fixed.of([SEEN] * 4, 2, np.array([0.01, 0.02]))
    np.testing.assert_allclose(fixed.time_s, [[10.0, 0.0]] * 2)
    np.testing.assert_allclose(fixed.energy_j, [4 * 1.71, 4 * 1.22])


def test_who_is_not_there_spends_nothing():
    second = SEEN.only(np.array([False, True]))
    fixed = Fixed.of([SEEN, second], 1, np.zeros(2))
    np.testing.assert_allclose(fixed.energy_j, [1.7, 2.4])


@pytest.mark.parametrize(("bits", "least_s"), [(None, 1.0), (np.array([4e5, 8e5]), 0.4)])
def test_with_power_control_an_upload_takes_what_it_would_over_any_bandwidth(bits, least_s):
    """C/N0 over ln 2 is the greatest rate at full power: here 1e6 bit/s. Of a menu the fewest."""
    menu = None if bits is None else Menu(("int4", "int8"), bits, np.array([0.1, 0.0]), 0.1)
    laws = Laws(cn0_hz=np.full(2, 1e6 * np.log(2)), power_control=True)
    fixed = Fixed.of([replace(SEEN, laws=laws)] * 3, 1, np.zeros(2), menu)
    np.testing.assert_allclose(fixed.energy_j, 3 * least_s * np.array([0.2, 0.1]), rtol=1e-9)


def test_limits_leave_what_is_not_fixed_or_a_trace():
    fixed = Fixed(np.zeros((1, 1)), np.array([1.0, 5.0, 2.0]))
    left_j = fixed.limits_j(np.array([3.0, 4.0, np.inf]))
    np.testing.assert_allclose(left_j, [2.0, 4.0 * LEAST_PART, np.inf])


@pytest.mark.parametrize(("spent_j", "over"), [([2.0, 2.0, 5.0], 0), ([1.0, 2.1, 5.0], 1)])
def test_a_bound_does_not_apply_to_runs_beyond_its_limits(spent_j, over):
    """Limits of 2 J for two devices and none for the third, and 0.2 and 0.3 of mixing."""
    bound = SimpleNamespace(limit_j=np.array([2.0, 2.0, np.inf]), rho=np.array([0.2, 0.3]))
    run = SimpleNamespace(
        spent_j=np.array(spent_j),
        contraction=np.array([0.25, 0.3]),
        unlinked_rounds=4,
        own_steps=True,
        distorted_rounds=3,
    )
    assert beyond_limits(bound, run) == {
        "devices_over_limit": over,
        "rounds_over_rho": 1,
        "rounds_over_consensus_limit": 4,
        "own_local_steps": 1,
        "edge_rounds_over_distortion_limit": 3,
    }
    bound.rho = None
    assert beyond_limits(bound, run)["rounds_over_rho"] == 0


def test_messages_of_a_menus_gossip_have_headers_too():
    """Gossip in the codec of all uploads: with a quarter more bits steps take a quarter longer."""
    plain, longer = (
        SimulatedWorld(tiny(*settings), 0) for settings in ((), ("overheads={header_factor=1.25}",))
    )
    distances = [np.ones((3, 3)) - np.eye(3)] * 4
    menu = Menu(("int4", "int8"), np.array([4e6, 8e6]), np.array([0.1, 0.0]), 0.1)
    steps_s = [round_links(world, distances, None, menu)[0].step_s for world in (plain, longer)]
    links = np.isfinite(steps_s[0])
    assert links.sum() == 6
    np.testing.assert_allclose(steps_s[1][links], 1.25 * steps_s[0][links], rtol=1e-12)
